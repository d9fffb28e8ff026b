"""Points to cluster, and a check of a partition of them."""

from __future__ import annotations

import numpy as np
import pytest

from whorl.cluster import Clusters
from whorl.types import FloatArray, IntArray


def blobs(seed: int, k: int = 4, each: int = 40, spread: float = 0.3) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(k), each)
    centres = 5 * rng.normal(size=(k, 8))
    return (centres[truth] + spread * rng.normal(size=(k * each, 8))).astype(np.float32), truth


def check_consistent(points: FloatArray, got: Clusters, k: int) -> None:
    assert got.labels.dtype == np.int64
    assert got.centres.dtype == np.float32
    assert set(got.labels.tolist()) == set(range(k))
    means = np.stack([points[got.labels == j].mean(axis=0) for j in range(k)])
    assert np.allclose(got.centres, means, atol=1e-4)
    assert got.inertia == pytest.approx(float(np.sum((points - means[got.labels]) ** 2)), rel=1e-3, abs=1e-6)
