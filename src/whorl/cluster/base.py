"""What a clusterer is, and what all of them promise: clear errors, no empty cluster, equal bits for equal seeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from whorl.errors import WhorlError
from whorl.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Clusters:
    """A partition of the samples. Every id 0..k-1 has at least one member."""

    labels: IntArray
    centres: FloatArray
    inertia: float
    """Sum of squared distances of the samples to the centre of their cluster."""


class Clusterer(Protocol):
    """Splits features into exactly ``k`` non-empty groups; a function of its arguments and the seed alone.

    Write one as ``points = checked(features, k)``, your algorithm, ``return filled(points, clusters)``. Where the
    algorithm gives labels alone, ``partition`` makes clusters of them.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d]."""
        ...


@dataclass(frozen=True)
class Options:
    """What the config's section ``cluster`` sets. Every clusterer takes all of it and says what it has no use for.

    Every value is explicit because library defaults have changed over time. ``l2`` puts the features at length one
    first; centres and inertia are then those of the normalised features.
    """

    restarts: int = 10
    iterations: int = 300
    tolerance: float = 1e-4
    l2: bool = False


def checked(features: npt.NDArray[np.floating[Any]], k: int, l2: bool = False) -> FloatArray:
    """The features as float32 rows, or a clear error: too few samples for ``k`` clusters, or not finite.

    With ``l2`` the rows are put at length one.
    """
    if features.ndim != 2:
        raise ValueError(f"features {features.shape} must be [samples, dimensions]")
    if k < 1:
        raise WhorlError(f"cannot make {k} clusters; ask for at least 1")
    if k > len(features):
        raise WhorlError(f"cannot make {k} clusters of {len(features)} samples; give more images or ask for fewer")
    with np.errstate(over="ignore"):  # what overflows float32 is reported below
        points = np.ascontiguousarray(features, dtype=np.float32)
    require_finite(points)
    return unit_rows(points).astype(np.float32) if l2 else points


def require_finite(features: npt.NDArray[np.floating[Any]]) -> None:
    """Raise unless every feature is a finite number."""
    if bad := int(np.count_nonzero(~np.isfinite(features).all(axis=1))):
        raise WhorlError(
            f"the features of {bad} of {len(features)} samples are not finite: training diverged; "
            "lower the learning rate"
        )


def random_state(seed: int) -> np.random.RandomState:
    """What scikit-learn draws from, for seeds of 63 bits."""
    # Through a bit generator, because RandomState alone refuses seeds of more than 32 bits.
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


@contextmanager
def reproducible(*expected: type[Warning]) -> Iterator[None]:
    """Run a library's algorithm on one thread, without the warnings that are ``expected``.

    Several threads add up partial sums in the order they finish, so only one gives equal bits for equal seeds.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        for category in expected:
            warnings.simplefilter("ignore", category)
        yield


def partition(points: FloatArray, labels: IntArray, k: int) -> Clusters:
    """The clusters that labels 0..k-1 make: means as centres, and the inertia about them. Some may be empty."""
    wide = points.astype(np.float64)
    centres = _means(wide, labels, np.bincount(labels, minlength=k))
    # One cluster at a time, because differences of all samples at once would take several times their memory.
    inertia = sum(float(_squared(wide[labels == j] - centres[j]).sum()) for j in range(k))
    return Clusters(labels.astype(np.int64), centres.astype(np.float32), inertia)


def filled(points: FloatArray, clusters: Clusters) -> Clusters:
    """The same clusters with no empty one; what has no empty cluster is returned as it is.

    Among duplicates an algorithm may find fewer than k distinct groups. Each empty cluster then takes the sample
    farthest from its own centre among clusters with more than one member (lowest index on ties).
    """
    k = len(clusters.centres)
    counts = np.bincount(clusters.labels, minlength=k)
    if counts.all():
        return clusters
    labels = clusters.labels.copy()
    wide = points.astype(np.float64)
    centres = _means(wide, labels, counts)
    distances = _squared(wide - centres[labels])
    for empty in np.flatnonzero(counts == 0):
        taken = int(np.argmax(np.where(counts[labels] > 1, distances, -1.0)))
        donor = labels[taken]
        labels[taken] = empty
        counts[donor] -= 1
        counts[empty] = 1
        left = labels == donor
        centres[donor], centres[empty] = wide[left].mean(axis=0), wide[taken]
        distances[left], distances[taken] = _squared(wide[left] - centres[donor]), 0.0
    return Clusters(labels, centres.astype(np.float32), float(distances.sum()))


def unit_rows(features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """The rows at length one, in float64. A row of zeros has no direction and stays."""
    wide = features.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(norms > 0, norms, 1.0)


def _means(points: npt.NDArray[np.float64], labels: IntArray, counts: IntArray) -> npt.NDArray[np.float64]:
    sums = np.zeros((len(counts), points.shape[1]))
    np.add.at(sums, labels, points)
    return sums / np.maximum(counts, 1)[:, None]


def _squared(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.square(rows).sum(axis=1))
