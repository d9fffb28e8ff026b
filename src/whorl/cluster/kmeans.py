"""k-means, the paper's clusterer (section 4.1)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from whorl.cluster.base import Clusters, checked, filled, unit_rows
from whorl.types import FloatArray


@dataclass(frozen=True)
class KMeans:
    """Lloyd's algorithm from k-means++ seeds; the restart with the lowest inertia wins (docs/protocol.md, A7).

    Every value is explicit because library defaults have changed over time. ``l2`` puts the features at length one
    first; centres and inertia are then those of the normalised features.
    """

    restarts: int = 10
    iterations: int = 300
    tolerance: float = 1e-4
    l2: bool = False

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k)
        if self.l2:
            points = unit_rows(points).astype(np.float32)
        model = cluster.KMeans(
            k,
            init="k-means++",
            n_init=self.restarts,
            max_iter=self.iterations,
            tol=self.tolerance,
            algorithm="lloyd",
            # Through a bit generator, because RandomState alone refuses seeds of more than 32 bits.
            random_state=np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed))),
        )
        # scikit-learn adds up per-thread partial sums in the order the threads finish, so only a single thread gives
        # equal bits for equal seeds. Its warning is about duplicates, which `filled` settles.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(points)
        labels = model.labels_.astype(np.int64)
        return filled(points, Clusters(labels, model.cluster_centers_, float(model.inertia_)))
