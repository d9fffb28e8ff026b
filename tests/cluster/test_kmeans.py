from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans as Reference
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from whorl import registry
from whorl.cluster import Clusters, KMeans, create
from whorl.cluster.base import filled, unit_rows
from whorl.errors import WhorlError
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


def test_finds_blobs() -> None:
    points, truth = blobs(0)
    got = KMeans().fit_predict(points, 4, seed=0)
    assert adjusted_rand_score(truth, got.labels) == 1.0
    check_consistent(points, got, 4)


def test_reaches_the_best_of_all_partitions() -> None:
    points = np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32)
    best = np.inf
    for labels in map(np.array, product(range(2), repeat=8)):
        if 0 < labels.sum() < 8:
            best = min(
                best, sum(float(np.sum((p - p.mean(axis=0)) ** 2)) for p in (points[labels == 0], points[labels == 1]))
            )
    assert KMeans().fit_predict(points, 2, seed=0).inertia == pytest.approx(best, rel=1e-5)


def test_is_no_worse_than_the_library_with_the_same_settings() -> None:
    points = np.random.default_rng(2).normal(size=(300, 8)).astype(np.float32)
    reference = Reference(6, n_init=10, random_state=0).fit(points).inertia_
    assert KMeans().fit_predict(points, 6, seed=0).inertia == pytest.approx(reference, rel=0.02)


def test_equal_seeds_give_equal_bits_whatever_the_threads() -> None:
    points = np.random.default_rng(3).normal(size=(3000, 16)).astype(np.float32)
    results = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads):
            results.append(KMeans(restarts=2).fit_predict(points, 10, seed=2**40 + 5))
    for other in results[1:]:
        assert np.array_equal(other.labels, results[0].labels)
        assert np.array_equal(other.centres, results[0].centres)
        assert other.inertia == results[0].inertia
    assert not np.array_equal(KMeans(restarts=2).fit_predict(points, 10, seed=6).labels, results[0].labels)


def test_leaves_its_input_alone() -> None:
    points, _ = blobs(4)
    before = points.copy()
    KMeans(l2=True).fit_predict(points, 4, seed=0)
    KMeans().fit_predict(points, 4, seed=0)
    assert np.array_equal(points, before)


def test_l2_groups_by_direction() -> None:
    rng = np.random.default_rng(5)
    angles = np.where(np.arange(60) % 2, 0.0, np.pi / 2) + 0.05 * rng.normal(size=60)
    points = (np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.1, 50, (60, 1))).astype(np.float32)
    got = KMeans(l2=True).fit_predict(points, 2, seed=0)
    assert adjusted_rand_score(np.arange(60) % 2, got.labels) == 1.0
    check_consistent((points / np.linalg.norm(points, axis=1, keepdims=True)), got, 2)
    assert adjusted_rand_score(np.arange(60) % 2, KMeans().fit_predict(points, 2, seed=0).labels) < 0.9


def test_unit_rows_by_hand() -> None:
    assert unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist() == [[0.6, 0.8], [0.0, 0.0]]


@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_duplicates_leave_no_cluster_empty(k: int) -> None:
    points = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)  # three distinct points, twelve samples
    got = KMeans().fit_predict(points, k, seed=0)
    check_consistent(points, got, k)
    again = KMeans().fit_predict(points, k, seed=0)
    assert np.array_equal(got.labels, again.labels)


def test_filling_by_hand() -> None:
    # On a line: cluster 0 holds 0, 1, 5 (centre 2), cluster 2 holds 100 alone, clusters 1 and 3 are empty.
    points = np.array([[0.0], [1.0], [5.0], [100.0]], dtype=np.float32)
    start = Clusters(np.array([0, 0, 0, 2]), np.zeros((4, 1), dtype=np.float32), 0.0)
    got = filled(points, start)
    # 5 is farthest and goes to 1. Then 0 and 1 are both 0.5 away: the lower index goes to 3.
    assert got.labels.tolist() == [3, 0, 1, 2]
    assert got.centres.ravel().tolist() == [1.0, 5.0, 100.0, 0.0]
    assert got.inertia == 0.0
    assert start.labels.tolist() == [0, 0, 0, 2]


def test_filling_counts_what_remains() -> None:
    points = np.array([[0.0], [1.0], [5.0], [100.0]], dtype=np.float32)
    got = filled(points, Clusters(np.array([0, 0, 0, 2]), np.zeros((3, 1), dtype=np.float32), 0.0))
    assert got.labels.tolist() == [0, 0, 1, 2]
    assert got.inertia == pytest.approx(0.5)
    assert filled(points, got) is got


def test_clear_errors() -> None:
    points = np.zeros((3, 2), dtype=np.float32)
    with pytest.raises(WhorlError, match="5 clusters of 3 samples"):
        KMeans().fit_predict(points, 5, seed=0)
    with pytest.raises(WhorlError, match="at least 1"):
        KMeans().fit_predict(points, 0, seed=0)
    points[1, 0] = np.nan
    points[2, 0] = np.inf
    with pytest.raises(WhorlError, match="2 of 3 samples are not finite"):
        KMeans().fit_predict(points, 2, seed=0)
    with pytest.raises(ValueError, match="dimensions"):
        KMeans().fit_predict(points[0], 1, seed=0)


def test_create_by_name() -> None:
    assert create("kmeans", restarts=3) == KMeans(restarts=3)
    with pytest.raises(WhorlError, match="unknown clusterer 'kmean'; did you mean 'kmeans'"):
        create("kmean")


def test_plugins_join_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = EntryPoint("mine", "whorl.cluster.kmeans:KMeans", "whorl.cluster")
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([plugin]).select(group=group))
    assert create("mine", l2=True) == KMeans(l2=True)
    with pytest.raises(WhorlError, match="did you mean 'mine'"):
        create("min")
