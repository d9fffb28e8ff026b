"""Mixed deliveries: made-up vectors whose classes are known, and the parts against formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from whorl import Whorl, WhorlError
from whorl.cluster import KMeans
from whorl.labels.mixed import split
from whorl.labels.mixture import Known, attraction, fitted, nearness, projected
from whorl.types import FloatArray, IntArray

DRAWS = np.random.default_rng(0)
CENTRES = DRAWS.normal(size=(9, 32))


def drawn(classes: list[int], count: int, seed: int = 0, spread: float = 0.4) -> tuple[FloatArray, IntArray]:
    labels = np.repeat(classes, count).astype(np.int64)
    draws = np.random.default_rng((seed, *classes, count))
    points = CENTRES[labels] + spread * draws.normal(size=(len(labels), 32))
    return points.astype(np.float32), labels


def taught(**options: object) -> Whorl:
    return Whorl("icarl", verbose=0, options=options).learn(*drawn([0, 1, 2, 3], 30))


def test_a_step_of_the_mixture_against_scipy() -> None:
    """Probabilities with given means and covariance are those of scipy's density; here after the fit has settled."""
    points, labels = drawn([0, 1, 2], 60, spread=0.7)
    found = points[:, :3].astype(np.float64)
    known = Known(found[labels < 2], labels[labels < 2], 2)
    mixture = fitted(known, found, found[labels == 2].mean(axis=0, keepdims=True))
    inverse = np.linalg.inv(mixture.whiten @ mixture.whiten.T)
    densities = np.stack([multivariate_normal(mean, inverse).pdf(found) for mean in mixture.means], axis=1)
    weighted = densities * (mixture.posterior.sum(axis=0) + 1)
    np.testing.assert_allclose(mixture.posterior, weighted / weighted.sum(axis=1, keepdims=True), atol=0.02)
    weights = np.concatenate([np.eye(3)[known.labels], mixture.posterior])
    means = np.average(np.concatenate([known.points, found]), axis=0, weights=weights[:, 2])
    np.testing.assert_allclose(mixture.means[2], means, atol=0.02)


def test_groups_inside_known_classes_attract_their_exemplars_and_are_near() -> None:
    exemplars, ids = drawn([0, 1], 40, seed=1)
    delivered, truth = drawn([0, 1, 2], 40, seed=2)
    points = (exemplars[:, :4].astype(np.float64), delivered[:, :4].astype(np.float64))
    known = Known(points[0], ids, 2)
    centres = np.stack([points[1][truth == 0][:15].mean(axis=0), points[1][truth == 2].mean(axis=0)])
    mixture = fitted(known, points[1], centres)
    inside, new = attraction(known, mixture)
    assert inside > 0.2 > new == 0
    assert nearness(known, mixture).tolist() == [True, False]


