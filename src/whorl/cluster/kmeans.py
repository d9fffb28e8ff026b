"""k-means, the paper's clusterer (section 4.1)."""

from __future__ import annotations

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning

from whorl.cluster.base import Clusters, Options, checked, filled, random_state, reproducible
from whorl.types import FloatArray


class KMeans(Options):
    """Lloyd's algorithm from k-means++ seeds; the restart with the lowest inertia wins (docs/protocol.md, A7)."""

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        model = cluster.KMeans(
            k,
            init="k-means++",
            n_init=self.restarts,
            max_iter=self.iterations,
            tol=self.tolerance,
            algorithm="lloyd",
            random_state=random_state(seed),
        )
        # The warning is about duplicates, which `filled` settles.
        with reproducible(ConvergenceWarning):
            model.fit(points)
        labels = model.labels_.astype(np.int64)
        return filled(points, Clusters(labels, model.cluster_centers_, float(model.inertia_)))
