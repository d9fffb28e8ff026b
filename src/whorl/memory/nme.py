"""Nearest mean of exemplars: iCaRL's rule, and the second opinion of every method that keeps exemplars."""

from __future__ import annotations

import numpy as np

from whorl.cluster.base import unit_rows
from whorl.types import FloatArray, IntArray


def class_means(features: FloatArray, labels: IntArray, classes: int) -> FloatArray:
    """For each class the mean of its exemplars' unit features, scaled back to length one.

    A class without exemplars gets a row of NaN and is never the nearest.
    """
    unit = unit_rows(features)
    means = np.full((classes, features.shape[1]), np.nan)
    for label in np.unique(labels):
        means[label] = unit[labels == label].mean(axis=0)
    there = ~np.isnan(means[:, 0])
    means[there] = unit_rows(means[there])
    return means.astype(np.float32)


def nme_scores(features: FloatArray, means: FloatArray) -> FloatArray:
    """Negative squared distances [n, classes] between unit features and the class means; higher is nearer."""
    # |z - mu|² = 2 - 2 z·mu for unit vectors.
    scores = 2 * unit_rows(features).astype(np.float32) @ means.T - 2
    return np.where(np.isnan(scores), -np.inf, scores).astype(np.float32)
