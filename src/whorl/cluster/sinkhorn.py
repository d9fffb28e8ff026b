"""Clusters of equal size by optimal transport."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.metrics import euclidean_distances

from whorl.cluster.balance import balanced
from whorl.cluster.base import Clusters, Options, checked, filled, partition, reproducible
from whorl.cluster.kmeans import KMeans
from whorl.seeds import derive
from whorl.types import FloatArray

ENTROPY = 0.05
"""Softness of the assignment, relative to the mean difference in squared distance to a centre and the nearest one."""
COOLING = 6
"""Number of halvings of the entropy at the start, down to ``ENTROPY``."""
SWEEPS = 20
"""Maximum number of Sinkhorn-Knopp iterations per assignment; the next one starts from their prices."""


class Sinkhorn(Options):
    """k-means with clusters whose sizes differ by at most one; the best of several restarts is kept.

    Each starts from the centres of one run of k-means. Then two steps alternate. Sinkhorn-Knopp iterations (Cuturi
    2013, "Sinkhorn distances") assign the samples softly to clusters of equal total weight, and each centre becomes the
    weighted mean of its samples. Asano et al. 2020, "Self-labelling via simultaneous clustering and representation
    learning", use the same transport on the outputs of a classifier to make pseudo labels. Then hard assignments,
    computed exactly by ``balanced``, alternate with the means in the same way. Each of the two loops ends after
    ``iterations``, or when the relative decrease of the cost is less than ``tolerance``. At the end, no other balanced
    assignment to the final centres has a cost that is lower by more than this.
    """

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        """Group the rows of ``features`` [n, d] into ``k`` clusters."""
        points = checked(features, k, self.l2)
        runs = (self._run(points, k, derive(seed, "restart", number)) for number in range(self.restarts))
        return filled(points, min(runs, key=lambda found: found.inertia))

    def _run(self, points: FloatArray, k: int, seed: int) -> Clusters:
        """One of the restarts."""
        centres = KMeans(1, self.iterations, self.tolerance).fit_predict(points, k, seed).centres
        with reproducible():
            cost = _distances(points, centres)
            entropy = (
                ENTROPY * float((cost - cost.min(axis=1, keepdims=True)).mean()) or 1.0
            )  # 0 if all samples are equal
            prices = np.zeros(k)
            for halvings in range(COOLING, 0, -1):  # prices converge much faster when started from a softer transport
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
        return best


def transport(
    cost: npt.NDArray[np.float64], prices: npt.NDArray[np.float64], entropy: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The transport plan [n, k], whose rows sum to 1 and columns to n / k, and its ``prices`` [k].

    The weights of a sample are proportional to exp((price - cost) / entropy). Each iteration raises the prices of
    clusters that get too little weight. Everything is computed in logarithms, so that nothing overflows.
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
