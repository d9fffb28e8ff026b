"""Nearest-mean-of-exemplars classification (iCaRL), also scored for every other method with exemplars."""

from __future__ import annotations

import numpy as np

from whorl.cluster.base import unit_rows
from whorl.types import FloatArray, IntArray


def class_means(features: FloatArray, labels: IntArray, classes: int) -> FloatArray:
    """The mean of each class's unit-length features, scaled to length one again.

    A class without samples has a row of NaN and is never the nearest.
    """
    unit = unit_rows(features)
    means = np.full((classes, features.shape[1]), np.nan)
    for label in np.unique(labels):
        means[label] = unit[labels == label].mean(axis=0)
    there = ~np.isnan(means[:, 0])
    means[there] = unit_rows(means[there])
    return means.astype(np.float32)


def nme_scores(features: FloatArray, means: FloatArray) -> FloatArray:
    """Negative squared distances [n, classes] between unit features and class means."""
    # |z - mu|² = 2 - 2 z·mu for unit vectors.
    scores = 2 * unit_rows(features).astype(np.float32) @ means.T - 2
    return np.where(np.isnan(scores), -np.inf, scores).astype(np.float32)
