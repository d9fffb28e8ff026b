"""The number of clusters, against scikit-learn's silhouette and made-up clusters whose number is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from whorl.cluster import KMeans
from whorl.cluster.base import unit_rows
from whorl.cluster.count import chosen, estimate, likeness
from whorl.seeds import derive
from whorl.types import FloatArray


def blobs(k: int, count: int = 30, spread: float = 0.3) -> FloatArray:
    draws = np.random.default_rng(k)
    centres = np.eye(24)[:k] * 3
    return (centres.repeat(count, axis=0) + spread * draws.normal(size=(k * count, 24))).astype(np.float32)


@pytest.mark.parametrize("k", [2, 3, 5, 10, 16])
def test_separate_clusters_are_counted(k: int) -> None:
    found = estimate(blobs(k), seed=1)
    assert (found.number, found.low, found.high) == (k, k, k)


def test_scores_are_silhouettes_by_direction() -> None:
    points = blobs(4)
    found = estimate(points, seed=3)
    unit = unit_rows(points).astype(np.float32)
    for k, score in found.scores.items():
        labels = KMeans(3).fit_predict(unit, k, derive(3, "number", k)).labels
        assert score == pytest.approx(silhouette_score(unit, labels), abs=1e-5)
    best = max(found.scores, key=lambda k: found.scores[k])
    assert f"{found.scores[best]:.3f}, with {best} clusters" in found.reasons[0]


def test_the_range_holds_the_best_number_and_the_largest_is_chosen() -> None:
    scores = {2: 0.1, 3: 0.29, 4: 0.25, 5: 0.3, 6: 0.295, 7: 0.28}
    found = chosen(scores, dict.fromkeys(scores, 0.012), one=0.1)
    assert (found.low, found.number, found.high) == (3, 6, 6)
    assert found.reasons[:2] == (
        "the silhouette is highest, 0.300, with 5 clusters",
        "from 3 to 6 it is within a standard error of that, 0.012",
    )


def test_one_cluster_is_told_by_what_a_single_class_cut_in_two_has() -> None:
    points = np.random.default_rng(0).normal(size=(80, 24)).astype(np.float32)
    one = max(estimate(points, seed=0).scores.values())
    assert estimate(points, seed=0, one=one).number == 1
    assert estimate(blobs(3), seed=0, one=one).number == 3


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
