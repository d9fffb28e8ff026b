"""Spectral clustering: clusters of any shape that are connected in the nearest-neighbour graph."""

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
"""Number of nearest neighbours in the graph. As in scikit-learn, a sample counts as its own neighbour."""


class Spectral(Options):
    """k-means on the eigenvectors of the normalised graph Laplacian with the ``k`` smallest eigenvalues.

    Does the same as scikit-learn's SpectralClustering with nearest neighbours, but all options apply to the k-means
    step. The eigenvectors are computed by LOBPCG from a seeded start. ARPACK, the default of scikit-learn, draws
    unseeded numbers on degenerate graphs and factorises a matrix whose size grows with the square of the samples.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        labels = np.arange(len(points)) % k  # correct for k = 1 and for k = n
        if 1 < k < len(points):
            # scikit-learn warns if the graph is not connected, which is no problem, because the eigenvectors then
            # separate its components; and if the eigenvectors are not fully precise, which k-means does not need.
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
    """The affinity matrix [n, n], sparse: 1 if two samples are neighbours of each other, 0.5 if only one is.

    Each sample has ``NEIGHBOURS`` neighbours, or n / k if that is less (at least itself and one other), because a graph
    in which everything is connected has no structure. While the graph has more components than there are clusters,
    the number of neighbours is doubled, because the eigenvectors do not show which components are close.
    """
    wide, n = points.astype(np.float64), len(points)
    neighbours = min(NEIGHBOURS, max(2, n // k))
    while True:
        joined = kneighbors_graph(wide, neighbours, include_self=True)
        if neighbours == n or connected_components(joined, directed=False, return_labels=False) <= k:
            return 0.5 * (joined + joined.T)
        neighbours = min(2 * neighbours, n)
