"""Progress on stderr: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID
from rich.table import Column
from rich.text import Text
from torch import Tensor

from whorl.errors import count, printable
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

    translate: Callable[[str], str] = staticmethod(str)
    """Applied to each of these lines: the command line replaces config keys by flags."""

    def note(self, text: str) -> None:
        """Print the line."""
        self.print(self.translate(text))

    def print(self, line: str) -> None:
        """Print a line on stderr."""
        print(printable(line), file=sys.stderr, flush=True)

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
        classes = count(step.classes, "class", "classes")
        self.print(f"{self.name(step.task)} learned: acc {step.acc or 0:.3f} over {classes}{quality}")

    def name(self, task: int) -> str:
        """The task by its number, such as ``task 2/10``."""
        return f"{self.unit} {task}" + (f"/{self.tasks}" if self.tasks else "")

    def place(self, record: EpochRecord) -> str:
        """The position of an epoch."""
        return f"{self.name(record.task)}  {record.phase}  epoch {record.epoch}/{record.epochs}"

    def left(self) -> str:
        """The estimated time left."""
        return f"{self.meter.left} left"


class _Words(ProgressColumn):
    """A field of the row as plain text, which is wrapped and not cut where it does not fit."""

    def __init__(self, field: str) -> None:
        super().__init__(Column(overflow="fold"))
        self._field = field

    def render(self, task: Task) -> Text:
        return Text(task.fields[self._field])


class _Gauge(ProgressColumn):
    """The bar, left out of narrow terminals."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console, self._bar = console, BarColumn(bar_width=GAUGE)

    def render(self, task: Task) -> RenderableType:
        return self._bar.render(task) if self._console.width >= NARROW else Text()


GAUGE, NARROW = 16, 60
"""The width of the bar, and the width of terminals that have no room for it."""


class Bar(Lines):
    """Shows a bar that moves with every batch.

    In a narrow terminal the speed is left out, then the bar, the loss, and the time left.
    """

    def __init__(self, unit: str = "task") -> None:
        super().__init__(unit)
        console = Console(stderr=True)
        columns = _Words("where"), _Gauge(console), _Words("status")
        self.bar: Progress = Progress(*columns, console=console, transient=True, refresh_per_second=5)
        self.row: TaskID = self.bar.add_task("", total=None, where="", status="")
        self._where, self._next = "", 0.0
        self.bar.start()

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Set the length of the bar."""
        super().begin(tasks, images, done)
        self.bar.update(self.row, total=images, completed=done)

    def task(self, task: int, classes: int) -> None:
        """Show the name of the task."""
        self._where = self.name(task)
        self._show("extracting features")

    def tick(self, images: int, loss: Tensor) -> None:
        """Move the bar. Reading the loss waits for the device, so it is read at most five times per second."""
        super().tick(images, loss)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            self._show(self.left(), f"loss {loss.item():.3f}", f"{self.meter.rate:.0f} images/s")

    def epoch(self, record: EpochRecord) -> None:
        """Show the number of the next epoch."""
        self._where = self.place(replace(record, epoch=min(record.epoch + 1, record.epochs)))

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(Text(printable(line)))

    def _show(self, *parts: str) -> None:
        """Show where the run is, and as many of the parts as fit, the most important ones first."""
        width, where = self.bar.console.width, printable(self._where)
        room = width - len(where) - 2 - (GAUGE if width >= NARROW else 0)
        fitting = [n for n in range(len(parts) + 1) if len("  ".join(parts[:n])) <= room]
        status = "  ".join(parts[: max(fitting, default=0)])
        self.bar.update(self.row, completed=self.meter.done, where=where, status=status)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


@contextmanager
def reporter(quiet: bool, unit: str = "task", translate: Callable[[str], str] = str) -> Iterator[Quiet]:
    """The reporter that suits stderr: a bar in a terminal, plain lines elsewhere."""
    chosen = Quiet() if quiet else Bar(unit) if sys.stderr.isatty() else Lines(unit)
    chosen.translate = translate
    try:
        yield chosen
    finally:
        chosen.close()
