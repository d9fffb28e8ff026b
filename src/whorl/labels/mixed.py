"""A delivery in which each sample may belong to a known class, to a new one, or be junk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from whorl.cluster import Clusterer
from whorl.cluster.base import reproducible, unit_rows
from whorl.cluster.count import HALVES, Estimate, cut_in_two, estimate, likeness
from whorl.labels.mixture import TINY, Known, Points, left_out, projected, separated, squared
from whorl.seeds import derive
from whorl.types import FloatArray, Found, IntArray, Labelling

FENCE = 1.5
"""A sample is junk if its distance to its class is above the upper quartile by so many interquartile ranges."""
ALIKE = 0.36
"""Classes that are at least so much alike are suggested for merging: as much as one Gaussian cut in the middle."""


def split(
    exemplars: FloatArray,
    delivered: FloatArray,
    labels: IntArray,
    known: int,
    new: int | None,
    clusterer: Clusterer,
    seed: int,
) -> Labelling:
    """The labels of a mixed delivery from its features and those of the exemplars, whose classes are ``labels``.

    The new part is clustered into ``new`` classes; None estimates the number.
    """
    ids, numbers = np.unique(labels, return_inverse=True)
    with reproducible():
        fixed, points = projected(exemplars, delivered, derive(seed, "components"))
        classes = Known(fixed, numbers.astype(np.int64), len(ids))
        mixture = separated(classes, points, new, seed)
        fixed, points = unit_rows(fixed @ mixture.whiten), unit_rows(points @ mixture.whiten)
    old, fresh = mixture.posterior[:, : len(ids)], mixture.posterior[:, len(ids) :].sum(axis=1)
    is_new = fresh > 0.5
    if new is not None and is_new.sum() < new:
        is_new[np.argsort(-fresh, kind="stable")[:new]] = True
    part = points[is_new].astype(np.float32)
    number = _given(new) if new is not None else estimate(part, seed, _halves(fixed, numbers, seed))
    found = ids[old.argmax(axis=1)]
    if number.number:
        found[is_new] = known + clusterer.fit_predict(part, number.number, derive(seed, "new")).labels
    return _described(Labelling(found, known, number.number), number, points, (fixed, labels))


def _described(labelling: Labelling, number: Estimate, points: Points, exemplars: tuple[Points, IntArray]) -> Labelling:
    """The same with the samples that fit no class as unsure, and what was found."""
    every, classes = np.concatenate([points, exemplars[0]]), np.concatenate([labelling.ids, exemplars[1]])
    there, numbers = np.unique(classes, return_inverse=True)
    ones = np.eye(len(there))[numbers]
    totals = ones.sum(axis=0)
    distances = np.sqrt(squared(every, ones.T @ every / totals[:, None]) * left_out(totals, ones))
    rows = np.arange(len(every))
    own = distances[rows, numbers].copy()
    distances[rows, numbers] = np.inf
    other = distances.min(axis=1)
    junk = _outliers(own)[: len(points)]
    for label in labelling.new_ids:  # each new class keeps at least one sample
        mine = np.flatnonzero(labelling.ids == label)
        junk[mine[np.argmin(own[mine])]] = False
    kept = np.append(~junk, np.ones(len(exemplars[0]), dtype=np.bool_))
    pairs = likeness(every[kept], classes[kept])
    alike = tuple((a, b, share) for a, b, share in pairs if b >= labelling.known and share >= ALIKE)
    sure = np.where(other > own, 1 - own / np.maximum(other, TINY), 0.0)[: len(points)]
    found = Found(
        new=number.number,
        low=number.low,
        high=number.high,
        reasons=number.reasons,
        known_samples=int((~labelling.is_new & ~junk).sum()),
        new_samples=int((labelling.is_new & ~junk).sum()),
        junk=tuple(np.flatnonzero(junk).tolist()),
        confidence=tuple(np.round(sure, 6).tolist()),
        merges=alike,
    )
    return replace(labelling, unsure=np.flatnonzero(junk), found=found)


def _given(new: int) -> Estimate:
    return Estimate(new, new, new, {}, ("the number was given",))


def _halves(points: Points, labels: IntArray, seed: int) -> float:
    """The median likeness of the halves of the known classes."""
    classes = [points[labels == j] for j in np.unique(labels)]
    found = [cut_in_two(mine, derive(seed, "two")) for mine in classes if len(np.unique(mine, axis=0)) > 2]
    return float(np.median(found)) if found else HALVES


def _outliers(distances: Points) -> npt.NDArray[np.bool_]:
    """Which distances are above the upper quartile by more than ``FENCE`` times the interquartile range (Tukey)."""
    low, high = np.quantile(distances, [0.25, 0.75])
    return np.asarray(distances > high + FENCE * (high - low) + TINY)
