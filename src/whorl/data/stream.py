"""A stream is a sequence of tasks. What the learner may see goes into the tasks, what it may not into the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from whorl.data.order import class_order
from whorl.data.source import Dataset, Subset
from whorl.errors import WhorlError
from whorl.types import HIDDEN, ImageSource, IntArray, Labels


@dataclass(frozen=True)
class Task:
    """One delivery of images. ``labels`` are arrival ids where the protocol grants them, else ``HIDDEN``."""

    index: int
    """Which delivery this is, from 1."""
    images: ImageSource
    labels: Labels
    classes: int
    """How many classes are new."""


class Stream(Sequence[Task]):
    """Tasks in the order of their arrival: length, index, slice, iterate."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = tuple(tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Task | Stream:
        return Stream(self._tasks[index]) if isinstance(index, slice) else self._tasks[index]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many classes each task brings."""
        return tuple(task.classes for task in self)


@dataclass(frozen=True)
class Truth:
    """Everything about the stream that only the evaluator may know. All labels are arrival ids."""

    names: tuple[str, ...]
    """Class names by arrival id."""
    train: tuple[IntArray, ...]
    """The labels of each task's images."""
    test: tuple[tuple[ImageSource, IntArray], ...]
    """Each task's test images and labels."""


def split_sizes(classes: int, step: int, first: int | None = None, tasks: int | None = None) -> tuple[int, ...]:
    """How many classes each task brings: ``first`` (or ``step``), then ``step`` each until none is left."""
    if not 1 <= step <= classes or (first is not None and not 1 <= first <= classes):
        raise WhorlError(f"--step and --first must lie between 1 and the {classes} classes there are")
    rest = classes if first is None else classes - first
    if rest % step:
        after = "" if first is None else f" after the first task of {first}"
        fitting = ", ".join(str(n) for n in range(1, rest + 1) if rest % n == 0)
        raise WhorlError(
            f"--step {step} does not divide the {rest} classes{after}; steps that do: {fitting} "
            f"(or use fewer with --classes {classes - rest % step})"
        )
    sizes = (first or step, *[step] * ((rest if first else rest - step) // step))
    if tasks is not None and not 1 <= tasks <= len(sizes):
        raise WhorlError(f"--tasks {tasks} asked for, but these classes make {len(sizes)}")
    return sizes[:tasks]


def class_incremental(
    data: Dataset, sizes: Sequence[int], order: str | Sequence[int], labels_given: bool
) -> tuple[Stream, Truth]:
    """The class-incremental protocol: the tasks a learner sees, and the truth for the evaluator alone.

    Task 1 always has its labels; later ones only if ``labels_given``.
    """
    classes = class_order(order, len(data.class_names))
    train_ids, test_ids = _arrival(classes, data.train_labels), _arrival(classes, data.test_labels)
    tasks, train, test = [], [], []
    known = 0
    for index, size in enumerate(sizes, start=1):
        mine = np.flatnonzero((train_ids >= known) & (train_ids < known + size))
        theirs = np.flatnonzero((test_ids >= known) & (test_ids < known + size))
        hidden = not labels_given and index > 1
        if hidden:  # data sets come sorted by class: in their own order, an image's position would tell its label
            mine = np.random.default_rng(index).permutation(mine)
        tasks.append(Task(index, Subset(data.train, mine), HIDDEN if hidden else train_ids[mine], size))
        train.append(train_ids[mine])
        test.append((Subset(data.test, theirs), test_ids[theirs]))
        known += size
    return Stream(tasks), Truth(tuple(data.class_names[c] for c in classes[:known]), tuple(train), tuple(test))


def _arrival(classes: Sequence[int], labels: IntArray) -> IntArray:
    position = np.empty(len(classes), dtype=np.int64)
    position[np.asarray(classes)] = np.arange(len(classes))
    return position[labels]
