"""Held-out samples, which are never trained on: every k-th exemplar of a class is one of them.

The exemplars of a class are stored in rank order, and a smaller memory keeps a prefix. With the held-out exemplars at
ranks k, 2k, …, every prefix has its share of them, and nothing else has to be stored.
"""

from __future__ import annotations

import numpy as np

from whorl.seeds import derive
from whorl.types import IntArray


def hold_out(labels: IntArray, quota: int, every: int, seed: int) -> IntArray:
    """The samples to hold out, in ascending order: per class as many as fit among its ``quota`` exemplars."""
    chosen = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        count = min(quota, len(mine)) // every
        chosen.append(np.random.default_rng(derive(seed, "hold out", int(label))).permutation(mine)[:count])
    return np.sort(np.concatenate(chosen))


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
