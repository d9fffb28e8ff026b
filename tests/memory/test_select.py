from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from references import herding_by_loops
from whorl.cluster import Clusterer, Clusters, KMeans
from whorl.errors import WhorlError
from whorl.memory.select import SELECTORS, Reading, Selection, Selector, get_selector, herding, random
from whorl.memory.select import exemplars as algorithm2
from whorl.types import FloatArray, IntArray, Labelling

HERD = SELECTORS["herding"]
READINGS: tuple[Reading, ...] = ("aligned", "reuse", "recluster")


def normal(seed: int, n: int = 60, d: int = 5) -> FloatArray:
    rng = np.random.default_rng(seed)
    return (rng.normal(1.0, 1.0, (n, d)) * rng.uniform(0.1, 9.0, (n, 1))).astype(np.float32)


def exemplars(
    features: FloatArray,
    groups: IntArray,
    new: int,
    quota: int,
    selector: Selector,
    clusterer: Clusterer | None,
    reading: Reading,
    seed: int,
) -> tuple[IntArray, IntArray]:
    """Algorithm 2 for a learner that knows ten classes; ids are counted from 0 here."""
    how = Selection(selector, quota, seed, reading, clusterer)
    indices, ids = algorithm2(features, Labelling.of_groups(groups, 10, new), how)
    return indices, ids - 10


class Fixed:
    """A clusterer that returns given labels and records its inputs."""

    def __init__(self, labels: IntArray) -> None:
        self.labels = labels
        self.seen: list[FloatArray] = []

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        self.seen.append(features)
        return Clusters(self.labels, np.zeros((k, features.shape[1]), dtype=np.float32), 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_herding_is_its_formula(seed: int) -> None:
    features = normal(seed)
    assert herding(features, 20).tolist() == herding_by_loops(features, 20)
    mean = np.random.default_rng(seed).normal(size=5)
    assert herding(features, 20, mean).tolist() == herding_by_loops(features, 20, mean)


def test_herding_by_hand() -> None:
    # Unit vectors at 0, 90, 45 degrees: the mean points to 45, so 2 is first; 0 and 1 then tie, and 0 is lower.
    features = np.array([[2.0, 0.0], [0.0, 7.0], [1.0, 1.0]], dtype=np.float32)
    assert herding(features, 3).tolist() == [2, 0, 1]


def test_herding_ignores_lengths_and_keeps_prefixes() -> None:
    features = normal(7)
    lengths = 2.0 ** np.random.default_rng(0).integers(-3, 4, (60, 1))  # powers of two: exact
    assert np.array_equal(herding((features * lengths).astype(np.float32), 15), herding(features, 15))
    for quota in (1, 5, 14):
        assert np.array_equal(herding(features, quota), herding(features, 15)[:quota])


def test_herding_never_takes_a_sample_twice() -> None:
    features = np.repeat(normal(1, n=3), 4, axis=0)  # duplicates
    assert sorted(herding(features, 99).tolist()) == list(range(12))
    assert herding(np.ones((5, 2), dtype=np.float32), 3).tolist() == [0, 1, 2]
    assert herding(features, 0).shape == (0,)
    assert herding(features[:0], 3).shape == (0,)


def test_herding_leaves_its_input_alone() -> None:
    features = normal(2)
    before = features.copy()
    herding(features, 10)
    assert np.array_equal(features, before)


def test_herding_approximates_the_mean_better_than_chance() -> None:
    features = normal(3, n=400)
    z = features / np.linalg.norm(features, axis=1, keepdims=True)

    def gap(chosen: IntArray) -> float:
        return float(np.linalg.norm(z[chosen].mean(axis=0) - z.mean(axis=0)))

    assert gap(herding(features, 20)) < min(gap(random(400, 20, seed)) for seed in range(50))


def test_random_is_seeded_and_without_replacement() -> None:
    assert np.array_equal(random(50, 10, 1), random(50, 10, 1))
    assert not np.array_equal(random(50, 10, 1), random(50, 10, 2))
    assert np.array_equal(random(50, 10, 1)[:4], random(50, 4, 1))
    assert sorted(random(6, 99, 0).tolist()) == list(range(6))
    # Uniform: over many seeds each of 5 positions is drawn 2 times out of 5.
    counts = np.bincount(np.concatenate([random(5, 2, seed) for seed in range(1000)]), minlength=5)
    assert np.all(np.abs(counts - 400) < 80)  # five standard deviations


def test_selectors_have_one_signature() -> None:
    features = normal(4)
    assert np.array_equal(get_selector("herding")(features, 6, 3, None), herding(features, 6))
    assert np.array_equal(get_selector("random")(features, 6, 3, features[0]), random(60, 6, 3))
    with pytest.raises(WhorlError, match="did you mean 'herding'"):
        get_selector("herdin")


def test_reuse_herds_within_each_label() -> None:
    features, labels = normal(5), np.random.default_rng(5).permutation(np.arange(60) % 3)
    indices, ids = exemplars(features, labels, 3, 4, HERD, None, "reuse", seed=0)
    expected: list[int] = []
    for j in range(3):
        members = np.flatnonzero(labels == j)
        expected += members[herding_by_loops(features[members], 4)].tolist()
    assert indices.tolist() == expected
    assert ids.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.array_equal(labels[indices], ids)


def test_recluster_stores_the_cluster_own_id() -> None:
    features = normal(6)
    groups, labels = np.arange(60) % 3, (np.arange(60) + 1) % 3
    indices, ids = exemplars(features, labels, 3, 4, HERD, Fixed(groups), "recluster", seed=0)
    same = exemplars(features, groups, 3, 4, HERD, None, "reuse", seed=0)
    assert np.array_equal(indices, same[0])
    assert np.array_equal(ids, same[1])
    assert np.array_equal(groups[indices], ids)


def test_aligned_equals_reuse_when_the_partitions_agree() -> None:
    features, labels = normal(7), np.arange(60) % 3
    clusterer = Fixed(np.array([2, 0, 1])[labels])  # the same partition under other names
    indices, ids = exemplars(features, labels, 3, 5, HERD, clusterer, "aligned", seed=0)
    same = exemplars(features, labels, 3, 5, HERD, None, "reuse", seed=0)
    assert np.array_equal(indices, same[0])
    assert np.array_equal(ids, same[1])
    assert clusterer.seen[0] is features  # raw, not normalised


@pytest.mark.parametrize("quota", [3, 12, 20])
def test_aligned_follows_the_five_steps(quota: int) -> None:
    rng = np.random.default_rng(8)
    features, labels = normal(8), np.arange(60) % 3
    groups = np.where(rng.random(60) < 0.35, rng.integers(0, 3, 60), np.array([1, 2, 0])[labels])
    indices, ids = exemplars(features, labels, 3, quota, HERD, Fixed(groups), "aligned", seed=0)
    back = {1: 0, 2: 1, 0: 2}  # step 2, as the noise is too small to change the matching
    z = features.astype(np.float64) / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    start = 0
    for j in range(3):
        group = [i for i in range(60) if back[int(groups[i])] == j]
        mu = z[group].mean(axis=0)
        both = np.array([i for i in group if labels[i] == j])
        expected = both[herding_by_loops(features[both], quota, mu)].tolist()
        others = [i for i in range(60) if labels[i] == j and i not in group]
        others.sort(key=lambda i: float(np.linalg.norm(z[i] - mu)))
        expected += others[: quota - len(expected)]
        assert indices[start : start + len(expected)].tolist() == expected
        assert set(ids[start : start + len(expected)].tolist()) == {j}
        start += len(expected)
    assert start == len(indices) == 3 * quota
    assert (len(both) < quota) == (quota == 20)  # only the largest quota needs the others


def test_aligned_gives_every_id_an_exemplar_even_without_agreement() -> None:
    # Groups never contain label 1: its matched group shares no sample with it.
    labels, groups = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 0])
    features = normal(9, n=5)
    indices, ids = exemplars(features, labels, 2, 2, HERD, Fixed(groups), "aligned", seed=0)
    assert ids.tolist() == [0, 0, 1]
    assert indices[2] == 4


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", ["herding", "random"])
@pytest.mark.parametrize("quota", [1, 7, 500])
def test_no_duplicates_and_no_empty_id(reading: Reading, name: str, quota: int) -> None:
    rng = np.random.default_rng(10)
    features, labels = normal(10, n=80), np.concatenate([np.arange(5), rng.integers(0, 5, 75)])
    clusterer = KMeans(restarts=2)
    indices, ids = exemplars(features, labels, 5, quota, SELECTORS[name], clusterer, reading, seed=1)
    assert len(set(indices.tolist())) == len(indices)
    assert np.array_equal(ids, np.sort(ids))
    groups = clusterer.fit_predict(features, 5, 1).labels if reading == "recluster" else labels
    assert np.array_equal(groups[indices], ids)
    assert np.bincount(ids, minlength=5).tolist() == [min(quota, int(c)) for c in np.bincount(groups, minlength=5)]
    again = exemplars(features, labels, 5, quota, SELECTORS[name], clusterer, reading, seed=1)
    assert np.array_equal(again[0], indices)


