"""k-means, the clusterer of the paper (section 4.1)."""

from __future__ import annotations

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning

from whorl.cluster.base import Clusters, Options, checked, filled, random_state, reproducible
from whorl.types import FloatArray


class KMeans(Options):
    """Lloyd's algorithm with k-means++ initialisation; the best of several restarts is kept (docs/protocol.md, A7)."""

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
        # scikit-learn warns about duplicates that leave clusters empty; `filled` takes care of them.
        with reproducible(ConvergenceWarning):
            model.fit(points)
        labels = model.labels_.astype(np.int64)
        return filled(points, Clusters(labels, model.cluster_centers_, float(model.inertia_)))
