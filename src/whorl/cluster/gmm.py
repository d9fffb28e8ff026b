"""Gaussian mixture model: clusters may differ in size and shape, whereas k-means assumes equal spheres."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from whorl.cluster.base import Clusters, Options, checked, filled, partition, reproducible
from whorl.cluster.kmeans import KMeans
from whorl.types import FloatArray, IntArray

REGULARISATION = 1e-6
"""Added to every variance (scikit-learn's ``reg_covar``)."""


class GMM(Options):
    """Gaussians fitted by expectation-maximisation, starting from k-means; each sample takes the most likely one.

    Covariances are full, unless a component has fewer than twice as many samples as there are dimensions (in the
    partition of k-means or after the full fit) or the full fit fails. Then all covariances are diagonal. If the
    diagonal fit fails too, or all features are constant, the result is the partition of k-means (docs/protocol.md,
    A45). Centres are the means of the members.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        start = KMeans(self.restarts, self.iterations, self.tolerance).fit_predict(points, k, seed).labels
        rows = points.astype(np.float64)
        rows -= rows.mean(axis=0)  # does not change the mixture, but reduces rounding errors
        labels = self._mixture(rows, start, k) if rows.any() else start
        return filled(points, partition(points, labels, k))

    def _mixture(self, rows: npt.NDArray[np.float64], start: IntArray, k: int) -> IntArray:
        enough = 2 * rows.shape[1]
        if _smallest(start, k) >= enough:
            labels = self._fitted(rows, start, k, "full")
            if labels is not None and _smallest(labels, k) >= enough:
                return labels
        labels = self._fitted(rows, start, k, "diag")
        return start if labels is None else labels

    def _fitted(self, rows: npt.NDArray[np.float64], start: IntArray, k: int, kind: str) -> IntArray | None:
        """The most likely component of each row, or None if a covariance is not positive definite."""
        groups = [rows[start == j] for j in range(k)]
        # If the fit has not converged after all iterations, its labels are used as they are.
        with reproducible(ConvergenceWarning):
            try:
                model = GaussianMixture(
                    k,
                    covariance_type=kind,
                    tol=self.tolerance,
                    reg_covar=REGULARISATION,
                    max_iter=self.iterations,
                    weights_init=np.bincount(start, minlength=k) / len(rows),
                    means_init=np.stack([group.mean(axis=0) for group in groups]),
                    precisions_init=np.stack([_precision(group, kind) for group in groups]),
                )
                return np.asarray(model.fit_predict(rows), dtype=np.int64)
            except (ValueError, np.linalg.LinAlgError):  # raised by scikit-learn and NumPy
                return None


def _smallest(labels: IntArray, k: int) -> int:
    return int(np.bincount(labels, minlength=k).min())


def _precision(group: npt.NDArray[np.float64], kind: str) -> npt.NDArray[np.float64]:
    """The inverse covariance matrix of the rows, or only its diagonal for ``diag``."""
    deviations = group - group.mean(axis=0)
    if kind == "diag":
        return np.asarray(1 / (np.square(deviations).mean(axis=0) + REGULARISATION))
    covariance = deviations.T @ deviations / len(group) + REGULARISATION * np.eye(group.shape[1])
    inverse = np.linalg.inv(covariance)
    return np.asarray((inverse + inverse.T) / 2)  # scikit-learn requires exact symmetry
