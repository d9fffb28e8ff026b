"""Losses where a delivery holds known classes: alone, or among new ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import checks
from references import Array, accommodate, eq1, eq2, forgetting, headwise, ranking, sigmoid, sigmoid_targets, unit, wide
from scenes import Scene, begin, seen_by, stop_before
from whorl.data.source import Dataset, Subset
from whorl.data.stream import Stream
from whorl.methods.losses import partial_cross_entropy
from whorl.types import Delivery

KNOWN = 4
MIXED, ONLY_KNOWN = {4: 20, 5: 20, 1: 8}, {0: 8, 1: 8, 3: 8}
"""Samples per class. The classes 0 to 3 are known; of six classes, three are delivered, or of four, three."""


def scene(data: Dataset, classes: dict[int, int], **changes: Any) -> Scene:
    """Before a delivery that holds known classes, after two tasks of two classes each."""
    config = checks.small_config(labels="given", **changes)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[:2])
    rows = np.concatenate([np.flatnonzero(data.train_labels == c)[-count:] for c, count in classes.items()])
    delivery = Delivery(Subset(data.train, rows), data.train_labels[rows])
    return stop_before(learner, Stream([*stream[:2], delivery]), 3)


@pytest.fixture(params=["mixed", "only known"])
def classes(request: pytest.FixtureRequest) -> dict[int, int]:
    return MIXED if request.param == "mixed" else ONLY_KNOWN


def alpha_of(classes: dict[int, int]) -> float:
    """The share of classes without samples in the delivery."""
    return 3 / 6 if classes is MIXED else 1 / 4


def expected_of(name: str, logits: Array, labels: Any, teacher: Array, classes: dict[int, int]) -> float:
    """The loss of a method by its formula."""
    alpha = alpha_of(classes)
    mixed = alpha * eq1(logits, teacher, 2.0) + (1 - alpha) * eq2(logits, labels)
    if name in ("ours", "wa", "bic", "eeil-eq3", "lwf-eq3"):
        return mixed
    if name == "eeil":
        return eq2(logits, labels) + headwise(logits, teacher, (2, 2), 2.0)
    if name == "icarl-ce_kd":
        return eq2(logits, labels) + eq1(logits, teacher, 2.0)
    held = sorted(classes)
    if name in ("icarl", "lwf"):
        target = sigmoid_targets(logits, labels, teacher)
        target[:, held] = np.eye(logits.shape[1])[labels][:, held]  # one-hot for every class of the delivery
        p = sigmoid(logits)
        return float(-(target * np.log(p) + (1 - target) * np.log(1 - p)).sum() / 100 / len(logits))
    if name == "ilio":
        blended = accommodate(logits, teacher, 0.5)
        return alpha * eq1(logits, teacher, 2.0) + (1 - alpha) * eq2(blended, labels)
    mine = np.isin(labels, held)  # lwf-local_ce: other classes have no part in its cross-entropy
    own = eq2(logits[mine][:, held], np.searchsorted(held, labels[mine]))
    return own + 3 * eq1(logits, teacher, 2.0)


OPTIONS = {
    "eeil-eq3": {"method__loss": "eq3"},
    "lwf-eq3": {"method__variant": "eq3"},
    "lwf-local_ce": {"method__variant": "local_ce"},
    "icarl-ce_kd": {"method__loss": "ce_kd"},
}


@pytest.mark.parametrize(
    "name", ["ours", "wa", "bic", "eeil", "icarl", "lwf", "ilio", "eeil-eq3", "lwf-eq3", "lwf-local_ce", "icarl-ce_kd"]
)
def test_losses(name: str, classes: dict[int, int], small_data: Dataset) -> None:
    """Distillation weighs as many classes as the delivery lacks; known ones that it holds are learned like new ones."""
    at = scene(small_data, classes, method__name=name.split("-")[0], **OPTIONS.get(name, {}))
    assert at.step.alpha == pytest.approx(alpha_of(classes))
    assert at.step.known == KNOWN
    batch = at.batch()
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    assert teacher.shape == (12, KNOWN)
    expected = expected_of(name, logits, labels, teacher, classes)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_lucir(classes: dict[int, int], small_data: Dataset) -> None:
    """Less-forget weighs 5 · sqrt(absent / delivered); without new classes there is nothing to rank against."""
    at = scene(small_data, classes, method__name="lucir")
    batch = seen_by(at.model, at.batch())
    labels, features = batch.labels.numpy(), wide(batch.features)
    with torch.no_grad():
        taught = wide(at.old(batch.images).features)
    cosines = unit(features) @ unit(wide(at.model.head.weight)).T
    ratio = 3 / 3 if classes is MIXED else 1 / 3
    expected = eq2(wide(batch.logits), labels) + 5 * math.sqrt(ratio) * forgetting(features, taught)
    if classes is MIXED:
        expected += ranking(cosines, labels, KNOWN, 2, 0.5)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-3)


def test_lucir_imprints_new_rows_alone(small_data: Dataset) -> None:
    at = scene(small_data, MIXED, method__name="lucir")
    assert torch.equal(at.model.head.weight[:KNOWN], at.old.head.weight)
    assert at.model.classes == 6


@pytest.mark.parametrize("method", ["ours", "joint", "finetune", "lwf", "bic"])
def test_what_is_trained_on(method: str, small_data: Dataset) -> None:
    """New samples with their own ids, known classes among them, beside the exemplars or the past."""
    phase = scene(small_data, MIXED, method__name=method).phase()
    counts = {
        "ours": [4, 4 + 8, 4, 4, 20, 20],
        "joint": [20, 20 + 8, 20, 20, 20, 20],
        "finetune": [0, 8, 0, 0, 20, 20],
        "lwf": [0, 8, 0, 0, 20, 20],
        "bic": [2, 2 + 6, 2, 2, 18, 18],  # two of each class are held out, and two of four exemplars
    }
    assert np.bincount(phase.data.labels, minlength=6).tolist() == counts[method]


def test_eeil_balances_over_all_classes(small_data: Dataset) -> None:
    """The balanced set: the exemplars, and as many samples of each new class."""
    at = scene(small_data, MIXED, method__name="eeil")
    _, balance = at.learner.method.plan(at.step)
    assert np.bincount(balance.data.labels).tolist() == [4] * 6
    alone = scene(small_data, ONLY_KNOWN, method__name="eeil")
    _, balance = alone.learner.method.plan(alone.step)
    assert np.bincount(balance.data.labels).tolist() == [4] * 4


def test_bic_corrects_new_classes_and_nothing_without_any(small_data: Dataset) -> None:
    at = scene(small_data, MIXED, method__name="bic")
    train, correct = at.learner.method.plan(at.step)
    assert (train.name, correct.name) == ("train", "correct")
    assert np.bincount(correct.data.labels).tolist() == [2, 4, 2, 2, 2, 2]
    alone = scene(small_data, ONLY_KNOWN, method__name="bic")
    assert [phase.name for phase in alone.learner.method.plan(alone.step)] == ["train"]
    assert alone.learner.method.settle(alone.step) == {}


def test_wa_aligns_nothing_without_new_classes(small_data: Dataset) -> None:
    at = scene(small_data, ONLY_KNOWN, method__name="wa")
    before = at.model.head.weight.detach().clone()
    assert at.learner.method.settle(at.step) == {}
    assert torch.equal(at.model.head.weight, before)


def test_ilio_goes_on_with_the_means_of_known_classes(small_data: Dataset) -> None:
    config = checks.small_config(method__name="ilio", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:2])
    rows = np.concatenate([np.flatnonzero(small_data.train_labels == c)[:10] for c in (4, 5, 0)])
    delivery = Delivery(Subset(small_data.train, rows), small_data.train_labels[rows])
    checks.learn(learner, Stream([delivery]))
    assert learner.model.get_buffer("head.counts").tolist() == [30, 20, 20, 20, 10, 10]


def test_partial_cross_entropy() -> None:
    """Over the columns of some classes, for samples of these; without any it is 0, and so is its gradient."""
    draws = np.random.default_rng(0)
    logits, labels = draws.normal(size=(6, 5)), np.array([0, 3, 4, 2, 3, 1])
    found = partial_cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels), torch.tensor([3, 4])).item()
    assert found == pytest.approx(eq2(logits[[1, 2, 4]][:, 3:], labels[[1, 2, 4]] - 3), rel=1e-9)
    found = partial_cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels), torch.tensor([1, 4])).item()
    assert found == pytest.approx(eq2(logits[[2, 5]][:, [1, 4]], np.array([1, 0])), rel=1e-9)
    x = torch.from_numpy(logits).requires_grad_()
    none = partial_cross_entropy(x, torch.from_numpy(labels % 3), torch.tensor([3, 4]))
    none.backward()  # type: ignore[no-untyped-call]
    assert none.item() == 0
    assert x.grad is not None
    assert not x.grad.any()


def test_the_teacher_is_that_of_all_known_classes(small_data: Dataset) -> None:
    at = scene(small_data, ONLY_KNOWN)
    batch = at.batch()
    np.testing.assert_allclose(wide(at.step.teacher(batch.images).logits), at.teacher(batch), atol=1e-4)
    again = begin(at.learner, at.stream[2])  # beginning a step twice changes nothing
    assert torch.equal(again.model.head.weight, at.model.head.weight)


@pytest.mark.parametrize("name", ["lwf", "lwf-local_ce", "lwf-eq3", "icarl", "icarl-ce_kd", "ours", "eeil", "ilio"])
def test_labels_of_known_classes_are_learned(name: str, small_data: Dataset) -> None:
    """Other labels for the samples of known classes give another loss."""
    at = scene(small_data, ONLY_KNOWN, method__name=name.split("-")[0], **OPTIONS.get(name, {}))
    held = torch.tensor(sorted(ONLY_KNOWN))
    one, other = (at.batch(labels=held[(torch.arange(12) + shift) % len(held)]) for shift in (0, 1))
    loss = at.phase().loss
    assert not torch.equal(loss(one), loss(other))


@pytest.mark.parametrize("method", ["ours", "bic"])
def test_exemplars_that_are_delivered_again_are_stored_once(method: str, small_data: Dataset) -> None:
    config = checks.small_config(method__name=method, labels="given", memory__select="random")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:2])
    checks.learn(learner, Stream([Delivery(learner.memory.source, learner.memory.labels)]))
    assert np.bincount(learner.memory.labels).tolist() == [4] * 4
    assert len(torch.unique(learner.memory.images.flatten(1), dim=0)) == 16
