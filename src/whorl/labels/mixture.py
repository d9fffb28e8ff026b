"""One mixture of the known classes and of new groups, which separates what is known in a delivery from what is new.

All components are Gaussians with a common covariance, and the exemplars keep their classes. A new group that the
exemplars of a known class would choose as well, or that lies too near to one, is a part of that class and is given up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from whorl.cluster.base import random_state, reproducible, unit_rows
from whorl.cluster.kmeans import KMeans
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray

Points = npt.NDArray[np.float64]

DIMS = 128
"""The largest number of principal components that are kept."""
PER_COMPONENT = 8
"""The smallest number of samples for each of them."""
SHRINKAGE = 0.1
"""The weight of a covariance with equal variances in the estimate."""
FAR = 0.8
"""The share of the delivery, that least like any known class, in which new groups are started."""
GROUPS, MEMBERS = 30, 20
"""New groups of the mixture: at most so many, unless more classes are asked for, and one for so many samples."""
ROUNDS, ITERATIONS, SETTLED = 30, 20, 1e-3
"""Rounds of giving up groups, iterations of a fit, and the largest change of a probability at which it ends."""
SHARED = 0.2
"""A new group is given up if it attracts exemplars at this share of the rate at which known classes have them."""
APART = 3.0
"""A new group is given up if its mean may be less than so many standard deviations from that of a known class."""
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Known:
    """Projected exemplars with their classes, which are numbered from 0 without gaps."""

    points: Points
    labels: IntArray
    classes: int

    @property
    def means(self) -> Points:
        """The mean of each class [classes, d]."""
        return np.stack([self.points[self.labels == j].mean(axis=0) for j in range(self.classes)])


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted mixture: the known classes first, then the new groups."""

    posterior: Points
    """The probability of each component for each delivered sample [n, components]."""
    means: Points
    whiten: Points
    """Multiplied with points, it makes the common covariance the identity [d, d]."""


def projected(exemplars: FloatArray, delivered: FloatArray, seed: int) -> tuple[Points, Points]:
    """Square roots of the features at length one, in the principal components of both sets together."""
    rows = np.concatenate([exemplars, delivered]).astype(np.float64)
    rows = unit_rows(np.sign(rows) * np.sqrt(np.abs(rows)))
    components = max(1, min(DIMS, rows.shape[1], len(rows) // PER_COMPONENT))
    model = PCA(components, svd_solver="randomized", iterated_power=7, random_state=random_state(seed))
    with reproducible():
        points = model.fit_transform(rows)
    return points[: len(exemplars)], points[len(exemplars) :]


def fitted(known: Known, points: Points, centres: Points) -> Mixture:
    """The mixture of the known classes and of new groups that start at ``centres``, by expectation-maximisation."""
    every = np.concatenate([known.points, points])
    components = known.classes + len(centres)
    fixed = np.eye(components)[known.labels]
    posterior = np.eye(components)[squared(points, np.concatenate([known.means, centres])).argmin(axis=1)]
    for _ in range(ITERATIONS):
        weights = np.concatenate([fixed, posterior])
        totals = weights.sum(axis=0)
        means = weights.T @ every / np.maximum(totals, TINY)[:, None]
        whiten = _whitening((every.T @ every - (means.T * totals) @ means) / len(every))
        logs = -0.5 * squared(points @ whiten, means @ whiten)
        logs += np.log((posterior.sum(axis=0) + 1) / (len(points) + components))
        after = np.exp(logs - logs.max(axis=1, keepdims=True))
        after /= after.sum(axis=1, keepdims=True)
        change, posterior = np.abs(after - posterior).max(), after
        if change < SETTLED:
            break
    return Mixture(posterior, means, whiten)


def separated(known: Known, points: Points, new: int | None, seed: int) -> Mixture:
    """The mixture for the ``points`` of a delivery, without new groups that are parts of known classes.

    At least ``new`` groups are kept, and none if that is 0.
    """
    if new == 0:
        return fitted(known, points, points[:0])
    away = squared(unit_rows(points), unit_rows(known.means)).min(axis=1)
    far = np.sort(np.argsort(-away, kind="stable")[: max(round(FAR * len(points)), new or 1)])
    groups = min(len(far), max(2 * (new or 0), min(GROUPS, len(points) // MEMBERS), 1))
    found = KMeans().fit_predict(points[far].astype(np.float32), groups, derive(seed, "groups"))
    mixture = fitted(known, points, found.centres.astype(np.float64))
    for _ in range(ROUNDS):
        shares, near = attraction(known, mixture), nearness(known, mixture)
        kept = (shares <= SHARED) & ~near
        kept[np.lexsort((shares, near))[: new or 0]] = True
        if kept.all():
            break
        mixture = fitted(known, points, mixture.means[known.classes :][kept])
    return mixture


def attraction(known: Known, mixture: Mixture) -> Points:
    """For each new group, the exemplars nearest to it per delivered member, divided by this rate of known classes."""
    members = mixture.posterior.sum(axis=0)
    fixed = np.eye(len(members))[known.labels]
    distances = squared(known.points @ mixture.whiten, mixture.means @ mixture.whiten)
    distances *= left_out(members + fixed.sum(axis=0), fixed)
    nearest = np.bincount(distances.argmin(axis=1), minlength=len(members))
    rate = len(known.points) / max(float(members[: known.classes].sum()), 1.0)
    return np.asarray((nearest / np.maximum(members, TINY) / rate)[known.classes :])


def nearness(known: Known, mixture: Mixture) -> npt.NDArray[np.bool_]:
    """Which new groups may lie within ``APART`` standard deviations of a known class.

    The squared distance of two means, in units of the variance, exceeds that of the true means by d (1/n + 1/m) on
    average, with a standard deviation of about sqrt(2 d) (1/n + 1/m). Three of these are allowed for.
    """
    members = mixture.posterior.sum(axis=0)
    members[: known.classes] += np.bincount(known.labels, minlength=known.classes)
    means = mixture.means @ mixture.whiten
    inverse, d = 1 / np.maximum(members, 1.0), means.shape[1]
    error = inverse[known.classes :, None] + inverse[: known.classes]
    apart = squared(means[known.classes :], means[: known.classes]) - (d + 3 * np.sqrt(2 * d)) * error
    return np.asarray(apart.min(axis=1) < APART**2)


def left_out(totals: Points, weights: Points) -> Points:
    """The factors from squared distances to means to those to the means without the samples themselves.

    ``totals`` [k] are the weights that the means were computed with, ``weights`` [n, k] those of the samples in them.
    """
    return np.square(totals / np.maximum(totals - weights, TINY * totals + TINY))


def _whitening(covariance: Points) -> Points:
    """The matrix that makes a covariance, shrunk towards equal variances, the identity."""
    d = len(covariance)
    equal = float(np.trace(covariance)) / d
    if equal <= TINY:
        return np.eye(d)
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * covariance + SHRINKAGE * equal * np.eye(d))
    return np.asarray(vectors / np.sqrt(values))


def squared(points: Points, means: Points) -> Points:
    """Squared distances [n, k]."""
    found = np.square(points).sum(axis=1)[:, None] - 2 * points @ means.T + np.square(means).sum(axis=1)
    return np.asarray(np.maximum(found, 0))
