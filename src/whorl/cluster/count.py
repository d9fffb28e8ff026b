"""How many clusters there are in features, and which clusters may be parts of one.

The silhouette of a sample compares its mean distance to the other members of its cluster, a, with that to the members
of the nearest other cluster, b: (b - a) / max(a, b) (Rousseeuw 1987, "Silhouettes: a graphical aid to the
interpretation and validation of cluster analysis").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from sklearn.metrics import euclidean_distances, silhouette_samples

from whorl.cluster.base import random_state, reproducible, unit_rows
from whorl.cluster.kmeans import KMeans
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray

SAMPLES = 2000
"""The silhouette needs all pairwise distances; it is computed on at most so many samples, drawn at random."""
MOST = 150
"""The largest number of clusters that is tried."""
RESTARTS = 3
"""Restarts of k-means for each number that is tried."""
TIE = 1.0
"""Numbers are as good as the best one if their silhouettes differ by at most so many standard errors."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of the number of clusters, with its range and the silhouettes it was chosen by."""

    number: int
    low: int
    high: int
    scores: dict[int, float]
    """The mean silhouette by the number of clusters."""
    reasons: tuple[str, ...]


def estimate(features: FloatArray, seed: int, one: float = 0.0) -> Estimate:
    """How many clusters there are in ``features`` [n, d], compared by direction.

    The range are the numbers from the first to the last whose silhouette is within a standard error of the best one,
    and the estimate is the last of these: clusters that are too many can be merged, which is easier than splitting. If
    no silhouette is above ``one``, that of a single class cut in two, the answer is one cluster.
    """
    points = unit_rows(features)
    distinct = len(np.unique(points, axis=0))
    if distinct < 3:
        why = ("there are no samples of new classes", "all samples are alike", "there are two different samples")
        return Estimate(distinct, distinct, distinct, {}, (why[distinct],))
    rows = np.sort(random_state(derive(seed, "silhouette")).permutation(len(points))[:SAMPLES])
    with reproducible():
        distances = euclidean_distances(points[rows])
    np.fill_diagonal(distances, 0)
    scores, errors = dict[int, float](), dict[int, float]()
    for k in _numbers(min(MOST, distinct - 1)):
        labels = KMeans(RESTARTS).fit_predict(points.astype(np.float32), k, derive(seed, "number", k)).labels[rows]
        if not 1 < len(np.unique(labels)) < len(rows):
            break
        found = silhouette_samples(distances, labels, metric="precomputed")
        scores[k], errors[k] = float(found.mean()), float(found.std() / np.sqrt(len(found)))
        if _falling(scores):
            break
    return chosen(scores, errors, one)


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


def chosen(scores: dict[int, float], errors: dict[int, float], one: float) -> Estimate:
    """The estimate by the silhouettes and their standard errors, by number of clusters; ``one`` as for ``estimate``."""
    best = max(scores, key=lambda k: scores[k])
    top = f"the silhouette is highest, {scores[best]:.3f}, with {best} clusters"
    if scores[best] <= one:
        why = f"{top}; a single known class cut in two has {one:.3f}"
        return Estimate(1, 1, best, scores, (why,))
    close = [k for k in scores if scores[k] >= scores[best] - TIE * errors[best]]
    number, low, high = max(close), min(close), max(close)
    reasons = [top]
    if low < high:
        reasons.append(f"from {low} to {high} it is within a standard error of that, {TIE * errors[best]:.3f}")
        reasons.append("the largest of these, because clusters are easier to merge than to split")
    return Estimate(number, low, high, scores, tuple(reasons))


def likeness(points: npt.NDArray[np.float64], labels: IntArray) -> list[tuple[int, int, float]]:
    """All pairs of clusters with how much they look like one, the most alike first.

    The members of both are projected on the line through the two means. The likeness is the share of their variance on
    it that is within the clusters: 0 for two points, 1 - 2/pi = 0.36 for one Gaussian cut in the middle.
    """
    groups = {int(j): points[labels == j] for j in np.unique(labels)}
    pairs = [(a, b, _within(groups[a], groups[b])) for a, b in combinations(groups, 2)]
    return sorted(pairs, key=lambda pair: -pair[2])


def _within(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    axis = a.mean(axis=0) - b.mean(axis=0)
    first, second = a @ axis, b @ axis
    total = float(np.concatenate([first, second]).var())
    inside = (len(a) * float(first.var()) + len(b) * float(second.var())) / (len(a) + len(b))
    return inside / total if total > 0 else 1.0
