"""Agglomerative clustering: from single samples upwards, always the merger that costs least."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from whorl.cluster.base import Clusters, Options, checked, filled, partition, reproducible
from whorl.errors import WhorlError
from whorl.types import FloatArray


class Agglomerative(Options):
    """Ward's linkage: each merger is the one that adds least inertia, until ``k`` clusters are left.

    Nothing is drawn and nothing iterated, so the seed and all options but ``l2`` have no effect. It holds the
    distances between all pairs of samples: 100 MB for 5,000 of them, 10 GB for 50,000.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        labels = np.zeros(len(points), dtype=np.int64)
        if k > 1:  # scikit-learn refuses a single sample
            try:
                with reproducible():
                    labels = AgglomerativeClustering(k, linkage="ward").fit(points.astype(np.float64)).labels_
            except MemoryError as error:
                raise WhorlError(
                    f"agglomerative clustering of {len(points)} samples needs {len(points) ** 2 * 4 / 1e9:.0f} GB; "
                    "take another --cluster or fewer images a task"
                ) from error
        return filled(points, partition(points, labels, k))
