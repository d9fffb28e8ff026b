"""The number of clusters, against scikit-learn's silhouette and made-up clusters whose number is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_score
from sklearn.neighbors import NearestCentroid

from whorl.cluster import KMeans
from whorl.cluster.base import unit_rows
from whorl.cluster.count import chosen, cut_in_two, estimate, held_out, likeness
from whorl.types import FloatArray


def blobs(k: int, count: int = 30, spread: float = 0.3) -> FloatArray:
    draws = np.random.default_rng(k)
    centres = np.eye(24)[:k] * 3
    return (centres.repeat(count, axis=0) + spread * draws.normal(size=(k * count, 24))).astype(np.float32)


@pytest.mark.parametrize("k", [2, 3, 5, 10, 16])
def test_separate_clusters_are_counted(k: int) -> None:
    found = estimate(blobs(k), seed=1)
    assert found.low == k <= found.number <= k + 1 <= found.high <= k + 2


def test_held_out_silhouettes_against_scikit_learn() -> None:
    """Each half is put to the nearest means of the clusters of the other half."""
    points = unit_rows(blobs(4, spread=1.0))
    halves, wanted = (points[::2], points[1::2]), []
    for taught, asked in (halves, halves[::-1]):
        labels = KMeans(2).fit_predict(taught.astype(np.float32), 3, 7).labels
        wanted.append(silhouette_score(asked, NearestCentroid().fit(taught, labels).predict(asked)))
    assert held_out(*halves, 3, 7) == pytest.approx(np.mean(wanted), abs=1e-6)


def test_the_best_score_is_told() -> None:
    found = estimate(blobs(4), seed=3)
    best = max(found.scores, key=lambda k: found.scores[k])
    assert best == 4
    assert f"{found.scores[best]:.3f}, with 4 clusters" in found.reasons[0]


def test_the_largest_of_the_best_numbers_and_the_range_by_hand() -> None:
    """0.1 less 10 % is 0.09, which 4, 5 and 6 reach; less 20 % it is 0.08, which 3 and 8 reach too."""
    scores = {2: 0.02, 3: 0.081, 4: 0.091, 5: 0.1, 6: 0.091, 7: 0.079, 8: 0.082, 9: 0.05}
    found = chosen(scores, two=0.9, one=0.3)
    assert (found.low, found.number, found.high) == (3, 6, 8)
    assert found.reasons == (
        "the silhouette of held-out samples is highest, 0.100, with 5 clusters",
        "from 3 to 8 it is at least 0.080",
        "6 is the largest with 0.090: clusters are easier to merge than to split",
    )


def test_shares_of_a_high_silhouette_are_taken_of_a_fifth() -> None:
    """0.8 less 10 % of 0.2 is 0.78, less 20 % of it 0.76."""
    found = chosen({2: 0.3, 4: 0.759, 5: 0.8, 6: 0.781, 7: 0.761, 8: 0.759}, two=0.0, one=0.3)
    assert (found.low, found.number, found.high) == (5, 6, 7)


def test_one_more_is_always_possible() -> None:
    found = chosen({2: 0.1, 3: 0.4, 4: 0.2}, two=0.0, one=0.3)
    assert (found.low, found.number, found.high) == (3, 3, 4)
    assert found.reasons[-1] == "one more is possible: classes that are much alike are counted as one"


@pytest.mark.parametrize(("two", "number", "low"), [(0.31, 1, 1), (0.3, 1, 1), (0.29, 3, 2)])
def test_one_cluster_if_two_are_as_much_alike_as_halves(two: float, number: int, low: int) -> None:
    found = chosen({2: 0.1, 3: 0.09, 4: 0.02}, two, one=0.3)
    assert (found.number, found.low) == (number, low)
    assert found.high == (3 if number == 1 else 4)


def test_a_gaussian_is_one_cluster_by_the_halves_of_another() -> None:
    first, second = np.random.default_rng(2).normal(size=(2, 600, 24)).astype(np.float32)
    one = 0.95 * cut_in_two(unit_rows(first), seed=0)
    assert estimate(second, seed=0, one=one).number == 1
    assert estimate(blobs(2), seed=0, one=one).number == 2


def test_no_separate_clusters() -> None:
    assert chosen({}, 0.0, 0.3).number == 1
    found = chosen({2: -0.1, 3: -0.2}, two=0.0, one=0.3)
    assert (found.number, found.low, found.high) == (1, 1, 3)


@pytest.mark.parametrize(
    ("points", "number"),
    [(np.ones((0, 3)), 0), (np.ones((1, 3)), 1), (np.ones((9, 3)), 1), (np.zeros((9, 3)), 1), (np.eye(2, 3), 2)],
)
def test_too_few_different_samples(points: FloatArray, number: int) -> None:
    found = estimate(points.astype(np.float32), seed=0)
    assert (found.number, found.low, found.high, found.scores) == (number, number, number, {})


def test_the_same_seed_gives_the_same_estimate() -> None:
    points = blobs(6, spread=0.9)
    assert estimate(points, 5) == estimate(points, 5)


def test_likeness_by_hand() -> None:
    """Clusters 0 and 1 lie on a line at 0, 1 and 3, 4: variance 2.5, of which 0.25 within. Cluster 2 is one point."""
    points = np.array([[0.0, 0], [1, 0], [3, 0], [4, 0], [50, 90]])
    pairs = {(a, b): share for a, b, share in likeness(points, np.array([0, 0, 1, 1, 2]))}
    assert pairs[0, 1] == pytest.approx(0.1)
    assert pairs[0, 2] < 0.01
    assert set(pairs) == {(0, 1), (0, 2), (1, 2)}


def test_the_halves_of_one_cluster_are_most_alike() -> None:
    draws = np.random.default_rng(0)
    points = np.concatenate([draws.normal(size=(2000, 3)), draws.normal((9, 0, 0), size=(500, 3))])
    labels = np.where(np.arange(2500) < 2000, (points[:, 1] > 0).astype(np.int64), 2)
    a, b, share = likeness(points, labels)[0]
    assert (a, b) == (0, 1)
    assert share == pytest.approx(1 - 2 / np.pi, abs=0.02)
