"""The nouns that travel between rooms: sources of samples, deliveries, and the labels a delivery is learned with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from whorl.errors import HiddenLabelError, WhorlError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


@runtime_checkable
class ImageSource(Protocol):
    """Samples by index, without labels: uint8 images [height, width, 3], or float32 vectors."""

    @property
    def size(self) -> int:
        """Side of the (square) images, or length of the vectors."""
        ...

    @property
    def resident(self) -> bool:
        """Whether the samples are in memory. Others are read by worker processes."""
        ...

    def __len__(self) -> int: ...

    def read(self, indices: IntArray) -> Tensor:
        """The samples at ``indices``: uint8 [n, size, size, 3], or float32 [n, size]."""
        ...


class _Hidden:
    """Stands in for labels that do not exist. Any use of it raises."""

    def _touch(self, *_: object, **__: object) -> NoReturn:
        raise HiddenLabelError("the labels of this delivery are hidden from the learner")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # tools such as doctest look for special attributes of every object
        self._touch()

    def __reduce__(self) -> str:
        return "HIDDEN"  # a copy is the same object

    def __repr__(self) -> str:
        return "HIDDEN"


for _name in (
    "getitem", "iter", "len", "array", "bool", "eq", "ne", "lt", "le", "gt", "ge", "hash", "add", "radd", "sub", "rsub",
    "int", "float", "index",
):  # fmt: skip
    setattr(_Hidden, f"__{_name}__", _Hidden._touch)

HIDDEN: _Hidden = _Hidden()
"""The labels of a delivery that comes without labels. The only allowed test is ``labels is HIDDEN``."""

Labels = IntArray | _Hidden
"""Class ids where a delivery has labels, else ``HIDDEN``."""


def granted(labels: Labels) -> IntArray:
    """The labels of a labelled delivery; raises ``HiddenLabelError`` for an unlabelled one."""
    if isinstance(labels, _Hidden):
        labels._touch()
    return labels


@dataclass(frozen=True, eq=False)
class Delivery:
    """Samples that are learned in one step.

    ``labels`` are the learner's class ids: 0 to known - 1 for classes it knows, and known, known + 1, … for new ones.
    ``new`` is the number of new classes; a labelled delivery may leave it out, since it can be counted. Without labels,
    all samples belong to new classes, unless the delivery is ``mixed``: then they may also belong to known classes or
    to none, and ``new`` may be left out, since it can be estimated.
    """

    images: ImageSource
    labels: Labels = HIDDEN
    new: int | None = None
    mixed: bool = False


@dataclass(frozen=True)
class Found:
    """What was found in a mixed delivery.

    Attributes
    ----------
    new : int
        The number of new classes.
    low, high : int
        The range of the estimate of this number. Both are ``new`` if the number was given.
    reasons : tuple of str
        How the number was chosen.
    known_samples, new_samples : int
        The numbers of samples that were learned as known and as new classes.
    junk : tuple of int
        The positions of the samples that fit neither. They are not learned.
    confidence : tuple of float
        How sure each sample is, between 0 and 1: one minus its distance to its class divided by that to the next one.
    merges : tuple of (class, class, float)
        Pairs of classes, one or both of them new, that may be one class, and their likeness, the most alike first.
    """

    new: int
    low: int
    high: int
    reasons: tuple[str, ...]
    known_samples: int
    new_samples: int
    junk: tuple[int, ...]
    confidence: tuple[float, ...] = field(repr=False)
    merges: tuple[tuple[int | str, int | str, float], ...]


_NONE: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Labelling:
    """The labels a delivery is learned with: one class id per sample, and how many of the ids are new.

    ``known`` classes existed before the delivery, so the new ids are ``known`` to ``known + new - 1``.
    """

    ids: IntArray
    known: int
    new: int
    unsure: IntArray = field(default_factory=_NONE.copy)
    """The positions of samples that are neither trained on nor stored, because their labels are doubtful."""
    found: Found | None = None
    """What was found, in a mixed delivery."""

    @classmethod
    def of_groups(cls, groups: IntArray, known: int, new: int, unsure: IntArray = _NONE) -> Labelling:
        """The labelling in which the groups 0 to ``new - 1`` become new classes."""
        return cls(np.asarray(groups + known, dtype=np.int64), known, new, unsure)

    @classmethod
    def of_labels(cls, labels: IntArray, known: int, new: int | None) -> Labelling:
        """The labelling of a labelled delivery; raises where its ids skip a number or disagree with ``new``."""
        labels = np.asarray(labels, dtype=np.int64)
        fresh = np.unique(labels[labels >= known])
        count = len(fresh)
        if len(labels) and labels.min() < 0:
            raise WhorlError(f"class ids must not be negative, found {labels.min()}")
        if not np.array_equal(fresh, np.arange(known, known + count)):
            raise WhorlError(
                f"new classes must be numbered {known}, {known + 1}, … without gaps; "
                f"found {', '.join(map(str, fresh[:5]))}"
            )
        if new is not None and new != count:
            raise WhorlError(f"the labels hold {count} new class(es), but {new} were announced")
        return cls(labels, known, count)

    @property
    def new_ids(self) -> IntArray:
        """The ids of the new classes."""
        return np.arange(self.known, self.known + self.new, dtype=np.int64)

    @property
    def is_new(self) -> npt.NDArray[np.bool_]:
        """Which samples belong to new classes."""
        return np.asarray(self.ids >= self.known)

    @property
    def known_ids(self) -> IntArray:
        """The ids of classes that were known before and have samples in the delivery."""
        return np.unique(self.ids[~self.is_new])

    @property
    def classes(self) -> IntArray:
        """The ids of all classes with samples in the delivery, known ones before new ones."""
        return np.concatenate([self.known_ids, self.new_ids])
