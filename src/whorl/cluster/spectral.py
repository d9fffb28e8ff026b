"""Spectral clustering: what hangs together in the graph of nearest neighbours, whatever its shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.manifold import spectral_embedding
from sklearn.neighbors import kneighbors_graph

from whorl.cluster.base import Clusters, Options, checked, filled, partition, random_state, reproducible
from whorl.cluster.kmeans import KMeans
from whorl.types import FloatArray

NEIGHBOURS = 15
"""How many nearest samples each one is joined to, itself included, as scikit-learn counts them."""


class Spectral(Options):
    """k-means on the first ``k`` eigenvectors of the normalised graph Laplacian.

    The steps of scikit-learn's SpectralClustering with nearest neighbours, one by one, so that all options reach its
    k-means. The eigenvectors are found by LOBPCG from a seeded start, because ARPACK, the library's default, draws
    unseeded numbers on degenerate graphs, and factorises a matrix that grows with the square of the samples.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        labels = np.arange(len(points)) % k  # all there is to say about one cluster, and about as many as samples
        if 1 < k < len(points):
            # The warnings: a graph in several parts, whose first eigenvectors tell the parts apart, which is what
            # clusters are wanted for; and eigenvectors short of full precision, which k-means has no need of.
            with reproducible(UserWarning):
                embedded = spectral_embedding(
                    neighbour_graph(points, k),
                    n_components=k,
                    eigen_solver="lobpcg",
                    random_state=random_state(seed),
                    drop_first=False,
                )
            labels = KMeans(self.restarts, self.iterations, self.tolerance).fit_predict(embedded, k, seed).labels
        return filled(points, partition(points, labels, k))


def neighbour_graph(points: FloatArray, k: int) -> Any:
    """A sparse matrix [n, n]: 1 where two samples are among each other's ``NEIGHBOURS`` nearest, 0.5 where one is.

    Fewer are joined where a cluster has on average fewer samples (but at least one other), because a graph that joins
    everything says nothing. Twice as many, again and again, where the graph has more parts than there are clusters,
    because its eigenvectors do not say which parts are near each other.
    """
    wide, n = points.astype(np.float64), len(points)
    neighbours = min(NEIGHBOURS, max(2, n // k))
    while True:
        joined = kneighbors_graph(wide, neighbours, include_self=True)
        if neighbours == n or connected_components(joined, directed=False, return_labels=False) <= k:
            return 0.5 * (joined + joined.T)
        neighbours = min(2 * neighbours, n)
