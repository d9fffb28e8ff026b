"""Regrouping: the state of a learner after people have merged its classes, dropped some, or relabelled exemplars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from whorl.classifier import Name
from whorl.errors import WhorlError
from whorl.state import State
from whorl.types import IntArray


@dataclass(frozen=True)
class Regrouping:
    """What becomes of the classes and of the exemplars. Both are named by classes that stay."""

    classes: Mapping[Name, Name | None]
    """By the name of a class: the class that it becomes a part of, itself if it stays, or None if it is dropped."""
    exemplars: Sequence[Name | None]
    """The class of each exemplar, in the order of the memory; None for one that is dropped."""

    def stays(self, name: Name) -> bool:
        """Whether a class stays under its name."""
        return self.classes.get(name, name) == name


def regrouped(state: State, how: Regrouping) -> State:
    """The state with regrouped classes. A class that stays starts with the mean of the rows of its parts in the head.

    The class means are left out, so that they are computed from the exemplars when the state is restored.
    """
    kept = [name for name in state.names if how.stays(name)]
    if len(kept) < 1 or state.past:
        raise WhorlError("classes can be regrouped if one of them stays, and the method does not keep all samples")
    place = {name: number for number, name in enumerate(kept)}
    target = [_place(place, how.classes.get(name, name)) for name in state.names]
    starts = np.cumsum([0, *state.sizes])
    sizes = [
        sum(map(how.stays, state.names[start : start + size])) for start, size in zip(starts, state.sizes, strict=False)
    ]
    return replace(
        state,
        model=_head(state.model, np.array(target), len(kept)),
        memory=_exemplars(state.memory, np.array([_place(place, name) for name in how.exemplars], dtype=np.int64)),
        means=None,
        sizes=tuple(sizes),
        names=tuple(kept),
    )


def _place(place: Mapping[Name, int], name: Name | None) -> int:
    return -1 if name is None else place[name]


def _head(model: Mapping[str, Tensor], target: IntArray, classes: int) -> dict[str, Tensor]:
    """The weights with the rows of the head put together: class i becomes a part of ``target[i]``, or of none if -1."""
    parts = [torch.from_numpy(np.flatnonzero(target == number)) for number in range(classes)]
    seen = model.get("head.counts")

    def row(name: str, value: Tensor, rows: Tensor) -> Tensor:
        mine = value[rows]
        if len(rows) == 1:
            return mine[0]
        if name == "head.newest":
            return mine.any(0)
        if name == "head.counts":
            return mine.sum(0)
        if name == "head.means" and seen is not None:
            share = seen[rows] / seen[rows].sum().clamp(min=1)
            return (share[:, None] * mine).sum(0)
        return mine.mean(0)

    by_class = [name for name, value in model.items() if name.startswith("head.") and value.ndim]
    return {
        name: torch.stack([row(name, value, rows) for rows in parts]) if name in by_class else value
        for name, value in model.items()
    }


def _exemplars(memory: Mapping[str, Tensor], labels: IntArray) -> dict[str, Tensor]:
    """The exemplars with these labels, without those of label -1. The ranks of the parts of a class alternate."""
    if len(labels) != len(memory["labels"]):
        raise ValueError(f"{len(memory['labels'])} exemplars need as many classes, not {len(labels)}")
    before = memory["labels"].numpy()
    rank = np.arange(len(before)) - np.searchsorted(before, before)
    order = torch.from_numpy(np.lexsort((rank, labels))[np.sum(labels < 0) :])
    return {
        "images": memory["images"][order],
        "labels": torch.from_numpy(labels)[order],
        "tasks": memory["tasks"][order],
    }
