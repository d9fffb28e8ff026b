"""Which samples to keep: herding, random choice, and the paper's Algorithm 2 in three readings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from whorl import registry
from whorl.cluster.base import Clusterer, require_finite, unit_rows
from whorl.errors import unknown
from whorl.metrics.match import aligned
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray

Mean = npt.NDArray[np.floating[Any]]
Selector = Callable[[FloatArray, int, int, Mean | None], IntArray]
"""(features, quota, seed, mean) → indices in rank order: every prefix is the choice for a smaller quota."""
Reading = Literal["aligned", "reuse", "recluster"]


def herding(features: FloatArray, quota: int, mean: Mean | None = None) -> IntArray:
    """Indices whose running mean stays closest to ``mean``, in rank order, none twice, at most all of them.

    Step k takes argmin ||mu - (z + sum of chosen) / k|| over samples not yet chosen, lowest index on ties, with z the
    features at length one. mu is the mean of z, not normalised again; ``mean`` replaces it.
    """
    if not len(features):
        return np.empty(0, dtype=np.int64)
    points = unit_rows(features)
    mu = points.mean(axis=0) if mean is None else mean.astype(np.float64)
    chosen = np.empty(max(0, min(quota, len(points))), dtype=np.int64)
    free = np.ones(len(points), dtype=np.bool_)
    total = np.zeros_like(mu)
    for rank in range(len(chosen)):
        # k times the norm above: ||z - (k mu - sum of chosen)||. Summed row by row, so duplicates tie exactly.
        costs = np.square(points - ((rank + 1) * mu - total)).sum(axis=1)
        best = np.argmin(np.where(free, costs, np.inf))
        chosen[rank] = best
        free[best] = False
        total += points[best]
    return chosen


def random(n: int, quota: int, seed: int) -> IntArray:
    """``quota`` of ``n`` indices, uniformly and without replacement; a smaller quota gives a prefix."""
    return np.random.default_rng(seed).permutation(n)[: max(0, quota)].astype(np.int64, copy=False)


SELECTORS: dict[str, Selector] = {
    "herding": lambda features, quota, seed, mean: herding(features, quota, mean),
    "random": lambda features, quota, seed, mean: random(len(features), quota, seed),
}


def get_selector(name: str) -> Selector:
    """The selector called ``name``; others' join through the entry point group ``whorl.memory``."""
    return registry.find("selector", name, SELECTORS, "whorl.memory")


def exemplars(
    features: FloatArray,
    labels: IntArray,
    n_new: int,
    quota: int,
    selector: Selector,
    clusterer: Clusterer | None,
    reading: Reading,
    seed: int,
) -> tuple[IntArray, IntArray]:
    """Algorithm 2: the samples of one task to keep, as (indices, ids to store), grouped by id, in rank order.

    ``features`` are raw, from the model after the step; ``labels`` are 0..n_new-1. The algorithm clusters again, yet
    the text stores pseudo labels, and nothing ties the two numberings together. Hence three readings (A12):

    * ``aligned``: cluster, match the groups to the pseudo labels, choose where both agree, store the pseudo label;
    * ``reuse``: choose within each label; for labels that are given (A9), and needs no clusterer;
    * ``recluster``: to the letter: cluster, choose within each cluster, store the cluster's own id.
    """
    if reading not in get_args(Reading):
        raise unknown("reading of Algorithm 2", reading, get_args(Reading))
    if not np.array_equal(np.unique(labels), np.arange(n_new)):
        raise ValueError(f"labels must use every id of 0..{n_new - 1} and no other")
    require_finite(features)
    if quota <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    groups = labels if reading == "reuse" else _cluster(clusterer, features, n_new, seed)
    if reading == "aligned":
        groups = aligned(groups, labels, n_new)
    stored = groups if reading == "recluster" else labels
    picks = [
        # Each id has its own seed, or equally large groups would all keep the same positions.
        _choose(features, groups == j, stored == j, quota, selector, derive(seed, "exemplars", j))
        for j in range(n_new)
    ]
    return np.concatenate(picks), np.repeat(np.arange(n_new), [len(pick) for pick in picks])


def _choose(
    features: FloatArray,
    group: npt.NDArray[np.bool_],
    stored: npt.NDArray[np.bool_],
    quota: int,
    selector: Selector,
    seed: int,
) -> IntArray:
    """Steps 3 and 4 of A12 for one id, whose group sets the mean and whose stored label sets who may be kept.

    First come samples in both, as the selector ranks them, then the others with the label, nearest to the mean first.
    Where group and label are the same samples, as in the other two readings, there are no others.
    """
    mean = unit_rows(features[group]).mean(axis=0)
    both = np.flatnonzero(group & stored)
    first = both[selector(features[both], quota, seed, mean)]
    others = np.flatnonzero(stored & ~group)
    distances = np.square(unit_rows(features[others]) - mean).sum(axis=1)
    nearest = others[np.argsort(distances, kind="stable")]
    return np.concatenate([first, nearest[: quota - len(first)]])


def _cluster(clusterer: Clusterer | None, features: FloatArray, k: int, seed: int) -> IntArray:
    if clusterer is None:
        raise ValueError("only the reading 'reuse' of Algorithm 2 can do without a clusterer")
    return clusterer.fit_predict(features, k, seed).labels
