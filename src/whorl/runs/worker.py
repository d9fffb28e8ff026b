"""A process that runs configs one after another for a grid. Orders come in on stdin, events go out on stdout.

Both are JSON, one document a line. The end of stdin means that whoever gave the orders is gone: the worker ends at
once, wherever it is, which a run's folder always survives.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import torch
from torch import Tensor

from whorl.config import Config, DataConfig, checked
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.reporter import Record, Silent
from whorl.runs.files import write_text
from whorl.runs.store import Busy, Run
from whorl.runtime import Runtime

QUIET = 0.5
"""Seconds between two events about progress."""
PATIENCE = 2.0
"""Seconds to wait for another process that works on a run."""


class Wire(Silent):
    """Tells of a run's progress on the other side of a pipe."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._images, self._next = out, 0, 0.0

    def send(self, event: str, **values: Any) -> None:
        """One event."""
        self._out.write(json.dumps({"event": event, **values}).encode() + b"\n")
        self._out.flush()

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Say how much there is to do."""
        self._images = done
        self.send("begin", tasks=tasks, images=images, done=done)

    def tick(self, images: int, loss: Tensor) -> None:
        """Count, and now and then say so."""
        self._images += images
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + QUIET
            self.send("progress", images=self._images)

    def scored(self, step: Record) -> None:
        """Say how a task went."""
        self.send("scored", task=step["task"], acc=step["acc"], images=self._images)


def main() -> None:
    """Run what comes in until nothing does any more."""
    wire, incoming = Wire(os.fdopen(os.dup(1), "wb")), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get in between
    # Processes that read images are forked, and close their stdin: it must not be the one a thread here waits on.
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stdin.fileno(), 0)
    warnings.showwarning = lambda message, *_, **__: wire.send("note", line=str(message))
    orders: queue.Queue[Record] = queue.Queue()
    threading.Thread(target=_listen, args=(incoming, orders), daemon=True).start()
    setup = orders.get()
    torch.set_num_threads(setup["threads"])
    out, runtime = Path(setup["out"]), Runtime(**setup["runtime"])
    images = _Images(setup["data_dirs"], runtime.workers, wire)
    wire.send("ready")
    while True:
        order = orders.get()
        config, wanted = checked(Config, order["config"]), checked(DataConfig, order["data"])
        try:
            result = run(config, images.of(wanted, config), out, runtime, wire, first=_usable(order["first"]))
            _error_file(out, config).unlink(missing_ok=True)
            wire.send("done", avg=result.summary["avg"], last=result.summary["last"])
        except Busy:
            time.sleep(PATIENCE)
            wire.send("busy")
        except WhorlError as error:
            wire.send("failed", reason=str(error))
        except Exception as error:  # one run's bug must not end the others; the whole story goes into its folder
            wire.send("failed", reason=_told(error, _error_file(out, config)))


class _Images:
    """The data set of the last config; runs that follow each other mostly share it."""

    def __init__(self, directories: dict[str, str], workers: int, wire: Wire) -> None:
        self._directories, self._workers, self._wire = directories, workers, wire
        self._held: tuple[DataConfig, Dataset] | None = None

    def of(self, wanted: DataConfig, config: Config) -> Dataset:
        """The images that are wanted, which must be those the config was made for."""
        if self._held is None or self._held[0] != wanted:
            where = self._directories.get(wanted.name)
            found, data = load_configured(wanted, Path(where) if where else None, False, self._workers, self._note)
            if found != config.data:
                raise WhorlError(f"the images of {wanted.name} have changed since this command began; start it again")
            self._held = wanted, data
        return self._held[1]

    def _note(self, line: str) -> None:
        self._wire.send("note", line=line)


def _usable(path: str | None) -> Run | None:
    """The run to take the first task from; one that can no longer be read is no reason to fail."""
    if path is None:
        return None
    try:
        first = Run.open(Path(path))
        first.load_first(), first.scores()["steps"][0]
    except (WhorlError, IndexError) as error:
        warnings.warn(f"the first task of {path} cannot be used and is trained anew: {error}", stacklevel=1)
        return None
    return first


def _error_file(out: Path, config: Config) -> Path:
    return Run.at(out, config).path / "error.txt"


def _told(error: Exception, file: Path) -> str:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        write_text(file, traceback.format_exc())
    except WhorlError:
        return reason
    return f"{reason} (a bug; {file} has the whole story)"


def _listen(incoming: TextIO, orders: queue.Queue[Record]) -> None:
    for line in incoming:
        orders.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
