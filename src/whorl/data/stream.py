"""A stream is an experiment's sequence of deliveries; what the learner must not see goes into the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from whorl.data.order import class_order
from whorl.data.source import Dataset, Subset
from whorl.errors import WhorlError
from whorl.types import HIDDEN, Delivery, ImageSource, IntArray


class Stream(Sequence[Delivery]):
    """Deliveries in the order of their arrival: supports length, index, slice and iteration."""

    def __init__(self, deliveries: Iterable[Delivery]) -> None:
        self._deliveries = tuple(deliveries)

    def __len__(self) -> int:
        return len(self._deliveries)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Delivery | Stream:
        return Stream(self._deliveries[index]) if isinstance(index, slice) else self._deliveries[index]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many new classes each delivery brings."""
        return tuple(delivery.new or 0 for delivery in self)


@dataclass(frozen=True)
class Truth:
    """What only the evaluator may know about a stream. Labels are ids in the order of arrival."""

    names: tuple[str, ...]
    """Class names by arrival id."""
    train: tuple[IntArray, ...]
    """The true labels of each delivery's samples."""
    test: tuple[tuple[ImageSource, IntArray], ...]
    """Test samples and labels of the classes that each delivery brings."""


def split_sizes(classes: int, step: int, first: int | None = None, tasks: int | None = None) -> tuple[int, ...]:
    """The number of classes per task: ``first`` (or ``step``), then ``step`` until all classes are used."""
    if not 1 <= step <= classes or (first is not None and not 1 <= first <= classes):
        raise WhorlError(f"`stream.step` and `stream.first` must be between 1 and {classes}, the number of classes")
    rest = classes if first is None else classes - first
    if rest % step:
        after = "" if first is None else f" after the first task of {first}"
        fitting = ", ".join(str(n) for n in range(1, rest + 1) if rest % n == 0)
        raise WhorlError(
            f"`stream.step={step}` does not divide the {rest} classes{after}; steps that do: {fitting} "
            f"(or use fewer classes with `data.classes={classes - rest % step}`)"
        )
    sizes = (first or step, *[step] * ((rest if first else rest - step) // step))
    if tasks is not None and not 1 <= tasks <= len(sizes):
        raise WhorlError(f"`stream.tasks={tasks}` is more than the {len(sizes)} tasks that these classes make")
    return sizes[:tasks]


def class_incremental(
    data: Dataset, sizes: Sequence[int], order: str | Sequence[int], labels_given: bool
) -> tuple[Stream, Truth]:
    """The class-incremental protocol: the deliveries a learner sees, and the truth for the evaluator alone.

    The first delivery always has labels, later ones only if ``labels_given``.
    """
    classes = class_order(order, len(data.class_names))
    train_ids, test_ids = _arrival(classes, data.train_labels), _arrival(classes, data.test_labels)
    deliveries, train, test = [], [], []
    known = 0
    for index, size in enumerate(sizes, start=1):
        mine = np.flatnonzero((train_ids >= known) & (train_ids < known + size))
        theirs = np.flatnonzero((test_ids >= known) & (test_ids < known + size))
        hidden = not labels_given and index > 1
        if hidden:  # data sets are often sorted by class, so that the position of an image would reveal its label
            mine = np.random.default_rng(index).permutation(mine)
        deliveries.append(Delivery(Subset(data.train, mine), HIDDEN if hidden else train_ids[mine], size))
        train.append(train_ids[mine])
        test.append((Subset(data.test, theirs), test_ids[theirs]))
        known += size
    return Stream(deliveries), Truth(tuple(data.class_names[c] for c in classes[:known]), tuple(train), tuple(test))


def _arrival(classes: Sequence[int], labels: IntArray) -> IntArray:
    position = np.empty(len(classes), dtype=np.int64)
    position[np.asarray(classes)] = np.arange(len(classes))
    return position[labels]