def test_projected_points_are_principal_components_of_roots() -> None:
    exemplars, delivered = drawn([0, 1, 2], 20)[0], drawn([3, 4, 5], 20)[0]
    a, b = projected(exemplars, delivered, seed=0)
    rows = np.concatenate([exemplars, delivered]).astype(np.float64)
    roots = np.sign(rows) * np.abs(rows) ** 0.5
    roots /= np.linalg.norm(roots, axis=1, keepdims=True)
    roots -= roots.mean(axis=0)
    values = np.linalg.svd(roots, compute_uv=False)[: 120 // 8]
    np.testing.assert_allclose(np.square(np.concatenate([a, b])).sum(axis=0), values**2, rtol=1e-3)


def test_known_new_and_junk() -> None:
    model = taught()
    x, truth = drawn([0, 1, 2, 3, 4, 5, 6], 20, seed=3)
    junk = 20 * np.random.default_rng(4).normal(size=(3, 32)).astype(np.float32)
    model.learn(np.concatenate([x, junk]))
    found = model.found_
    assert found is not None
    assert (model.labels_[:80] == truth[:80]).mean() > 0.95
    for label in (4, 5, 6):
        mine = model.labels_[:140][truth == label]
        values, counts = np.unique(mine, return_counts=True)
        assert counts.max() >= 19
        assert values[counts.argmax()] >= 4
    assert found.low <= 3 <= found.high
    assert found.new == len(model.classes_) - 4 == 3
    assert found.reasons[0].startswith("the silhouette of held-out samples is highest")
    assert len(set(found.junk) & {140, 141, 142}) >= 2
    assert model.junk_.tolist() == list(found.junk)
    assert found.known_samples + found.new_samples + len(found.junk) == 143
    assert 0 <= min(found.confidence) <= max(found.confidence) <= 1
    assert model.deliveries_[-1].classes == tuple(model.classes_[4:])


def test_known_classes_get_new_exemplars_and_junk_is_not_stored() -> None:
    model = taught(**{"memory.quota": 5})
    x, _ = drawn([0, 1, 4], 20, seed=5)
    model.learn(x, new=1, mixed=True)
    memory = model._learner.memory
    assert np.bincount(memory.labels).tolist() == [5] * 5
    assert set(memory.tasks[memory.labels < 2]) == {1, 2}
    stored = {row.numpy().tobytes() for row in memory.images}
    assert not stored & {x[i].tobytes() for i in model.junk_}


def test_known_classes_alone() -> None:
    model = taught()
    before = model.classes_.tolist()
    x, truth = drawn([0, 1, 2, 3], 20, seed=6)
    for new in (None, 0):
        model.learn(x, new=new, mixed=True)
        assert model.found_ is not None
        assert model.found_.new == 0
        assert model.classes_.tolist() == before
        np.testing.assert_array_equal(model.labels_, truth)
    assert model.deliveries_[-1].classes == ()


@pytest.mark.parametrize("new", [1, 2, 3])
def test_the_number_may_be_given(new: int) -> None:
    model = taught()
    x, truth = drawn([0, 2, *range(4, 4 + new)], 20, seed=7)
    model.learn(x, new=new, mixed=True)
    assert model.found_ is not None
    assert (model.found_.new, model.found_.low, model.found_.high) == (new, new, new)
    assert model.found_.reasons == ("the number was given",)
    for label in range(4, 4 + new):
        assert len(set(model.labels_[truth == label])) == 1
    np.testing.assert_array_equal(model.labels_[truth < 4], truth[truth < 4])


@pytest.mark.parametrize(
    ("x", "new"),
    [
        (drawn([5], 1)[0], None),
        (drawn([5], 2)[0], None),
        (drawn([5], 3)[0], 3),
        (np.ones((10, 32), np.float32), None),
        (np.ones((10, 32), np.float32), 2),
        (np.zeros((10, 32), np.float32), None),
    ],
)
def test_few_and_equal_samples(x: FloatArray, new: int | None) -> None:
    model = taught().learn(x, new=new, mixed=True)
    assert model.found_ is not None
    assert len(model.classes_) == 4 + model.found_.new
    assert new is None or model.found_.new == new
    assert len(model.labels_) == len(x)


def test_a_single_known_class() -> None:
    model = Whorl("icarl", verbose=0).learn(*drawn([0], 30))
    x, truth = drawn([0, 1], 20, seed=8)
    model.learn(x, new=1, mixed=True)
    np.testing.assert_array_equal(model.labels_, truth)


def test_saved_and_loaded_in_between_gives_the_same_bits(tmp_path: Path) -> None:
    model = taught()
    model.save(tmp_path)
    loaded = Whorl.load(tmp_path, verbose=0)
    x, _ = drawn([0, 1, 4, 5], 20, seed=9)
    for each in (model, loaded):
        each.learn(x)
    assert model.found_ == loaded.found_
    np.testing.assert_array_equal(model.predict_proba(x), loaded.predict_proba(x))
    model.save(tmp_path)
    again = Whorl.load(tmp_path, verbose=0)
    assert again.found_ == model.found_
    for each in (model, again):
        each.learn(drawn([0, 6], 20)[0])
    np.testing.assert_array_equal(model.predict_proba(x), again.predict_proba(x))


def test_all_new_is_as_before() -> None:
    """With a number and without ``mixed``, every cluster is a new class, as the paper assumes."""
    x = drawn([0, 1, 4], 20, seed=1)[0]
    model = taught().learn(x, new=3)
    assert model.found_ is None
    assert model.junk_.tolist() == []
    assert sorted(set(model.labels_.tolist())) == [4, 5, 6]


def test_every_sample_is_learned_again_by_joint_but_junk(tmp_path: Path) -> None:
    model = Whorl("joint", verbose=0).learn(*drawn([0, 1, 2, 3], 30))
    x = drawn([0, 1, 4], 20, seed=1)[0]
    x[7] = 20 * np.random.default_rng(1).normal(size=32)
    model.learn(x, new=1, mixed=True)
    assert len(model._learner.past[1]) == 60 - len(model.junk_)
    model.save(tmp_path)
    assert torch.equal(
        Whorl.load(tmp_path, verbose=0)._learner.past[1].images.read(np.arange(5)),
        model._learner.past[1].images.read(np.arange(5)),
    )


def test_mistakes_are_one_line() -> None:
    x = drawn([0, 4], 5)[0]
    model = Whorl("finetune", verbose=0, options={"memory.quota": 0}).learn(*drawn([0, 1], 9))
    with pytest.raises(WhorlError, match=r"set `memory.quota` to 1 or more, or state that all samples are of new"):
        model.learn(x)
    with pytest.raises(WhorlError, match=r"set `pseudo.refresh=0`, or `mixed=False`"):
        Whorl("ours", verbose=0, options={"pseudo.refresh": 1}).learn(*drawn([0, 1], 9)).learn(x)
    with pytest.raises(WhorlError, match="`new` must be 0 to 10"):
        taught().learn(x, new=-1, mixed=True)


def test_pieces_agree_with_the_split_on_plain_features() -> None:
    exemplars, ids = drawn([0, 1, 2], 20, seed=1)
    x, truth = drawn([0, 2, 3, 4], 15, seed=2)
    found = split(exemplars, x, 2 * ids, 7, 2, KMeans(), seed=0)  # exemplars of some classes only
    np.testing.assert_array_equal(found.ids[:30], 2 * truth[:30])
    assert sorted({*found.ids[30:45].tolist()}) != sorted({*found.ids[45:].tolist()})
    assert set(found.ids[30:].tolist()) == {7, 8}
    assert (found.known, found.new) == (7, 2)
