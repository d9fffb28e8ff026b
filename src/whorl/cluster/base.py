"""What a clusterer is, and the two promises all of them keep: clear errors, and no empty cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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

    Write one as ``points = checked(features, k)``, your algorithm, ``return filled(points, clusters)``.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d]."""
        ...


def checked(features: npt.NDArray[np.floating[Any]], k: int) -> FloatArray:
    """The features as float32 rows, or a clear error: too few samples for ``k`` clusters, or not finite."""
    if features.ndim != 2:
        raise ValueError(f"features {features.shape} must be [samples, dimensions]")
    if k < 1:
        raise WhorlError(f"cannot make {k} clusters; ask for at least 1")
    if k > len(features):
        raise WhorlError(f"cannot make {k} clusters of {len(features)} samples; give more images or ask for fewer")
    with np.errstate(over="ignore"):  # what overflows float32 is reported below
        points = np.ascontiguousarray(features, dtype=np.float32)
    require_finite(points)
    return points


def require_finite(features: npt.NDArray[np.floating[Any]]) -> None:
    """Raise unless every feature is a finite number."""
    if bad := int(np.count_nonzero(~np.isfinite(features).all(axis=1))):
        raise WhorlError(
            f"the features of {bad} of {len(features)} samples are not finite: training diverged; "
            "lower the learning rate"
        )


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
