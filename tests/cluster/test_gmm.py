from __future__ import annotations

import numpy as np
import pytest
from groups import check_consistent
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from whorl.cluster import GMM, KMeans, gmm
from whorl.types import FloatArray, IntArray


def stripes(seed: int, extra: int = 0) -> tuple[FloatArray, IntArray]:
    """Two long parallel stripes, rotated such that no single feature separates them, and ``extra`` samples far away."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(2), 200)
    along = 1.5 * rng.normal(size=400)
    across = 2 * truth - 1 + 0.3 * rng.normal(size=400)
    points = np.stack([along - across, along + across], axis=1)
    far = 50 + rng.normal(size=(extra, 2))
    return np.concatenate([points, far]).astype(np.float32), np.concatenate([truth, np.full(extra, 2)])


def em(points: FloatArray, start: IntArray, k: int, kind: str, added: float = 1e-6) -> IntArray:
    """Expectation-maximisation from a hard partition, with the stopping rule of the clusterer's defaults."""
    rows = points.astype(np.float64)
    shares, bound, done = np.eye(k)[start], -np.inf, False
    while True:
        logs = np.empty((len(rows), k))
        for j in range(k):
            weight, mean = shares[:, j].mean(), np.average(rows, axis=0, weights=shares[:, j])
            covariance = np.cov(rows.T, aweights=shares[:, j], bias=True)
            covariance = np.diag(np.diag(covariance)) if kind == "diag" else covariance
            covariance += added * np.eye(rows.shape[1])
            logs[:, j] = np.log(weight) + multivariate_normal(mean, covariance).logpdf(rows)
        total = logsumexp(logs, axis=1, keepdims=True)
        if done:
            return np.asarray(np.argmax(logs, axis=1))
        shares, done, bound = np.exp(logs - total), abs(total.mean() - bound) < 1e-4, total.mean()


def test_full_covariance_as_in_the_library() -> None:
    points, truth = stripes(0)
    got = GMM().fit_predict(points, 2, seed=0)
    check_consistent(points, got, 2)
    reference = GaussianMixture(
        2, covariance_type="full", init_params="kmeans", reg_covar=1e-6, tol=1e-4, max_iter=300, random_state=0
    ).fit_predict(points.astype(np.float64))
    assert adjusted_rand_score(reference, got.labels) == 1.0
    assert adjusted_rand_score(truth, got.labels) > 0.95
    assert adjusted_rand_score(truth, KMeans().fit_predict(points, 2, seed=0).labels) < 0.2


@pytest.mark.parametrize(("extra", "kind", "other"), [(4, "full", "diag"), (3, "diag", "full")])
def test_diagonal_where_a_cluster_of_k_means_is_too_small(extra: int, kind: str, other: str) -> None:
    points, _ = stripes(0, extra)  # in two dimensions, four samples are enough
    start = KMeans().fit_predict(points, 3, seed=0).labels
    assert np.bincount(start).min() == extra
    got = GMM().fit_predict(points, 3, seed=0).labels
    assert np.array_equal(got, em(points, start, 3, kind))
    assert not np.array_equal(got, em(points, start, 3, other))
    # The library starts from a different k-means, so the two agree only after full convergence.
    library = GaussianMixture(3, covariance_type=kind, tol=1e-9, max_iter=5000, random_state=0)
    got = GMM(tolerance=1e-9, iterations=5000).fit_predict(points, 3, seed=0).labels
    assert adjusted_rand_score(library.fit_predict(points.astype(np.float64)), got) == 1.0


@pytest.mark.parametrize("seed", [20, 57])
def test_diagonal_where_a_component_shrinks_in_the_full_fit(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(60, 2)).astype(np.float32)
    start = KMeans().fit_predict(points, 5, seed=0).labels
    full = em(points, start, 5, "full")
    assert np.bincount(start).min() >= 4 > np.bincount(full, minlength=5).min()
    assert np.array_equal(GMM().fit_predict(points, 5, seed=0).labels, em(points, start, 5, "diag"))


def test_a_feature_that_is_constant_in_one_cluster_is_weighted_by_the_regularisation() -> None:
    """As after ReLU: if a variance is 0, the 1e-6 added to it determines the width of the component."""
    rng = np.random.default_rng(3)
    points = np.abs(rng.normal(size=(120, 3)) * [1, 1, 0.02]).astype(np.float32)
    points[:50, 2] = 0
    start = KMeans().fit_predict(points, 2, seed=0).labels
    expected = em(points, start, 2, "full")
    assert np.array_equal(GMM().fit_predict(points, 2, seed=0).labels, expected)
    assert not np.array_equal(expected, em(points, start, 2, "full", added=1e-2))


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e15])
def test_features_of_any_size_are_grouped(scale: float) -> None:
    points = (scale * stripes(0, extra=9)[0]).astype(np.float32)
    check_consistent(points, GMM().fit_predict(points, 3, seed=0), 3)


@pytest.mark.parametrize("failing", [{"full"}, {"full", "diag"}])
def test_fallbacks_if_a_fit_fails(monkeypatch: pytest.MonkeyPatch, failing: set[str]) -> None:
    class Fails(GaussianMixture):  # type: ignore[misc]
        def fit_predict(self, rows: object) -> object:
            if self.covariance_type in failing:
                raise ValueError("ill-defined empirical covariance")
            return super().fit_predict(rows)

    points, _ = stripes(0)
    start = KMeans().fit_predict(points, 2, seed=0).labels
    monkeypatch.setattr(gmm, "GaussianMixture", Fails)
    expected = start if "diag" in failing else em(points, start, 2, "diag")
    assert np.array_equal(GMM().fit_predict(points, 2, seed=0).labels, expected)


def test_singular_clusters() -> None:
    # In three dimensions, two clusters are lines and one is a single point.
    t = np.linspace(-1, 1, 50)[:, None]
    points = np.concatenate([t * [1, 2, 0], t * [0, 1, 1] + [20, 0, 0], np.full((50, 3), -30.0)]).astype(np.float32)
    got = GMM().fit_predict(points, 3, seed=0)
    assert adjusted_rand_score(np.repeat(np.arange(3), 50), got.labels) == 1.0
    check_consistent(points, got, 3)
