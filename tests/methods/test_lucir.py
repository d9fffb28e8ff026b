"""LUCIR: imprinted rows, frozen old rows, the three parts of its loss, and its network."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import checks
from references import Array, eq2, forgetting, ranking, unit, wide
from scenes import Scene, features_of, followed, gradient, grown, read_all, scene, seen_by, watch
from whorl.data.source import Dataset
from whorl.methods.base import Samples
from whorl.nets.heads import CosineHead


def head_of(at: Scene) -> CosineHead:
    head = at.model.head
    assert isinstance(head, CosineHead)
    return head


def set_eta(head: CosineHead, value: float) -> None:
    with torch.no_grad():
        head.eta.fill_(value)


@pytest.mark.parametrize("sizes", [(20, 20), (37, 3), (1, 39)])
def test_imprinting(sizes: tuple[int, int], small_data: Dataset) -> None:
    """The mean unit feature of a class or cluster, scaled to the mean norm of the old rows."""
    at = scene(small_data, 2, method__name="lucir", stream__first=4)
    labels = np.random.default_rng(0).permutation(np.repeat([4, 5], sizes))
    step = replace(at.step, new=Samples(at.step.new.images, labels))
    before = wide(at.old.head.weight)
    at.learner.method.prepare(step)
    after = wide(head_of(at).weight)
    assert after.shape == (6, 32)
    assert np.array_equal(after[:4], before)
    z = unit(features_of(at.old, read_all(step.new.images), at.learner.inputs))
    length = np.mean([np.linalg.norm(row) for row in before])
    for label in (4, 5):
        mean = z[labels == label].mean(axis=0)
        np.testing.assert_allclose(after[label], mean / np.linalg.norm(mean) * length, atol=1e-5)
        assert np.linalg.norm(after[label]) == pytest.approx(length, rel=1e-5)


def test_imprinting_can_be_switched_off(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="lucir", method__imprint=False)
    assert torch.equal(head_of(at).weight, grown(at.old, 2).head.weight)
    imprinted = scene(small_data, 2, method__name="lucir")
    assert not torch.equal(head_of(imprinted).weight[2:], grown(imprinted.old, 2).head.weight[2:])


@pytest.mark.parametrize("known", [2, 4])
def test_old_rows_are_frozen(known: int, small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep their bits after every update, with momentum and strong weight decay; everything else changes."""
    config = checks.small_config(method__name="lucir", labels="given", optim__weight_decay=0.1)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[: known // 2])
    rows = learner.model.head.weight.detach().clone()
    assert rows.shape == (known, 32)
    kept: list[bool] = []
    ran = watch(
        monkeypatch,
        lambda phase, model: followed(phase, lambda _: kept.append(torch.equal(model.head.weight[:known], rows))),
    )
    checks.learn(learner, stream[known // 2 : known // 2 + 1])
    assert kept == [True] * (2 * math.ceil((40 + 4 * known) / 16))
    before, after = ran[0].before, ran[0].after
    lengths = before["head.weight"].norm(dim=1)
    torch.testing.assert_close(lengths[known:], lengths[:known].mean().expand(2))  # imprinted before the first update
    assert torch.equal(after["head.weight"][:known], rows)
    assert (after["head.weight"][known:] != before["head.weight"][known:]).any(dim=1).all()
    for name in ("head.eta", "backbone.stem.0.conv.weight"):
        assert not torch.equal(after[name], before[name])


def cosines_by_hand(features: Array, weight: Array) -> Array:
    return np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in weight] for a in features])


@pytest.mark.parametrize(("task", "first", "old"), [(2, 4, 4), (2, 2, 2), (3, 2, 4)])
def test_loss(task: int, first: int, old: int, small_data: Dataset) -> None:
    """Cross-entropy on scaled cosines, 5·sqrt(m/n) times less-forget, and the ranking of plain cosines."""
    at = scene(small_data, task, method__name="lucir", stream__first=first)
    phase, head = at.phase(), head_of(at)
    set_eta(head, 3.0)
    batch = seen_by(at.model, at.batch())
    labels, features = batch.labels.numpy(), wide(batch.features)
    cosines = cosines_by_hand(features, wide(head.weight))
    np.testing.assert_allclose(wide(batch.logits), 3 * cosines, atol=1e-4)
    with torch.no_grad():
        taught = wide(at.old(batch.images).features)
    parts = (
        eq2(3 * cosines, labels),
        5 * math.sqrt(old / 2) * forgetting(features, taught),
        ranking(cosines, labels, old, 2, 0.5),
    )
    assert min(parts) > 0.01
    assert phase.loss(batch).item() == pytest.approx(sum(parts), rel=1e-3)