def test_random_choice_differs_between_ids_and_seeds() -> None:
    features, labels = normal(11), np.arange(60) // 20
    first, _ = exemplars(features, labels, 3, 5, SELECTORS["random"], None, "reuse", seed=0)
    other, _ = exemplars(features, labels, 3, 5, SELECTORS["random"], None, "reuse", seed=1)
    assert first[:5].tolist() != (first[5:10] - 20).tolist()
    assert not np.array_equal(first, other)


def test_quota_zero_keeps_nothing_and_clusters_nothing() -> None:
    clusterer = Fixed(np.arange(60) % 3)
    indices, ids = exemplars(normal(12), np.arange(60) % 3, 3, 0, HERD, clusterer, "aligned", seed=0)
    assert indices.shape == ids.shape == (0,)
    assert not clusterer.seen


def test_clear_errors() -> None:
    features, labels = normal(13), np.arange(60) % 3
    with pytest.raises(ValueError, match="needs a clusterer"):
        exemplars(features, labels, 3, 2, HERD, None, "aligned", seed=0)
    with pytest.raises(ValueError, match=r"labels must use each of 10\.\.13"):
        exemplars(features, labels, 4, 2, HERD, None, "reuse", seed=0)
    with pytest.raises(WhorlError, match="did you mean 'aligned'"):
        exemplars(features, labels, 3, 2, HERD, None, cast(Reading, "align"), seed=0)
    features[0, 0] = np.nan
    with pytest.raises(WhorlError, match="1 of 60 samples are not finite"):
        exemplars(features, labels, 3, 2, HERD, None, "reuse", seed=0)
