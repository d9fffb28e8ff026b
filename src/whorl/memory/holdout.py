"""Samples that are never trained on: a few of each class are set aside, and every k-th exemplar is one of them.

A class's exemplars keep their rank order, and a smaller memory keeps a prefix. With the held-out ones at the places
k, 2k, …, every prefix has its share of them, and nothing has to be noted beside the memory.
"""

from __future__ import annotations

import numpy as np

from whorl.seeds import derive
from whorl.types import IntArray


def hold_out(labels: IntArray, quota: int, every: int, seed: int) -> IntArray:
    """Which samples to set aside, ascending: as many of each class as have a place among its ``quota`` exemplars."""
    chosen = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        count = min(quota, len(mine)) // every
        chosen.append(np.random.default_rng(derive(seed, "hold out", int(label))).permutation(mine)[:count])
    return np.sort(np.concatenate(chosen))


def is_held_out(ranks: IntArray, every: int) -> IntArray:
    """The positions of the held-out exemplars among exemplars of these ranks."""
    return np.flatnonzero((ranks + 1) % every == 0)


def weave(trained: IntArray, held: IntArray, every: int) -> IntArray:
    """One class's exemplars in rank order: ``trained`` ones, with the next of ``held`` at every k-th place.

    Ends before a place that nothing is left for.
    """
    out: list[int] = []
    ordinary, special = iter(trained.tolist()), iter(held.tolist())
    while (following := next(special if (len(out) + 1) % every == 0 else ordinary, None)) is not None:
        out.append(following)
    return np.array(out, dtype=np.int64)
