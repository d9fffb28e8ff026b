from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from whorl.cluster import Agglomerative
from whorl.errors import WhorlError


@pytest.mark.parametrize("k", [1, 2, 5, 17, 200])
def test_is_ward_linkage_cut_at_k(k: int) -> None:
    points = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    reference = fcluster(linkage(points.astype(np.float64), "ward"), k, criterion="maxclust")
    assert len(np.unique(reference)) == k
    assert adjusted_rand_score(reference, Agglomerative().fit_predict(points, k, seed=0).labels) == 1.0


def test_the_seed_has_no_effect() -> None:
    points = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    one, other = (Agglomerative().fit_predict(points, 7, seed).labels for seed in (0, 2**50))
    assert np.array_equal(one, other)


def test_too_many_samples_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AgglomerativeClustering, "fit", refuse)
    with pytest.raises(
        WhorlError, match=r"of 100000 samples needs 40 GB; set another `cluster\.name`, or lower `data\.per_class`"
    ):
        Agglomerative().fit_predict(np.zeros((100_000, 1), dtype=np.float32), 2, seed=0)