def test_loss_of_task_one(small_data: Dataset) -> None:
    """Cross-entropy alone, on a plain cosine head."""
    at = scene(small_data, 1, method__name="lucir")
    batch = at.batch()
    phase = at.phase()
    assert phase.loss(batch).item() == pytest.approx(eq2(wide(batch.logits), batch.labels.numpy()), rel=1e-5)
    assert phase.after is None


def test_options_reach_the_loss(small_data: Dataset) -> None:
    own = {"less_forget": 2.0, "margin": 1.5, "negatives": 1, "ranking": 3.0}
    at = scene(small_data, 2, method__name="lucir", **{f"method__{name}": value for name, value in own.items()})
    phase, batch = at.phase(), seen_by(at.model, at.batch())
    labels, features = batch.labels.numpy(), wide(batch.features)
    cosines = cosines_by_hand(features, wide(head_of(at).weight))
    with torch.no_grad():
        taught = wide(at.old(batch.images).features)
    expected = eq2(wide(batch.logits), labels) + 2 * forgetting(features, taught)
    expected += 3 * ranking(cosines, labels, 2, 1, 1.5)
    assert phase.loss(batch).item() == pytest.approx(expected, rel=1e-3)


def test_ranking_uses_plain_cosines(small_data: Dataset) -> None:
    """For the same logits, the loss does not depend on eta."""
    at = scene(small_data, 2, method__name="lucir")
    phase, head = at.phase(), head_of(at)
    batch = at.batch()
    losses = []
    for eta in (1.0, 7.0):
        set_eta(head, eta)
        losses.append(phase.loss(batch).item())
    assert losses[0] == losses[1]
    alone = ranking(cosines_by_hand(wide(batch.features), wide(head.weight)), batch.labels.numpy(), 2, 2, 0.5)
    assert alone > 0


def test_less_forget_reaches_the_backbone(small_data: Dataset) -> None:
    """With it, the gradient of the bottom layer changes by exactly the gradient of less-forget."""
    slopes = []
    for weight in (5.0, 0.0):
        at = scene(small_data, 2, method__name="lucir", method__less_forget=weight)
        phase, model = at.phase(), at.model
        batch = seen_by(model, at.batch())
        slopes.append(gradient(phase.loss(batch), next(model.backbone.parameters())))
    taught = at.step.teacher(batch.images).features
    assert not taught.requires_grad
    lengths = batch.features.norm(dim=1) * taught.norm(dim=1)
    own = (1 - (batch.features * taught).sum(dim=1) / lengths).mean()
    expected = 5 * gradient(own, next(model.backbone.parameters()))
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(slopes[0] - slopes[1], expected, atol=1e-4 * np.abs(expected).max() + 1e-6)


def test_features_may_be_negative(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="lucir")
    assert not at.learner.config.net.final_relu
    assert at.learner.classifier.features(small_data.test).min() < 0


def test_eta_is_kept_and_trained(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="lucir")
    old = at.old.head
    assert isinstance(old, CosineHead)
    assert old.eta.item() != 1
    assert head_of(at).eta.item() == old.eta.item()
    assert head_of(at).eta.requires_grad


def test_a_delivery_with_fewer_new_classes_than_negatives(small_data: Dataset) -> None:
    """K is then the number of new classes: the weights are those of a learner with that K."""
    weights = []
    for negatives in (1, 2):
        config = checks.small_config(method__name="lucir", labels="given", stream__step=1, method__negatives=negatives)
        learner = checks.make_learner(config, small_data)
        checks.learn(learner, checks.streams(config, small_data)[:3])
        weights.append(learner.state().model)
    assert checks.same(*weights)


def test_without_ranking_the_number_of_new_classes_does_not_matter(small_data: Dataset) -> None:
    config = checks.small_config(method__name="lucir", labels="given", stream__step=1, method__ranking=0)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:2])
    assert learner.known == 2
