"""The exact assignment of samples to clusters of equal size at the lowest cost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from whorl.types import IntArray

FAR = 2**60
"""Larger than the length of any path, and small enough that sums do not overflow 64 bits."""


def balanced(cost: npt.NDArray[np.float64], prices: npt.NDArray[np.float64]) -> IntArray:
    """The labels [n] with the lowest total ``cost`` [n, k] among those whose cluster sizes differ by at most one.

    This is a minimum-cost flow, solved by successive shortest paths. At the start, each sample takes the cluster with
    the lowest cost minus price. For any ``prices`` [k], these labels are optimal for the cluster sizes that result;
    good prices only leave fewer moves. Then samples move from clusters that are too large to ones that are too small,
    along the cheapest chain of clusters, which keeps the labels optimal for their sizes. Finally, samples move between
    clusters of the two allowed sizes while this lowers the cost. The memory needed is a few times that of ``cost``.
    """
    n, k = cost.shape
    low, high = n // k, -(-n // k)
    # Integers of 40 bits, because their sums are exact: with rounding errors, a cycle of moves could appear to gain.
    unit = float(np.ptp(cost)) / 2**40 or 1.0
    whole = np.rint((cost - cost.min()) / unit).astype(np.int64)
    labels: IntArray = np.argmin(whole - np.rint(prices / unit).astype(np.int64), axis=1)
    sizes = np.bincount(labels, minlength=k)
    steps = np.full((k, k), FAR)
    path = list(range(k))
    while True:
        for a in path:  # the lowest cost of moving one sample from a to each other cluster
            members = np.flatnonzero(labels == a)
            steps[a] = (whole[members] - whole[members, a, None]).min(axis=0, initial=FAR)
        floor, ceiling = (high, high) if sizes.max() > high else (low, low) if sizes.min() < low else (low, high)
        length, path = _shortest(steps, sizes > floor, sizes < ceiling)
        if not path or (low <= sizes.min() and sizes.max() <= high and length >= 0):
            return labels
        # Samples with the same cost (duplicates) move together, as many as both ends of the path allow.
        movers = [np.flatnonzero((labels == a) & (whole[:, b] - whole[:, a] == steps[a, b])) for a, b in pairwise(path)]
        giver, taker = path[0], path[-1]
        count = min(sizes[giver] - floor, ceiling - sizes[taker], *map(len, movers))
        for where, b in zip(movers, path[1:], strict=True):
            labels[where[:count]] = b
        sizes[giver] -= count
        sizes[taker] += count


def _shortest(steps: IntArray, give: npt.NDArray[np.bool_], take: npt.NDArray[np.bool_]) -> tuple[int, list[int]]:
    """Length and nodes of the shortest path from ``give`` to ``take`` (Bellman-Ford); 0 and [] if there is none."""
    if not give.any() or not take.any():
        return 0, []
    lengths, before = np.where(give, 0, FAR), np.full(len(steps), -1)
    while True:
        through = lengths[:, None] + steps
        better = through.min(axis=0) < lengths
        if not better.any():
            break
        before[better] = through.argmin(axis=0)[better]
        lengths = np.minimum(lengths, through.min(axis=0))
    path = [int(np.argmin(np.where(take, lengths, FAR)))]
    length = int(lengths[path[0]])
    while before[path[0]] >= 0:
        path.insert(0, int(before[path[0]]))
    return length, path
