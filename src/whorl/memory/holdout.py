"""Held-out samples, which are never trained on: every k-th exemplar of a class is one of them.

The exemplars of a class are stored in rank order, and a smaller memory keeps a prefix. With the held-out exemplars at
ranks k, 2k, …, every prefix has its share of them, and nothing else has to be stored.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from whorl.memory.memory import Memory
from whorl.seeds import derive
from whorl.types import ImageSource, IntArray, Labelling


def hold_out(labels: IntArray, quota: int, every: int, seed: int, ranks: IntArray | None = None) -> IntArray:
    """The samples to hold out, in ascending order: per class as many as fit among its ``quota`` exemplars.

    ``ranks`` are those of :func:`stored_ranks`. Samples that are stored as exemplars are not drawn: they are held out
    if and only if the exemplar is.
    """
    ranks = np.full(len(labels), -1) if ranks is None else ranks
    again = np.flatnonzero((ranks >= 0) & ((ranks + 1) % every == 0))
    chosen = [again]
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        fresh = mine[ranks[mine] < 0]
        left = min(quota, len(mine)) // every - int(np.sum(labels[again] == label))
        count = max(0, min(left, len(fresh) // every))
        chosen.append(np.random.default_rng(derive(seed, "hold out", int(label))).permutation(fresh)[:count])
    return np.sort(np.concatenate(chosen))


def stored_ranks(memory: Memory, images: ImageSource, labels: Labelling) -> IntArray:
    """The rank of each sample among the exemplars of its class, or -1 if it is not stored, compared byte by byte."""
    ranks = np.full(len(labels.ids), -1)
    for label in labels.known_ids:
        stored, mine = np.flatnonzero(memory.labels == label), np.flatnonzero(labels.ids == label)
        ranks[mine] = positions(memory.images[stored], images.read(mine).cpu())
    return ranks


def positions(stored: Tensor, samples: Tensor) -> IntArray:
    """The position of each sample among the stored ones, or -1 if it is not there, compared byte by byte."""
    known = {one.numpy().tobytes(): position for position, one in enumerate(stored)}
    return np.array([known.get(one.numpy().tobytes(), -1) for one in samples], dtype=np.int64)


def is_held_out(ranks: IntArray, every: int) -> IntArray:
    """The positions of held-out exemplars, given the ranks of all exemplars."""
    return np.flatnonzero((ranks + 1) % every == 0)


def weave(trained: IntArray, held: IntArray, every: int) -> IntArray:
    """The exemplars of one class in rank order: ``trained`` ones, with the next of ``held`` at every k-th rank.

    Stops at the first rank for which no sample of the right kind is left.
    """
    out: list[int] = []
    ordinary, special = iter(trained.tolist()), iter(held.tolist())
    while (following := next(special if (len(out) + 1) % every == 0 else ordinary, None)) is not None:
        out.append(following)
    return np.array(out, dtype=np.int64)
