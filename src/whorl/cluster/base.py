"""The interface of a clusterer, and helpers for writing one.

Every clusterer raises clear errors, leaves no cluster empty, and gives the same bits for the same seed. The helpers
``checked``, ``reproducible``, ``partition`` and ``filled`` provide this. CONTRIBUTING.md has a complete example.

``Options`` is a frozen dataclass with the options of the config's section ``cluster``. A clusterer derives from it,
because it is created with all of these options as keyword arguments.
"""

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
    """A partition of n samples into k clusters, none of them empty."""

    labels: IntArray
    """The cluster 0..k-1 of each sample [n]."""
    centres: FloatArray
    """The means of the clusters [k, d]."""
    inertia: float
    """Sum of the squared distances of the samples to the centres of their clusters."""


class Clusterer(Protocol):
    """Partitions features into exactly ``k`` non-empty clusters.

    The result depends on the features, ``k``, the seed and the options only, and the features are not changed.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Partition the rows of ``features`` [n, d] into ``k`` clusters. ``seed`` may have up to 63 bits."""
        ...


@dataclass(frozen=True)
class Options:
    """The options of the config's section ``cluster``, and the base class of the clusterers.

    Every clusterer accepts all of them; its docstring says which ones have no effect. None of them is left to the
    defaults of a library, which change between versions.
    """

    restarts: int = 10
    """Number of runs with different initialisations, of which the best is kept."""
    iterations: int = 300
    """Maximum number of iterations of one run."""
    tolerance: float = 1e-4
    """Convergence threshold; its meaning depends on the algorithm."""
    l2: bool = False
    """Normalise the features to length one before clustering. Centres and inertia refer to the normalised features."""


def checked(features: npt.NDArray[np.floating[Any]], k: int, l2: bool = False) -> FloatArray:
    """The features as contiguous float32 [n, d], with ``l2`` normalised to length one.

    Raises ``WhorlError`` if ``k`` < 1, ``k`` > n, or a feature is not finite.
    """
    if features.ndim != 2:
        raise ValueError(f"features {features.shape} must be [samples, dimensions]")
    if k < 1:
        raise WhorlError(f"cannot make {k} clusters; ask for at least 1")
    if k > len(features):
        raise WhorlError(f"cannot make {k} clusters of {len(features)} samples; add samples or ask for fewer clusters")
    with np.errstate(over="ignore"):  # values that overflow float32 are reported below
        points = np.ascontiguousarray(features, dtype=np.float32)
    require_finite(points)
    return unit_rows(points).astype(np.float32) if l2 else points


def require_finite(features: npt.NDArray[np.floating[Any]]) -> None:
    """Raise ``WhorlError`` unless all features are finite."""
    if bad := int(np.count_nonzero(~np.isfinite(features).all(axis=1))):
        raise WhorlError(
            f"the features of {bad} of {len(features)} samples are not finite: training diverged; "
            "lower the learning rate"
        )


def random_state(seed: int) -> np.random.RandomState:
    """A random generator for scikit-learn's ``random_state``."""
    # Created from a bit generator, because RandomState itself does not accept seeds of more than 32 bits.
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


@contextmanager
def reproducible(*expected: type[Warning]) -> Iterator[None]:
    """Run a library's algorithm in a single thread and ignore the ``expected`` warnings.

    With several threads, the order in which partial sums are added varies, and with it the last bits of the result.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        for category in expected:
            warnings.simplefilter("ignore", category)
        yield


def partition(points: FloatArray, labels: IntArray, k: int) -> Clusters:
    """The clusters given by labels 0..k-1, with their means as centres. Some may be empty; see ``filled``."""
    wide = points.astype(np.float64)
    centres = _means(wide, labels, np.bincount(labels, minlength=k))
    # One cluster at a time, because the differences of all samples would take several times their memory.
    inertia = sum(float(_squared(wide[labels == j] - centres[j]).sum()) for j in range(k))
    return Clusters(labels.astype(np.int64), centres.astype(np.float32), inertia)


def filled(points: FloatArray, clusters: Clusters) -> Clusters:
    """The clusters with a sample moved into each empty one; returned unchanged if none is empty.

    If there are duplicates, an algorithm may find fewer than ``k`` distinct groups. Each empty cluster then takes the
    sample that is farthest from its centre, among clusters with more than one member (the lowest index on ties).
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
    """The rows normalised to length one, in float64. Rows of zeros stay as they are."""
    wide = features.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(norms > 0, norms, 1.0)


def _means(points: npt.NDArray[np.float64], labels: IntArray, counts: IntArray) -> npt.NDArray[np.float64]:
    sums = np.zeros((len(counts), points.shape[1]))
    np.add.at(sums, labels, points)
    return sums / np.maximum(counts, 1)[:, None]


def _squared(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.square(rows).sum(axis=1))
