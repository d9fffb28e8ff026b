from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from groups import blobs, check_consistent
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from whorl.cluster import KMeans, Sinkhorn
from whorl.cluster.balance import balanced
from whorl.cluster.sinkhorn import transport
from whorl.types import FloatArray, IntArray

Array = npt.NDArray[np.float64]


def even(labels: IntArray, k: int) -> bool:
    return bool(np.ptp(np.bincount(labels, minlength=k)) <= 1)


def every_even_partition(n: int, k: int) -> list[IntArray]:
    return [labels for labels in map(np.array, product(range(k), repeat=n)) if even(labels, k)]


def total(cost: Array, labels: IntArray) -> float:
    return float(cost[np.arange(len(cost)), labels].sum())


def distances(points: FloatArray, centres: FloatArray) -> Array:
    return np.asarray(np.square(points[:, None].astype(np.float64) - centres[None]).sum(axis=2))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 1), (5, 2), (4, 4), (6, 3), (7, 3), (8, 3), (6, 4), (7, 4)])
def test_rounding_is_the_best_of_all(n: int, k: int) -> None:
    rng = np.random.default_rng(10 * n + k)
    every = every_even_partition(n, k)
    kinds = [
        *[rng.normal(size=(n, k)) for _ in range(10)],
        *[rng.integers(0, 3, size=(n, k)).astype(np.float64) for _ in range(10)],  # many ties
        np.zeros((n, k)),
        np.repeat(rng.normal(size=(1, k)), n, axis=0),
    ]
    for cost in kinds:
        best = min(total(cost, labels) for labels in every)
        for prices in (np.zeros(k), rng.normal(size=k)):
            got = balanced(cost, prices)
            assert even(got, k)
            assert total(cost, got) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("n", "k"), [(120, 6), (300, 4)])
def test_rounding_agrees_with_the_assignment_problem(n: int, k: int) -> None:
    cost = np.random.default_rng(n).gamma(0.5, size=(n, k)) * np.arange(1, k + 1)
    rows, slots = linear_sum_assignment(np.repeat(cost, n // k, axis=1))
    got = balanced(cost, np.zeros(k))
    assert even(got, k)
    assert total(cost, got) == pytest.approx(float(np.repeat(cost, n // k, axis=1)[rows, slots].sum()), rel=1e-9)


def test_rounding_moves_duplicates_together() -> None:
    cost = np.repeat([[0.0, 1.0, 3.0], [0.0, 2.0, 2.5]], 30_000, axis=0)  # moving them one at a time would take hours
    got = balanced(cost, np.zeros(3))
    assert even(got, 3)
    # 20,000 each: the second kind, which loses least there, goes to cluster 2 and the first to cluster 1.
    assert total(cost, got) == pytest.approx(20_000 * 1.0 + 20_000 * 2.5)


def test_transport_is_sinkhorn_knopp() -> None:
    cost = np.random.default_rng(1).random((12, 3))
    kernel, u, v = np.exp(-cost / 0.2), np.ones(12), np.ones(3)
    for _ in range(1000):  # scale rows to 1 and columns to 12 / 3, in turn
        v = 4 / (kernel.T @ u)
        u = 1 / (kernel @ v)
    prices = np.zeros(3)
    for _ in range(200):
        plan, prices = transport(cost, prices, 0.2)
    assert np.allclose(plan, u[:, None] * kernel * v, atol=1e-9)


def test_transport_does_not_overflow() -> None:
    cost = np.random.default_rng(2).random((50, 4))
    cost[:, 3] += 10.0
    plan, prices = transport(cost, np.zeros(4), 1e-4)  # exp(-100,000) is 0 in any float
    assert np.isfinite(prices).all()
    assert np.allclose(plan.sum(axis=1), 1)
    assert prices[3] > 9


def test_sizes_differ_by_at_most_one() -> None:
    rng = np.random.default_rng(3)
    # Most samples are close together.
    points = np.concatenate([rng.normal(size=(400, 5)), 20 + rng.normal(size=(20, 5)), -20 + rng.normal(size=(10, 5))])
    points = points.astype(np.float32)
    for k in (2, 3, 7, 31):
        got = Sinkhorn().fit_predict(points, k, seed=0)
        assert even(got.labels, k)
        check_consistent(points, got, k)
    assert not even(KMeans().fit_predict(points, 3, seed=0).labels, 3)


@pytest.mark.parametrize(("n", "k"), [(8, 2), (7, 3), (8, 3), (7, 4)])
def test_no_even_assignment_to_its_centres_costs_less(n: int, k: int) -> None:
    for seed in range(5):
        points = np.random.default_rng(seed).normal(size=(n, 2)).astype(np.float32)
        got = Sinkhorn(tolerance=0).fit_predict(points, k, seed)
        cost = distances(points, got.centres)
        best = min(total(cost, labels) for labels in every_even_partition(n, k))
        assert total(cost, got.labels) == pytest.approx(best, rel=1e-5)
        loose = Sinkhorn(tolerance=0.1).fit_predict(points, k, seed)
        cost = distances(points, loose.centres)
        best = min(total(cost, labels) for labels in every_even_partition(n, k))
        assert total(cost, loose.labels) * 0.9 <= best * 1.00001


def test_reaches_the_best_of_all_even_partitions() -> None:
    points = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    every = every_even_partition(9, 3)
    best = min(sum(float(9 / 3 * points[labels == j].var(axis=0).sum()) for j in range(3)) for labels in every)
    assert Sinkhorn().fit_predict(points, 3, seed=0).inertia == pytest.approx(best, rel=1e-5)


def test_blobs_of_equal_size_as_in_k_means() -> None:
    points, _ = blobs(4)
    got, reference = Sinkhorn().fit_predict(points, 4, seed=0), KMeans().fit_predict(points, 4, seed=0)
    assert adjusted_rand_score(got.labels, reference.labels) == 1
    assert got.inertia == pytest.approx(reference.inertia, rel=1e-5)


def test_the_best_of_several_restarts_is_kept() -> None:
    """Points without groups have many local optima. The restarts of a short call are the first ones of a longer one."""
    points = np.random.default_rng(0).uniform(size=(200, 2)).astype(np.float32)
    costs = [Sinkhorn(restarts=n).fit_predict(points, 11, seed=3).inertia for n in range(1, 9)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]
