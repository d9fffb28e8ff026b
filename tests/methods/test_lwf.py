"""LwF: its three losses against NumPy, and what each does to old logits without exemplars."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from references import eq1, eq2, eq3, sigmoid_loss, softmax, wide
from scenes import gradient, read_all, scene
from whorl.data.source import Dataset

NEW = torch.tensor([4, 5, 5, 4, 5, 4])
"""Labels of the new classes after a task of four classes."""


@pytest.mark.parametrize("variant", ["mc_bce", "local_ce", "eq3"])
def test_loss_of_task_one(variant: str, small_data: Dataset) -> None:
    """There is no teacher: one-hot sigmoids, or plain cross-entropy."""
    at = scene(small_data, 1, method__name="lwf", method__variant=variant)
    batch = at.batch()
    logits, labels = wide(batch.logits), batch.labels.numpy()
    expected = sigmoid_loss(logits, labels, logits[:, :0], 100) if variant == "mc_bce" else eq2(logits, labels)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("variant", ["mc_bce", "local_ce", "eq3"])
@pytest.mark.parametrize(("task", "first", "old"), [(2, 4, 4), (2, 2, 2), (3, 2, 4)])
def test_loss_of_later_tasks(variant: str, task: int, first: int, old: int, small_data: Dataset) -> None:
    at = scene(small_data, task, method__name="lwf", method__variant=variant, stream__first=first)
    batch = at.batch(labels=old + torch.arange(12) % 2)
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    assert teacher.shape == (12, old)
    expected = {
        "mc_bce": sigmoid_loss(logits, labels, teacher, 100),
        "local_ce": eq2(logits[:, old:], labels - old) + 3 * eq1(logits, teacher, 2.0),
        "eq3": eq3(logits, labels, teacher, 2.0),
    }
    assert at.phase().loss(batch).item() == pytest.approx(expected[variant], rel=1e-4)


def test_options_reach_the_loss(small_data: Dataset) -> None:
    own = {"method__variant": "local_ce", "method__weight": 10.0, "method__temperature": 4.0}
    at = scene(small_data, 2, method__name="lwf", **own)
    batch = at.batch(labels=torch.tensor([2, 3] * 6))
    logits = wide(batch.logits)
    expected = eq2(logits[:, 2:], batch.labels.numpy() - 2) + 10 * eq1(logits, at.teacher(batch), 4.0)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)
    at = scene(small_data, 2, method__name="lwf", method__width=7)
    expected = sigmoid_loss(logits, batch.labels.numpy(), at.teacher(batch), 7)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_local_cross_entropy_does_not_touch_old_logits(small_data: Dataset) -> None:
    """Without distillation their gradient is zero; with it, it is three times the gradient of Eq. 1."""
    alone = scene(small_data, 2, method__name="lwf", method__variant="local_ce", method__weight=0, stream__first=4)
    batch = alone.batch(6, labels=NEW)
    logits = wide(batch.logits)
    found = gradient(alone.phase().loss(batch), batch.logits)
    assert not found[:, :4].any()
    np.testing.assert_allclose(found[:, 4:], (softmax(logits[:, 4:]) - np.eye(2)[NEW - 4]) / 6, atol=1e-6)
    both = scene(small_data, 2, method__name="lwf", method__variant="local_ce", stream__first=4)
    found = gradient(both.phase().loss(batch), batch.logits)
    pull = (softmax(logits[:, :4] / 2) - softmax(both.teacher(batch) / 2)) / (2 * 6)
    np.testing.assert_allclose(found[:, :4], 3 * pull, atol=1e-4)


def test_eq3_lowers_old_logits(small_data: Dataset) -> None:
    """Cross-entropy lowers each of them for each new image; the gradient of distillation sums to zero over them."""
    at = scene(small_data, 2, method__name="lwf", method__variant="eq3", stream__first=4)
    batch = at.batch(6, labels=NEW)
    logits = wide(batch.logits)
    alpha = 4 / 6
    push = (1 - alpha) * softmax(logits)[:, :4] / 6
    assert push.min() > 0  # a gradient step goes the other way: down
    found = gradient(at.phase().loss(batch), batch.logits)
    np.testing.assert_allclose(found[:, :4].sum(axis=1), push.sum(axis=1), atol=1e-6)
    pull = alpha * (softmax(logits[:, :4] / 2) - softmax(at.teacher(batch) / 2)) / (2 * 6)
    np.testing.assert_allclose(found[:, :4], push + pull, atol=1e-4)


def test_sigmoids_keep_old_logits(small_data: Dataset) -> None:
    """There is no gradient where the student agrees with the teacher, and a shift is undone."""
    at = scene(small_data, 2, method__name="lwf", stream__first=4)
    batch = at.batch(6, labels=NEW)
    with torch.no_grad():
        batch.logits[:, :4] = torch.from_numpy(at.teacher(batch)).float()
    assert np.abs(gradient(at.phase().loss(batch), batch.logits)[:, :4]).max() < 1e-7
    with torch.no_grad():
        batch.logits[:, :4] -= 1
    assert gradient(at.phase().loss(batch), batch.logits)[:, :4].max() < 0


@pytest.mark.parametrize("variant", ["mc_bce", "local_ce", "eq3"])
def test_nothing_is_stored(variant: str, small_data: Dataset) -> None:
    """Training uses the new images only, and there is one classifier."""
    at = scene(small_data, 3, method__name="lwf", method__variant=variant)
    learner = at.learner
    assert learner.config.memory.quota == 0
    assert len(learner.memory) == len(at.step.exemplars) == len(at.step.past) == 0
    assert torch.equal(read_all(at.phase().data.images), read_all(at.stream[2].images))
    assert set(learner.classifier.scores(small_data.test)) == {"fc"}
    assert learner.config.classifier == "fc"
