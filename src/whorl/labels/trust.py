"""Trust: which samples of a clustering are surest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import euclidean_distances

from whorl.cluster.base import reproducible
from whorl.types import FloatArray, IntArray

Points = npt.NDArray[np.floating[Any]]


def margins(features: Points, groups: IntArray, k: int) -> FloatArray:
    """How much nearer each sample is to the mean of its own group than to the nearest mean of another one.

    With a single group, how near it is to the mean: its distance with a minus sign.
    """
    means = np.stack([features[groups == j].mean(axis=0) for j in range(k)])
    with reproducible():
        distances = euclidean_distances(features, means)
    rows = np.arange(len(features))
    own = distances[rows, groups].copy()
    distances[rows, groups] = np.inf
    other = distances.min(axis=1) if k > 1 else np.zeros(len(features))
    return np.asarray(other - own, dtype=np.float32)


def unsure(features: Points, groups: IntArray, k: int, share: float) -> IntArray:
    """The positions of the samples that are not in the surest ``share`` of their group, in ascending order.

    Each group keeps at least one sample. Of samples with equal margins, the first ones are kept.
    """
    if share == 1:
        return np.empty(0, dtype=np.int64)
    found, left = margins(features, groups, k), np.ones(len(groups), dtype=np.bool_)
    for j in range(k):
        mine = np.flatnonzero(groups == j)
        left[mine[np.argsort(-found[mine], kind="stable")][: math.ceil(share * len(mine))]] = False
    return np.flatnonzero(left)
