"""Lines 6 to 8 of Algorithm 1: features of the last model, clusters, offset by the classes known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whorl.cluster import Clusterer
from whorl.types import HIDDEN, FloatArray, IntArray, Labels, granted


def labels_for(
    labels: Labels, features: Callable[[], FloatArray], clusterer: Clusterer, known: int, new: int, seed: int
) -> IntArray:
    """The labels a step learns with: the task's own where they are granted, else pseudo labels from ``features``."""
    if labels is not HIDDEN:
        return granted(labels)
    return np.asarray(clusterer.fit_predict(features(), new, seed).labels + known, dtype=np.int64)
