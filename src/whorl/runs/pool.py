"""The worker processes of a grid, seen from the process that gives the orders."""

from __future__ import annotations

import json
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

from whorl.reporter import Record

LAST_WORDS = 5
"""Lines of a worker's stderr that are kept, for telling why it ended."""


@dataclass(eq=False)
class Worker:
    """One process."""

    process: subprocess.Popen[str]
    ready: bool = False
    """Whether it has said that it takes orders."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))

    def send(self, order: Record) -> None:
        """Give an order. A worker that is no more says so by its ``ended`` event."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process and those that it started to read images, which would keep its pipes open."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Pool:
    """Starts workers, collects what they say, and leaves none behind."""

    def __init__(self, setup: Record) -> None:
        self._setup = setup
        self._events: queue.Queue[tuple[Worker, Record]] = queue.Queue()
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
            with suppress(BrokenPipeError):  # an order that it did not live to read
                worker.process.communicate()

    def start(self) -> Worker:
        """One more worker."""
        # A session of its own, so that Ctrl-C reaches the process that gives the orders and no other.
        process = subprocess.Popen(
            [sys.executable, "-m", "whorl.runs.worker"],
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
        last_words = threading.Thread(target=worker.said.extend, args=(_stripped(process.stderr),), daemon=True)
        last_words.start()
        threading.Thread(target=_reap, args=(worker,), daemon=True).start()
        listener = threading.Thread(target=self._listen, args=(worker, process.stdout, last_words), daemon=True)
        listener.start()
        self._listeners.append(listener)
        worker.send(self._setup)
        return worker

    def next_event(self, timeout: float) -> tuple[Worker, Record] | None:
        """What a worker has said, or None if none has for so many seconds. The last of each is ``ended``."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def _listen(self, worker: Worker, lines: IO[str], last_words: threading.Thread) -> None:
        for line in lines:
            with suppress(ValueError):  # the last line of one that was killed while it wrote
                self._events.put((worker, json.loads(line)))
        code = worker.process.wait()
        last_words.join()
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        told = f": {worker.said[-1]}" if worker.said else ""
        self._events.put((worker, {"event": "ended", "reason": f"its process ended unexpectedly ({why}){told}"}))


def _reap(worker: Worker) -> None:
    worker.process.wait()
    worker.kill()


def _stripped(lines: Iterable[str]) -> Iterable[str]:
    return (line.strip() for line in lines if line.strip())
