"""Selection of exemplars: herding, random choice, and the paper's Algorithm 2 in three readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from whorl import registry
from whorl.cluster.base import Clusterer, require_finite, unit_rows
from whorl.errors import unknown
from whorl.metrics.match import aligned
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray, Labelling

Mean = npt.NDArray[np.floating[Any]]
Selector = Callable[[FloatArray, int, int, Mean | None], IntArray]
"""(features, quota, seed, mean) → indices in rank order. Every prefix is the choice for a smaller quota."""
Reading = Literal["aligned", "reuse", "recluster"]


def herding(features: FloatArray, quota: int, mean: Mean | None = None) -> IntArray:
    """At most ``quota`` indices, in rank order, whose running mean stays closest to ``mean``.

    Step k takes argmin ||mu - (z + sum of chosen) / k|| over the samples not yet chosen (the lowest index on ties),
    where z are the features scaled to length one. mu is the mean of z, not normalised, unless ``mean`` is given.
    """
    if not len(features):
        return np.empty(0, dtype=np.int64)
    points = unit_rows(features)
    mu = points.mean(axis=0) if mean is None else mean.astype(np.float64)
    chosen = np.empty(max(0, min(quota, len(points))), dtype=np.int64)
    free = np.ones(len(points), dtype=np.bool_)
    total = np.zeros_like(mu)
    for rank in range(len(chosen)):
        # k times the norm above: ||z - (k mu - sum of chosen)||. Summed row by row, so that duplicates tie exactly.
        costs = np.square(points - ((rank + 1) * mu - total)).sum(axis=1)
        best = np.argmin(np.where(free, costs, np.inf))
        chosen[rank] = best
        free[best] = False
        total += points[best]
    return chosen


def random(n: int, quota: int, seed: int) -> IntArray:
    """``quota`` of ``n`` indices, drawn uniformly without replacement; a smaller quota gives a prefix."""
    return np.random.default_rng(seed).permutation(n)[: max(0, quota)].astype(np.int64, copy=False)


SELECTORS: dict[str, Selector] = {
    "herding": lambda features, quota, seed, mean: herding(features, quota, mean),
    "random": lambda features, quota, seed, mean: random(len(features), quota, seed),
}


def get_selector(name: str) -> Selector:
    """The selector called ``name``; other packages add theirs in the entry point group ``whorl.memory``."""
    return registry.find("selector", name, SELECTORS, "whorl.memory")


@dataclass(frozen=True)
class Selection:
    """How exemplars are selected: selector, number per class, and the reading of Algorithm 2.

    The algorithm clusters again after training, yet the text stores pseudo labels, and nothing connects the two
    numberings. Hence three readings (docs/protocol.md, A12):

    * ``aligned``: cluster, match the clusters to the pseudo labels, select where both agree, store the pseudo label;
    * ``reuse``: select within each label, without clustering; also used where labels are given;
    * ``recluster``: to the letter: cluster, select within each cluster, store the cluster's own id.
    """

    selector: Selector
    quota: int
    seed: int
    reading: Reading = "reuse"
    clusterer: Clusterer | None = None

    def __post_init__(self) -> None:
        if self.reading not in get_args(Reading):
            raise unknown("reading of Algorithm 2", self.reading, get_args(Reading))


def exemplars(features: FloatArray, labels: Labelling, how: Selection) -> tuple[IntArray, IntArray]:
    """Algorithm 2 for new classes: (indices of the samples to store, ids to store), grouped by id, in rank order.

    ``features`` are those of the model after the step, not normalised; every sample must have a new class.
    """
    if not np.array_equal(np.unique(labels.ids), labels.new_ids):
        raise ValueError(f"labels must use each of {labels.known}..{labels.known + labels.new - 1} and no other")
    require_finite(features)
    if how.quota <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    pseudo = labels.ids - labels.known
    groups = pseudo if how.reading == "reuse" else _clusters(how, features, labels.new)
    if how.reading == "aligned":
        groups = aligned(groups, pseudo, labels.new)
    stored = groups if how.reading == "recluster" else pseudo
    picks = [_pick(features, groups == j, stored == j, how, j) for j in range(labels.new)]
    return np.concatenate(picks), np.repeat(labels.new_ids, [len(pick) for pick in picks])


def _pick(
    features: FloatArray, group: npt.NDArray[np.bool_], stored: npt.NDArray[np.bool_], how: Selection, number: int
) -> IntArray:
    """The exemplars of one id (docs/protocol.md, A12): ``group`` determines the mean, ``stored`` which may be stored.

    Samples in both come first, as the selector ranks them, then the others with the label, nearest to the mean first.
    """
    mean = unit_rows(features[group]).mean(axis=0)
    both = np.flatnonzero(group & stored)
    # Each id has its own seed; otherwise groups of equal size would all keep the same positions.
    ranked = both[how.selector(features[both], how.quota, derive(how.seed, "exemplars", number), mean)]
    others = np.flatnonzero(stored & ~group)
    distances = np.square(unit_rows(features[others]) - mean).sum(axis=1)
    nearest = others[np.argsort(distances, kind="stable")]
    return np.concatenate([ranked, nearest[: how.quota - len(ranked)]])


def _clusters(how: Selection, features: FloatArray, k: int) -> IntArray:
    if how.clusterer is None:
        raise ValueError(f"the reading {how.reading!r} of Algorithm 2 needs a clusterer")
    return how.clusterer.fit_predict(features, k, how.seed).labels
