"""How many clusters there are in features, and which clusters may be parts of one.

The silhouette of a sample compares its mean distance to the other members of its cluster, a, with that to the members
of the nearest other cluster, b: (b - a) / max(a, b) (Rousseeuw 1987, "Silhouettes: a graphical aid to the
interpretation and validation of cluster analysis"). It is computed on samples that the clusters were not fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from sklearn.metrics import euclidean_distances, pairwise_distances_argmin, silhouette_score

from whorl.cluster.base import random_state, reproducible, unit_rows
from whorl.cluster.kmeans import KMeans
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray

Points = npt.NDArray[np.float64]

SAMPLES = 2000
"""The silhouette needs all pairwise distances; it is computed on at most so many samples of a half, drawn at random."""
MOST = 150
"""The largest number of clusters that is tried."""
RESTARTS = 2
"""Restarts of k-means for each number that is tried."""
CLOSE, RANGE = 0.1, 0.2
"""Numbers are as good as the best, or in the range, if their silhouette is lower by at most these shares of it."""
CLEAR = 0.2
"""Of a silhouette above this, the shares are taken of this: to cut one of many clear clusters in two costs little."""
HALVES = 1 - 2 / np.pi
"""The likeness of the two halves of a Gaussian that is cut in the middle."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of the number of clusters, with its range and the silhouettes it was chosen by."""

    number: int
    low: int
    high: int
    scores: dict[int, float]
    """The held-out silhouette by the number of clusters."""
    reasons: tuple[str, ...]


def estimate(features: FloatArray, seed: int, one: float = HALVES) -> Estimate:
    """How many clusters there are in ``features`` [n, d], compared by direction.

    For each number, k-means is fitted to one half of the samples, and the silhouette is that of the other half with
    each sample in the cluster of the nearest centre; then the halves change places. Clusters that fit accidents of one
    half are not found in the other. ``one`` is how much alike the two halves of a single class are; see ``chosen``.
    """
    points = unit_rows(features)
    distinct = len(np.unique(points, axis=0))
    if distinct < 3:
        why = ("there are no samples of new classes", "all samples are alike", "there are two different samples")
        return Estimate(distinct, distinct, distinct, {}, (why[distinct],))
    order = random_state(derive(seed, "halves")).permutation(len(points))
    halves = points[order[: len(order) // 2]], points[order[len(order) // 2 :]]
    scores = dict[int, float]()
    for k in _numbers(min(MOST, distinct - 1, len(halves[0]) - 1)):
        scores[k] = held_out(*halves, k, derive(seed, "number", k))
        if _falling(scores):
            break
    return chosen(scores, cut_in_two(points, derive(seed, "two")), one)


def held_out(first: Points, second: Points, k: int, seed: int) -> float:
    """The mean silhouette of each half of the samples in the ``k`` clusters that k-means finds in the other half."""
    found = list[float]()
    for taught, asked in ((first, second), (second, first)):
        asked = asked[:SAMPLES]
        centres = KMeans(RESTARTS).fit_predict(taught.astype(np.float32), k, seed).centres
        with reproducible():
            labels = pairwise_distances_argmin(asked, centres.astype(np.float64))
            if 1 < len(np.unique(labels)) < len(asked):
                distances = euclidean_distances(asked)
                np.fill_diagonal(distances, 0)
                found.append(float(silhouette_score(distances, labels, metric="precomputed")))
    return float(np.mean(found)) if found else 0.0


def cut_in_two(points: Points, seed: int) -> float:
    """How much alike the two clusters are that k-means finds in ``points``."""
    return likeness(points, KMeans(RESTARTS).fit_predict(points.astype(np.float32), 2, seed).labels)[0][2]


def _numbers(most: int) -> Iterator[int]:
    """The numbers of clusters to try: every one up to 12, then with gaps of a tenth."""
    k = 2
    while k <= most:
        yield k
        k += max(1, k // 10) if k > 11 else 1


def _falling(scores: dict[int, float]) -> bool:
    """Whether the silhouette has fallen for so long that larger numbers need not be tried."""
    best, last = max(scores, key=lambda k: scores[k]), max(scores)
    return last >= 2 * best + 10


def chosen(scores: dict[int, float], two: float, one: float) -> Estimate:
    """The estimate by the silhouettes of the numbers of clusters.

    The range are the numbers from the first to the last whose silhouette is below the best one by at most ``RANGE`` of
    it, and the estimate is the last one within ``CLOSE`` of it: clusters that are too many can be merged, which is
    easier than splitting. The range ends at least one above the estimate, because the silhouette tends to join classes
    that are alike. There is one cluster if two of them have nearly the best silhouette, and are as much alike, ``two``,
    as the halves of a single class, ``one``.
    """
    best = max(scores, key=lambda k: scores[k], default=1)
    if best == 1 or scores[best] <= 0:
        return Estimate(1, 1, max(scores, default=1), scores, ("the samples do not form separate clusters",))
    least, lowest = (scores[best] - share * min(scores[best], CLEAR) for share in (CLOSE, RANGE))
    close, inside = ([k for k in scores if scores[k] >= limit] for limit in (least, lowest))
    number, low, last = max(close), min(inside), max(inside)
    top = f"the silhouette of held-out samples is highest, {scores[best]:.3f}, with {best} clusters"
    if scores[2] >= (1 - RANGE) * scores[best] and two >= one:
        why = f"two clusters are as much alike, {two:.2f}, as a single class cut in two, {one:.2f}"
        return Estimate(1, 1, last, scores, (top, why))
    reasons = [top]
    if low < last:
        reasons.append(f"from {low} to {last} it is at least {lowest:.3f}")
    if best < number:
        reasons.append(f"{number} is the largest with {least:.3f}: clusters are easier to merge than to split")
    if last == number:
        reasons.append("one more is possible: classes that are much alike are counted as one")
    return Estimate(number, low, max(last, number + 1), scores, tuple(reasons))


def likeness(points: Points, labels: IntArray) -> list[tuple[int, int, float]]:
    """All pairs of clusters with how much they look like one, the most alike first.

    The members of both are projected on the line through the two means. The likeness is the share of their variance on
    it that is within the clusters: 0 for two points, 1 - 2/pi = 0.36 for one Gaussian cut in the middle.
    """
    groups = {int(j): points[labels == j] for j in np.unique(labels)}
    pairs = [(a, b, _within(groups[a], groups[b])) for a, b in combinations(groups, 2)]
    return sorted(pairs, key=lambda pair: -pair[2])


def _within(a: Points, b: Points) -> float:
    axis = a.mean(axis=0) - b.mean(axis=0)
    first, second = a @ axis, b @ axis
    total = float(np.concatenate([first, second]).var())
    inside = (len(a) * float(first.var()) + len(b) * float(second.var())) / (len(a) + len(b))
    return inside / total if total > 0 else 1.0
