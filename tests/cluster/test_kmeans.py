from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from itertools import product

import numpy as np
import pytest
from groups import blobs, check_consistent
from sklearn.cluster import KMeans as Reference
from sklearn.metrics import adjusted_rand_score

from whorl import registry
from whorl.cluster import Clusters, KMeans, create
from whorl.cluster.base import filled, unit_rows
from whorl.errors import WhorlError


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


def test_seeds_matter() -> None:
    points = np.random.default_rng(3).normal(size=(300, 16)).astype(np.float32)
    one, other = (KMeans(restarts=1).fit_predict(points, 10, seed).labels for seed in (5, 6))
    assert not np.array_equal(one, other)


def test_unit_rows_by_hand() -> None:
    assert unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist() == [[0.6, 0.8], [0.0, 0.0]]


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


def test_filling_one_empty_cluster() -> None:
    points = np.array([[0.0], [1.0], [5.0], [100.0]], dtype=np.float32)
    got = filled(points, Clusters(np.array([0, 0, 0, 2]), np.zeros((3, 1), dtype=np.float32), 0.0))
    assert got.labels.tolist() == [0, 0, 1, 2]
    assert got.inertia == pytest.approx(0.5)
    assert filled(points, got) is got


def test_create_by_name() -> None:
    assert create("kmeans", restarts=3) == KMeans(restarts=3)
    with pytest.raises(WhorlError, match="unknown clusterer 'kmean'; did you mean 'kmeans'"):
        create("kmean")


def test_plugins_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = EntryPoint("mine", "whorl.cluster.kmeans:KMeans", "whorl.cluster")
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([plugin]).select(group=group))
    assert create("mine", l2=True) == KMeans(l2=True)
    with pytest.raises(WhorlError, match="did you mean 'mine'"):
        create("min")
