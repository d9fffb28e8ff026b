"""Clusters of equal size, by optimal transport."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.metrics import euclidean_distances

from whorl.cluster.balance import balanced
from whorl.cluster.base import Clusters, Options, checked, filled, partition, reproducible
from whorl.cluster.kmeans import KMeans
from whorl.types import FloatArray

ENTROPY = 0.05
"""How soft the assignment is, in units of how much farther a centre is than the nearest one, in squared distance."""
COOLING = 6
"""How often the entropy is halved at the start, until it is ``ENTROPY``."""
SWEEPS = 20
"""Sinkhorn-Knopp iterations for one assignment at most; the next one goes on from their prices."""


class Sinkhorn(Options):
    """k-means with clusters whose sizes differ by at most one.

    From the centres of k-means, two steps alternate: samples are transported to the clusters, softly and in equal
    shares, by Sinkhorn-Knopp iterations (Cuturi 2013, "Sinkhorn distances"), and centres become the means of what
    they got. Asano et al. 2020, "Self-labelling via simultaneous clustering and representation learning", make pseudo
    labels by the same transport, of a classifier's outputs. At the end the assignment is made hard, by ``balanced``,
    which is exact, and again alternates with the means. Both end after ``iterations``, or when the cost falls by a
    share of less than ``tolerance``; then no other even assignment to the final centres is better by more than that.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        centres = KMeans(self.restarts, self.iterations, self.tolerance).fit_predict(points, k, seed).centres
        with reproducible():
            cost = _distances(points, centres)
            entropy = ENTROPY * float((cost - cost.min(axis=1, keepdims=True)).mean()) or 1.0  # 0 if all are alike
            prices = np.zeros(k)
            for halvings in range(COOLING, 0, -1):  # prices are found far sooner from those of a softer transport
                prices = transport(cost, prices, entropy * 2**halvings)[1]
            moved = np.inf
            for _ in range(self.iterations):
                plan, prices = transport(cost, prices, entropy)
                before, moved = moved, float((plan * cost).sum())
                if moved >= before * (1 - self.tolerance):
                    break
                cost = _distances(points, (plan / plan.sum(axis=0)).astype(np.float32).T @ points)
            best = partition(points, balanced(cost, prices), k)
            for _ in range(self.iterations):
                again = partition(points, balanced(_distances(points, best.centres), prices), k)
                if again.inertia >= best.inertia * (1 - self.tolerance):
                    break
                best = again
        return filled(points, best)


def transport(
    cost: npt.NDArray[np.float64], prices: npt.NDArray[np.float64], entropy: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The plan [n, k] by which each sample gives away 1 and each cluster gets n / k, and the ``prices`` [k] behind it.

    A sample shares itself out by exp((price - cost) / entropy); prices go up where a cluster gets too little. All of
    it in logarithms, where nothing overflows.
    """
    n, k = cost.shape
    for _ in range(SWEEPS):
        scores = (prices - cost) / entropy
        scores -= logsumexp(scores, axis=1, keepdims=True)
        missing = np.log(n / k) - logsumexp(scores, axis=0)
        prices = prices + entropy * missing
        if np.abs(missing).max() < 0.01:
            break
    return np.exp(scores), prices


def _distances(points: FloatArray, centres: FloatArray) -> npt.NDArray[np.float64]:
    return np.asarray(euclidean_distances(points, centres, squared=True), dtype=np.float64)
