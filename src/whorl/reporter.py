"""Who is told how a run goes."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from whorl.scores import TaskScores

Record = dict[str, Any]
"""Values as JSON holds them."""


class Ticker(Protocol):
    """Is told of every batch."""

    def tick(self, images: int, loss: Tensor) -> None:
        """``images`` more have been learned from, with this loss."""
        ...


class Reporter(Ticker, Protocol):
    """Is told of everything."""

    def begin(self, tasks: int, images: int, done: int) -> None:
        """``images`` training images are to be learned from, ``done`` of them already."""
        ...

    def task(self, task: int, classes: int) -> None:
        """A task begins."""
        ...

    def epoch(self, record: Record) -> None:
        """An epoch has ended."""
        ...

    def scored(self, step: TaskScores) -> None:
        """A task has been scored."""
        ...


class Silent:
    """Tells nobody."""

    def begin(self, tasks: int, images: int, done: int) -> None:
        """Nothing."""

    def task(self, task: int, classes: int) -> None:
        """Nothing."""

    def tick(self, images: int, loss: Tensor) -> None:
        """Nothing."""

    def epoch(self, record: Record) -> None:
        """Nothing."""

    def scored(self, step: TaskScores) -> None:
        """Nothing."""
