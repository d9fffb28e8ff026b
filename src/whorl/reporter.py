"""Progress reporting: the protocols that training and experiments report to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from whorl.scores import TaskScores


@dataclass(frozen=True)
class EpochRecord:
    """One finished epoch, as ``log.jsonl`` stores it."""

    task: int
    phase: str
    epoch: int
    """Counted from 1."""
    epochs: int
    loss: float
    lr: float
    images: int
    seconds: float

    @property
    def images_per_second(self) -> float:
        """Training speed of the epoch."""
        return self.images / self.seconds if self.seconds else 0.0


class Ticker(Protocol):
    """Receives every training batch."""

    def tick(self, images: int, loss: Tensor) -> None:
        """A batch of ``images`` images, further views of them included, was trained on, with this loss."""
        ...


class Counted:
    """Counts the images that it reports to another ticker, from ``images`` on."""

    def __init__(self, ticker: Ticker, images: int) -> None:
        self._ticker = ticker
        self.images: int = images

    def tick(self, images: int, loss: Tensor) -> None:
        """Count the images of a batch."""
        self.images += images
        self._ticker.tick(images, loss)


class Reporter(Ticker, Protocol):
    """Receives the progress of an experiment."""

    def begin(self, tasks: int, images: int, done: int) -> None:
        """The experiment starts: ``images`` training images in all tasks, ``done`` of them already processed.

        Both are estimates in the unit of :meth:`tick`.
        """
        ...

    def task(self, task: int, classes: int) -> None:
        """A task with ``classes`` new classes starts."""
        ...

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has finished."""
        ...

    def scored(self, step: TaskScores) -> None:
        """A task has been learned and scored."""
        ...

    def note(self, text: str) -> None:
        """A line that the user should read, for example about a damaged file."""
        ...


class Silent:
    """A reporter that ignores everything. Subclasses override what they want to show."""

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Ignore the start."""

    def task(self, task: int, classes: int) -> None:
        """Ignore the task."""

    def tick(self, images: int, loss: Tensor) -> None:
        """Ignore the batch."""

    def epoch(self, record: EpochRecord) -> None:
        """Ignore the epoch."""

    def scored(self, step: TaskScores) -> None:
        """Ignore the scores."""

    def note(self, text: str) -> None:
        """Ignore the line."""
