"""The worker processes of a grid, as the process that gives the orders sees them."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from whorl.grid.messages import Ended, Event, Order, Setup, parse_event

LAST_LINES = 5
"""Lines of a worker's stderr that are kept, to explain why it ended."""


@dataclass(eq=False)
class Worker:
    """One process."""

    process: subprocess.Popen[str]
    ready: bool = False
    """Whether it has reported that it accepts orders."""
    stderr: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def send(self, message: Setup | Order) -> None:
        """Write a message to the worker. If the process is gone, its ``Ended`` event reports that."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(message.line())
            self.process.stdin.flush()

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process and the processes it started to read images, which would keep its pipes open."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)


class Pool:
    """Starts workers, collects their events, and kills them all at the end."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._events: queue.Queue[tuple[Worker, Event]] = queue.Queue()
        self._listeners: list[threading.Thread] = []
        self.workers: list[Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        for listener in self._listeners:
            listener.join()
        for worker in self.workers:
            with suppress(BrokenPipeError):  # an order that the worker did not read before it ended
                worker.process.communicate()

    def start(self) -> Worker:
        """Start another worker."""
        # In a new session, so that Ctrl-C reaches only the process that gives the orders.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "whorl.grid.worker"],  # -P: nothing is imported from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        worker = Worker(process)
        self.workers.append(worker)
        assert process.stdout is not None
        assert process.stderr is not None
        stderr = threading.Thread(target=worker.stderr.extend, args=(_stripped(process.stderr),), daemon=True)
        stderr.start()
        threading.Thread(target=_reap, args=(worker,), daemon=True).start()
        listener = threading.Thread(target=self._listen, args=(worker, process.stdout, stderr), daemon=True)
        listener.start()
        self._listeners.append(listener)
        worker.send(self._setup)
        return worker

    def next_event(self, timeout: float) -> tuple[Worker, Event] | None:
        """The next event of any worker, or None after ``timeout`` seconds. The last event of a worker is ``Ended``."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def _listen(self, worker: Worker, lines: IO[str], stderr: threading.Thread) -> None:
        for line in lines:
            with suppress(ValueError):  # the last line of a process that was killed while it wrote
                self._events.put((worker, parse_event(line)))
        code = worker.process.wait()
        stderr.join()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = f": {worker.stderr[-1]}" if worker.stderr else ""
        self._events.put((worker, Ended(reason=f"its process ended unexpectedly ({how}){last}")))


def _reap(worker: Worker) -> None:
    worker.process.wait()
    worker.kill()


def _stripped(lines: Iterable[str]) -> Iterable[str]:
    return (line.strip() for line in lines if line.strip())
