"""Progress on stderr: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from torch import Tensor

from whorl.reporter import Silent
from whorl.scores import TaskScores


class Meter:
    """Counts images and tells the rate of the last half minute and the time left."""

    def __init__(self) -> None:
        self.total, self.done = 0, 0
        self._marks: list[tuple[float, int]] = []

    def begin(self, total: int, done: int) -> None:
        """``total`` images are to come, ``done`` of them are behind."""
        self.total, self.done = total, done

    def add(self, images: int) -> None:
        """``images`` more are done."""
        now = time.monotonic()
        self.done += images
        self._marks.append((now, images))
        while now - self._marks[0][0] > 30:
            self._marks.pop(0)

    @property
    def rate(self) -> float:
        """Images a second."""
        if len(self._marks) < 2:
            return 0.0
        return sum(n for _, n in self._marks[1:]) / max(self._marks[-1][0] - self._marks[0][0], 1e-9)

    @property
    def left(self) -> str:
        """The time left, as people say it."""
        return duration((self.total - self.done) / self.rate) if self.rate else "…"


def duration(seconds: float) -> str:
    """``75`` → ``1m15s``."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"


class Plain(Silent):
    """One line an epoch."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.tasks = 0

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Remember how much there is to do."""
        self.tasks = tasks
        self.meter.begin(images, done)

    def tick(self, images: int, loss: Tensor) -> None:
        """Count."""
        self.meter.add(images)

    def epoch(self, record: dict[str, Any]) -> None:
        """Say how the epoch went."""
        rate = f"{record['images_per_second']:.0f} images/s"
        self.say(f"{self.place(record)}  loss {record['loss']:.4f}  {rate}  {self.left()}")

    def scored(self, step: TaskScores) -> None:
        """Say how the task went."""
        quality = "" if step.label_acc is None else f"  pseudo labels {step.label_acc:.3f}"
        self.say(f"task {step.task}/{self.tasks} learned: acc {step.acc or 0:.3f} over {step.classes} classes{quality}")

    def place(self, record: dict[str, Any]) -> str:
        """Where an epoch stands."""
        return f"task {record['task']}/{self.tasks}  {record['phase']}  epoch {record['epoch']}/{record['epochs']}"

    def left(self) -> str:
        """The time left."""
        return f"{self.meter.left} left"

    def say(self, line: str) -> None:
        """A line on stderr."""
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to put away."""


class Live(Plain):
    """A bar that moves with every batch."""

    def __init__(self) -> None:
        super().__init__()
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[status]}")
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
        self.row = self.bar.add_task("", total=None, status="")
        self._where, self._next = "", 0.0
        self.bar.start()

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Set the bar's length."""
        super().begin(tasks, images, done)
        self.bar.update(self.row, total=images, completed=done)

    def task(self, task: int, classes: int) -> None:
        """Name the task."""
        self._where = f"task {task}/{self.tasks}"
        self.bar.update(self.row, description=self._where, status="looking at the new images")

    def tick(self, images: int, loss: Tensor) -> None:
        """Move the bar; asking for the loss stops the device, so only as often as a person can read."""
        super().tick(images, loss)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            status = f"loss {loss.item():.3f}  {self.meter.rate:.0f} images/s  {self.left()}"
            self.bar.update(self.row, completed=self.meter.done, description=self._where, status=status)

    def epoch(self, record: dict[str, Any]) -> None:
        """Name the epoch that begins now."""
        self._where = self.place({**record, "epoch": min(record["epoch"] + 1, record["epochs"])})

    def say(self, line: str) -> None:
        """A line above the bar."""
        self.bar.console.print(line, highlight=False)

    def close(self) -> None:
        """Take the bar away."""
        self.bar.stop()


class Quiet(Silent):
    """Says nothing."""

    def close(self) -> None:
        """Nothing to put away."""


@contextmanager
def reporter(quiet: bool) -> Iterator[Plain | Quiet]:
    """The reporter that fits where stderr goes."""
    chosen = Quiet() if quiet else Live() if sys.stderr.isatty() else Plain()
    try:
        yield chosen
    finally:
        chosen.close()
