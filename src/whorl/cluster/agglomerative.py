"""Agglomerative clustering: starts from single samples and repeatedly merges the two closest clusters."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from whorl.cluster.base import Clusters, Options, checked, filled, partition, reproducible
from whorl.errors import WhorlError
from whorl.types import FloatArray


class Agglomerative(Options):
    """Ward's linkage: merges the two clusters that increase the inertia least, until ``k`` are left.

    The algorithm is deterministic and not iterative, so the seed and all options except ``l2`` have no effect. It
    stores the distances between all pairs of samples: 100 MB for 5,000 samples, 10 GB for 50,000.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        labels = np.zeros(len(points), dtype=np.int64)
        if k > 1:  # scikit-learn does not accept a single sample
            try:
                with reproducible():
                    labels = AgglomerativeClustering(k, linkage="ward").fit(points.astype(np.float64)).labels_
            except MemoryError as error:
                raise WhorlError(
                    f"agglomerative clustering of {len(points)} samples needs {len(points) ** 2 * 4 / 1e9:.0f} GB; "
                    "set another `cluster.name`, or lower `data.per_class`"
                ) from error
        return filled(points, partition(points, labels, k))
