"""Tests that every clusterer has to pass, including the example in the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from groups import blobs, check_consistent
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from whorl.cluster import CLUSTERERS, Clusterer, Clusters, create
from whorl.errors import WhorlError
from whorl.sections import ClusterConfig


def example() -> Any:
    """The clusterer in CONTRIBUTING."""
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(page.split("# shells/minibatch.py\n")[1].split("```")[0], namespace)
    return namespace["MiniBatch"]


@pytest.fixture(params=[*CLUSTERERS, "minibatch"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "minibatch":
        monkeypatch.setitem(CLUSTERERS, "minibatch", example())
    return str(request.param)


@pytest.fixture
def clusterer(name: str) -> Clusterer:
    return create(name, restarts=2)


def check_same(a: Clusters, b: Clusters) -> None:
    assert np.array_equal(a.labels, b.labels)
    assert np.array_equal(a.centres, b.centres)
    assert a.inertia == b.inertia


def test_takes_every_option_of_the_config(name: str) -> None:
    config = ClusterConfig(name=name, restarts=3, iterations=7, tolerance=0.01, l2=True)
    made = create(**config.model_dump())
    assert {"name": name, **vars(made)} == config.model_dump()
    assert made == create(name, restarts=3, iterations=7, tolerance=0.01, l2=True)
    check_consistent(np.eye(5, dtype=np.float32), made.fit_predict(np.eye(5, dtype=np.float32), 3, seed=0), 3)


def test_finds_blobs(clusterer: Clusterer) -> None:
    points, truth = blobs(0)
    got = clusterer.fit_predict(points, 4, seed=0)
    assert adjusted_rand_score(truth, got.labels) == 1.0
    check_consistent(points, got, 4)


def test_equal_seeds_give_equal_bits_with_any_number_of_threads(clusterer: Clusterer) -> None:
    points = np.random.default_rng(3).normal(size=(1500, 16)).astype(np.float32)
    results = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads):
            results.append(clusterer.fit_predict(points, 10, seed=2**62 + 5))
    check_same(results[0], results[1])
    check_same(results[0], results[2])
    check_consistent(points, results[0], 10)


def test_does_not_change_its_input(name: str) -> None:
    points, _ = blobs(4)
    before = points.copy()
    create(name, l2=True).fit_predict(points, 4, seed=0)
    create(name).fit_predict(points, 4, seed=0)
    assert np.array_equal(points, before)


def test_l2_groups_by_direction(name: str) -> None:
    rng = np.random.default_rng(5)
    angles = np.where(np.arange(60) % 2, 0.0, np.pi / 2) + 0.05 * rng.normal(size=60)
    points = (np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.1, 50, (60, 1))).astype(np.float32)
    got = create(name, l2=True).fit_predict(points, 2, seed=0)
    assert adjusted_rand_score(np.arange(60) % 2, got.labels) == 1.0
    check_consistent(points / np.linalg.norm(points, axis=1, keepdims=True), got, 2)
    if name == "kmeans":
        assert adjusted_rand_score(np.arange(60) % 2, create(name).fit_predict(points, 2, seed=0).labels) < 0.9


@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_duplicates_leave_no_cluster_empty(clusterer: Clusterer, k: int) -> None:
    points = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)  # three distinct points, twelve samples
    got = clusterer.fit_predict(points, k, seed=0)
    check_consistent(points, got, k)
    check_same(got, clusterer.fit_predict(points, k, seed=0))
    if k == 3:
        assert adjusted_rand_score(np.repeat(np.arange(3), 4), got.labels) == 1.0


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_constant_features(clusterer: Clusterer, k: int) -> None:
    points = np.full((20, 3), 0.1, dtype=np.float32)
    got = clusterer.fit_predict(points, k, seed=0)
    check_consistent(points, got, k)
    assert got.inertia == pytest.approx(0, abs=1e-12)


def test_dead_and_repeated_features_change_nothing(clusterer: Clusterer) -> None:
    points, truth = blobs(6)
    wider = np.concatenate([points, np.zeros_like(points), points, np.full_like(points, 3.0)], axis=1)
    got = clusterer.fit_predict(wider, 4, seed=0)
    assert adjusted_rand_score(truth, got.labels) == 1.0
    check_consistent(wider, got, 4)


@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_as_many_clusters_as_samples_and_just_one(clusterer: Clusterer, n: int) -> None:
    points = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    got = clusterer.fit_predict(points, n, seed=0)
    assert sorted(got.labels.tolist()) == list(range(n))
    assert got.inertia == pytest.approx(0, abs=1e-10)
    check_consistent(points, clusterer.fit_predict(points, 1, seed=0), 1)


def test_any_small_input(clusterer: Clusterer) -> None:
    rng = np.random.default_rng(7)
    for n in (2, 3, 4, 6, 9, 17, 30):
        for points in (rng.normal(size=(n, 2)), rng.integers(0, 3, size=(n, 2)), 1e4 * rng.normal(size=(n, 5)) + 1e5):
            k = int(rng.integers(1, n + 1))
            got = clusterer.fit_predict(points.astype(np.float32), k, seed=n)
            assert np.array_equal(np.unique(got.labels), np.arange(k))
            assert np.isfinite(got.centres).all()


def test_clear_errors(clusterer: Clusterer) -> None:
    points = np.zeros((3, 2), dtype=np.float32)
    with pytest.raises(WhorlError, match="5 clusters of 3 samples"):
        clusterer.fit_predict(points, 5, seed=0)
    with pytest.raises(WhorlError, match="at least 1"):
        clusterer.fit_predict(points, 0, seed=0)
    points[1, 0] = np.nan
    points[2, 0] = np.inf
    with pytest.raises(WhorlError, match="2 of 3 samples are not finite"):
        clusterer.fit_predict(points, 2, seed=0)
    with pytest.raises(ValueError, match="dimensions"):
        clusterer.fit_predict(points[0], 1, seed=0)
