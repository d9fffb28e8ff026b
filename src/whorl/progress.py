"""Progress on stderr: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from torch import Tensor

from whorl.reporter import EpochRecord, Silent
from whorl.scores import TaskScores


class Meter:
    """Counts images, and estimates the time left from the speed of the last 30 seconds."""

    def __init__(self) -> None:
        self.total: int = 0
        self.done: int = 0
        self._marks: list[tuple[float, int]] = []

    def begin(self, total: int, done: int) -> None:
        """Set the number of images, and how many of them are processed already."""
        self.total, self.done = total, done

    def add(self, images: int) -> None:
        """Count ``images`` more."""
        now = time.monotonic()
        self.done += images
        self._marks.append((now, images))
        while now - self._marks[0][0] > 30:
            self._marks.pop(0)

    @property
    def rate(self) -> float:
        """Images per second."""
        if len(self._marks) < 2:
            return 0.0
        return sum(n for _, n in self._marks[1:]) / max(self._marks[-1][0] - self._marks[0][0], 1e-9)

    @property
    def left(self) -> str:
        """The estimated time left, such as ``1m15s``."""
        return duration((self.total - self.done) / self.rate) if self.rate else "…"


def duration(seconds: float) -> str:
    """``75`` → ``1m15s``."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"


class Quiet(Silent):
    """Prints no progress, only lines that the user should read."""

    def note(self, text: str) -> None:
        """Print the line."""
        self.print(text)

    def print(self, line: str) -> None:
        """Print a line on stderr."""
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """There is nothing to close."""


class Lines(Quiet):
    """Prints one line per epoch."""

    def __init__(self, unit: str = "task") -> None:
        self.meter: Meter = Meter()
        self.unit: str = unit
        self.tasks: int = 0

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Store how much there is to do. ``tasks`` is 0 if their number is not known."""
        self.tasks = tasks
        self.meter.begin(images, done)

    def tick(self, images: int, loss: Tensor) -> None:
        """Count the images."""
        self.meter.add(images)

    def epoch(self, record: EpochRecord) -> None:
        """Print the loss and the speed of the epoch."""
        rate = f"{record.images_per_second:.0f} images/s"
        self.print(f"{self.place(record)}  loss {record.loss:.4f}  {rate}  {self.left()}")

    def scored(self, step: TaskScores) -> None:
        """Print the accuracy after the task."""
        quality = "" if step.label_acc is None else f"  pseudo labels {step.label_acc:.3f}"
        self.print(f"{self.name(step.task)} learned: acc {step.acc or 0:.3f} over {step.classes} classes{quality}")

    def name(self, task: int) -> str:
        """The task by its number, such as ``task 2/10``."""
        return f"{self.unit} {task}" + (f"/{self.tasks}" if self.tasks else "")

    def place(self, record: EpochRecord) -> str:
        """The position of an epoch."""
        return f"{self.name(record.task)}  {record.phase}  epoch {record.epoch}/{record.epochs}"

    def left(self) -> str:
        """The estimated time left."""
        return f"{self.meter.left} left"


class Bar(Lines):
    """Shows a bar that moves with every batch."""

    def __init__(self, unit: str = "task") -> None:
        super().__init__(unit)
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[status]}")
        self.bar: Progress = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
        self.row: TaskID = self.bar.add_task("", total=None, status="")
        self._where, self._next = "", 0.0
        self.bar.start()

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Set the length of the bar."""
        super().begin(tasks, images, done)
        self.bar.update(self.row, total=images, completed=done)

    def task(self, task: int, classes: int) -> None:
        """Show the name of the task."""
        self._where = self.name(task)
        self.bar.update(self.row, description=self._where, status="extracting features of the new images")

    def tick(self, images: int, loss: Tensor) -> None:
        """Move the bar. Reading the loss waits for the device, so it is read at most five times per second."""
        super().tick(images, loss)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            status = f"loss {loss.item():.3f}  {self.meter.rate:.0f} images/s  {self.left()}"
            self.bar.update(self.row, completed=self.meter.done, description=self._where, status=status)

    def epoch(self, record: EpochRecord) -> None:
        """Show the number of the next epoch."""
        self._where = self.place(replace(record, epoch=min(record.epoch + 1, record.epochs)))

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(line, highlight=False)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


@contextmanager
def reporter(quiet: bool, unit: str = "task") -> Iterator[Quiet]:
    """The reporter that suits stderr: a bar in a terminal, plain lines elsewhere."""
    chosen = Quiet() if quiet else Bar(unit) if sys.stderr.isatty() else Lines(unit)
    try:
        yield chosen
    finally:
        chosen.close()
