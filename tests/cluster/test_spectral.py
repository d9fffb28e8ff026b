from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from whorl.cluster import KMeans, Spectral
from whorl.cluster.spectral import neighbour_graph
from whorl.types import FloatArray, IntArray

SHAPES = {
    "moons": make_moons(400, noise=0.07, random_state=0),
    "rings": make_circles(400, noise=0.09, factor=0.4, random_state=1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_k_means_does_not_find(shape: str) -> None:
    points, truth = SHAPES[shape][0].astype(np.float32), SHAPES[shape][1]
    got = Spectral().fit_predict(points, 2, seed=0).labels
    assert adjusted_rand_score(truth, got) > 0.95
    assert adjusted_rand_score(truth, KMeans().fit_predict(points, 2, seed=0).labels) < 0.6
    reference = SpectralClustering(2, affinity="nearest_neighbors", n_neighbors=15, random_state=0).fit(points)
    assert adjusted_rand_score(reference.labels_, got) == 1.0


def test_digits_as_in_the_library() -> None:
    points = load_digits().data[:600].astype(np.float32)
    reference = SpectralClustering(10, affinity="nearest_neighbors", n_neighbors=15, random_state=0).fit(points)
    assert adjusted_rand_score(reference.labels_, Spectral().fit_predict(points, 10, seed=0).labels) > 0.99


def islands(places: list[float], each: int) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(2)
    where = np.repeat(np.arange(len(places)), each)
    points = np.stack([np.array(places)[where], np.zeros(len(where))], axis=1) + 0.1 * rng.normal(size=(len(where), 2))
    return points.astype(np.float32), where


def test_fewer_components_than_clusters() -> None:
    points, where = islands([0, 100], 50)
    got = Spectral().fit_predict(points, 5, seed=0).labels
    assert not set(got[where == 0]) & set(got[where == 1])


def test_more_components_than_clusters() -> None:
    # Six islands of 20 are six components of the graph with 15 neighbours. Pairs of them are close to each other.
    points, where = islands([0, 3, 100, 103, 200, 203], 20)
    got = Spectral().fit_predict(points, 3, seed=0).labels
    assert adjusted_rand_score(where // 2, got) == 1.0


def test_the_graph_by_hand() -> None:
    # On a line, with 4 // 2 neighbours counting itself: 0 and 1 choose each other, 3 chooses 1, 7 chooses 3.
    graph = neighbour_graph(np.array([[0.0], [1.0], [3.0], [7.0]], dtype=np.float32), 2).toarray()
    assert graph.tolist() == [[1, 1, 0, 0], [1, 1, 0.5, 0], [0, 0.5, 1, 0.5], [0, 0, 0.5, 1]]


def test_small_clusters_are_separated() -> None:
    points, where = islands([0, 10, 20, 30], 4)  # 15 neighbours would join all sixteen samples
    assert adjusted_rand_score(where, Spectral().fit_predict(points, 4, seed=0).labels) == 1.0


@pytest.mark.parametrize(("n", "k"), [(48, 18), (40, 15), (24, 9), (58, 21)])
def test_equal_bits_on_graphs_of_pairs(n: int, k: int) -> None:
    # The library's default solver restarts from unseeded random numbers on these.
    points = np.repeat(np.arange(n // 2), 2)[:, None].astype(np.float32)
    one, other = (Spectral().fit_predict(points, k, seed=0) for _ in range(2))
    assert np.array_equal(one.labels, other.labels)


def test_seeds_matter() -> None:
    points = np.random.default_rng(3).normal(size=(300, 16)).astype(np.float32)
    one, other = (Spectral(restarts=1).fit_predict(points, 10, seed).labels for seed in (5, 6))
    assert not np.array_equal(one, other)
