"""A process that runs one config after another for a grid: ``python -m whorl.grid.worker``.

Orders arrive on stdin, events leave on stdout. The end of stdin means that the process that gave the orders is gone.
The worker then ends immediately, in the middle of a run if need be; a run's folder survives that at any moment.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TextIO

import torch
from torch import Tensor

from whorl.config import ExperimentConfig
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.errors import WhorlError, out_of_memory
from whorl.experiment import run
from whorl.grid import messages
from whorl.grid.messages import Message, Order, Setup
from whorl.reporter import Silent
from whorl.runs.changed import earlier_data
from whorl.runs.files import write_text
from whorl.runs.run import Run, RunBusy
from whorl.scores import TaskScores
from whorl.sections import DataConfig

PROGRESS_SECONDS = 0.5
"""Time between two progress events."""
RETRY_SECONDS = 2.0
"""Time to wait before a run that another process is working on is reported as busy."""


class Wire(Silent):
    """Sends a run's progress to the pool."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._images, self._next = out, 0, 0.0

    def send(self, message: Message) -> None:
        """Write one event."""
        self._out.write(message.line().encode())
        self._out.flush()

    def note(self, text: str) -> None:
        """Send a line for the user."""
        self.send(messages.Note(text=text))

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Send how much there is to do."""
        self._images = done
        self.send(messages.Begin(tasks=tasks, images=images, done=done))

    def tick(self, images: int, loss: Tensor) -> None:
        """Count the images, and send the count every :data:`PROGRESS_SECONDS`."""
        self._images += images
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            self.send(messages.Progress(images=self._images))

    def scored(self, step: TaskScores) -> None:
        """Send that a task is finished."""
        self.send(messages.Scored(task=step.task, images=self._images))


def main() -> None:
    """Run every order that arrives until stdin ends."""
    wire, incoming = Wire(os.fdopen(os.dup(1), "wb")), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)  # output that a library prints must not mix with the events
    # Processes that read images are forked and close their stdin: it must not be the one that a thread here reads.
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stdin.fileno(), 0)
    warnings.showwarning = lambda message, *_, **__: wire.note(str(message))
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(incoming, lines), daemon=True).start()
    setup = Setup.model_validate_json(lines.get())
    torch.set_num_threads(setup.threads)
    images = _Images(setup, wire)
    wire.send(messages.Ready())
    while True:
        wire.send(_perform(Order.model_validate_json(lines.get()), setup, images, wire))


def _perform(
    order: Order, setup: Setup, images: _Images, wire: Wire
) -> messages.Done | messages.Busy | messages.Failed:
    out, config = Path(setup.out), order.config
    error_file = Run.at(out, config).path / "error.txt"
    try:
        data = images.load(order.data, config)
        result = run(config, data, out, setup.runtime, wire, task1=_task1(order.task1))
        with suppress(OSError):
            error_file.unlink(missing_ok=True)
        return messages.Done(avg=result.summary.avg, last=result.summary.last)
    except RunBusy:
        time.sleep(RETRY_SECONDS)
        return messages.Busy()
    except WhorlError as error:
        return messages.Failed(reason=str(error))
    except Exception as error:  # a bug in one run must not end the others; its traceback goes into the run's folder
        if out_of_memory(error):
            return messages.Failed(reason="there is not enough memory for it beside the other runs; lower `jobs`")
        return messages.Failed(reason=_report_bug(error, error_file))


class _Images:
    """The data set of the last order; consecutive runs usually share it."""

    def __init__(self, setup: Setup, wire: Wire) -> None:
        self._setup, self._wire = setup, wire
        self._held: tuple[DataConfig, Dataset] | None = None

    def load(self, wanted: DataConfig, config: ExperimentConfig) -> Dataset:
        """The wanted images; raises where they are no longer those the config was made for."""
        if self._held is None or self._held[0] != wanted:
            where, workers = self._setup.data_dirs.get(wanted.name), self._setup.runtime.workers
            found, data = load_configured(wanted, Path(where) if where else None, False, workers, self._wire.note)
            if config.data not in (found, earlier_data(found, data)):
                raise WhorlError(f"the images of {wanted.name} have changed since this command began; start it again")
            self._held = wanted, data
        return self._held[1]


def _task1(path: str | None) -> Run | None:
    """The run whose task 1 is reused; one that cannot be read any more is a warning and not a failure."""
    if path is None:
        return None
    try:
        found = Run.open(Path(path))
        if found.has_task1():
            return found
        reason = "it is missing or damaged"
    except WhorlError as error:
        reason = str(error)
    warnings.warn(f"task 1 of {path} cannot be reused and is trained again: {reason}", stacklevel=1)
    return None


def _report_bug(error: Exception, file: Path) -> str:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        write_text(file, traceback.format_exc())
    except WhorlError:
        return reason
    return f"{reason} (a bug; the traceback is in {file})"


def _listen(incoming: TextIO, lines: queue.Queue[str]) -> None:
    for line in incoming:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
