"""The cheapest assignment of samples to clusters of equal size, exactly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from whorl.types import IntArray

FAR = 2**60
"""A length no path has, with room to add to it in 64 bits."""


def balanced(cost: npt.NDArray[np.float64], prices: npt.NDArray[np.float64]) -> IntArray:
    """The labels [n] of least total ``cost`` [n, k] among those whose cluster sizes differ by at most one.

    Min-cost flow by shortest paths. To take the cluster with the least cost minus price is optimal for the sizes that
    come of it, whatever the ``prices`` [k]; good ones only leave little to do. Then samples move from clusters that
    are too large to ones that are too small, along the chain of clusters where that costs least, which keeps the
    labels optimal for their sizes. Last, a spare sample moves while that gains. Memory is a few times the cost's.
    """
    n, k = cost.shape
    low, high = n // k, -(-n // k)
    # In integers of 40 bits sums are exact, so that no rounding makes a round trip look like a gain.
    unit = float(np.ptp(cost)) / 2**40 or 1.0
    whole = np.rint((cost - cost.min()) / unit).astype(np.int64)
    labels: IntArray = np.argmin(whole - np.rint(prices / unit).astype(np.int64), axis=1)
    sizes = np.bincount(labels, minlength=k)
    steps = np.full((k, k), FAR)
    path = list(range(k))
    while True:
        for a in path:  # the least it costs to move one sample of a to each other cluster
            members = np.flatnonzero(labels == a)
            steps[a] = (whole[members] - whole[members, a, None]).min(axis=0, initial=FAR)
        floor, ceiling = (high, high) if sizes.max() > high else (low, low) if sizes.min() < low else (low, high)
        length, path = _shortest(steps, sizes > floor, sizes < ceiling)
        if not path or (low <= sizes.min() and sizes.max() <= high and length >= 0):
            return labels
        # Duplicates move together: what costs the same is moved at once, as far as both ends allow.
        movers = [np.flatnonzero((labels == a) & (whole[:, b] - whole[:, a] == steps[a, b])) for a, b in pairwise(path)]
        first, last = path[0], path[-1]
        count = min(sizes[first] - floor, ceiling - sizes[last], *map(len, movers))
        for where, b in zip(movers, path[1:], strict=True):
            labels[where[:count]] = b
        sizes[first] -= count
        sizes[last] += count


def _shortest(steps: IntArray, give: npt.NDArray[np.bool_], take: npt.NDArray[np.bool_]) -> tuple[int, list[int]]:
    """The shortest path from a cluster that gives to one that takes, and its length (Bellman-Ford); [] if none."""
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
