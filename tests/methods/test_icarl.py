"""iCaRL: its losses, its class means with mirror images, and its classifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import checks
from references import Array, eq1, eq2, sigmoid, sigmoid_loss, sigmoid_targets, unit, wide
from scenes import features_of, gradient, scene
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.experiment import run


@pytest.mark.parametrize(("task", "first", "old"), [(1, 2, 0), (2, 2, 2), (2, 4, 4), (3, 2, 4)])
def test_sigmoid_loss(task: int, first: int, old: int, small_data: Dataset) -> None:
    """Summed over all classes and divided by ``width``; old classes take the teacher's outputs for every sample."""
    at = scene(small_data, task, method__name="icarl", stream__first=first)
    batch = at.batch()
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    assert teacher.shape == (12, old)
    loss = at.phase().loss(batch)
    assert loss.item() == pytest.approx(sigmoid_loss(logits, labels, teacher, 100), rel=1e-4)
    expected = (sigmoid(logits) - sigmoid_targets(logits, labels, teacher)) / (100 * 12)
    np.testing.assert_allclose(gradient(loss, batch.logits), expected, atol=1e-7)


@pytest.mark.parametrize("task", [1, 2, 3])
def test_softmax_loss(task: int, small_data: Dataset) -> None:
    """PyCIL's variant: Eq. 2 + Eq. 1."""
    at = scene(small_data, task, method__name="icarl", method__loss="ce_kd")
    batch = at.batch()
    logits = wide(batch.logits)
    expected = eq2(logits, batch.labels.numpy())
    if task > 1:
        expected += eq1(logits, at.teacher(batch), 2.0)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_the_gradient_does_not_depend_on_how_many_classes_are_seen(small_data: Dataset) -> None:
    """With a mean over the classes so far, the gradient of task 1 would be too large for the learning rate."""
    few = scene(small_data, 1, method__name="icarl", stream__first=2)
    many = scene(small_data, 1, method__name="icarl", stream__first=6)
    wide_batch = many.batch(labels=torch.tensor([0, 1] * 6))
    logits = wide_batch.logits.detach()[:, :2].clone().requires_grad_()
    narrow = gradient(few.phase().loss(replace(wide_batch, logits=logits)), logits)
    found = gradient(many.phase().loss(wide_batch), wide_batch.logits)
    np.testing.assert_allclose(found[:, :2], narrow, rtol=1e-6)
    assert np.abs(narrow).max() <= 1 / (100 * 12)


def means_by_hand(learner: Learner, flipped: int | None) -> Array:
    """The mean of unit features for each class, averaged with that of images reversed along an axis of [n, h, w, 3]."""
    memory = learner.memory
    kinds = [memory.images] if flipped is None else [memory.images, memory.images.flip(flipped)]
    seen = [unit(features_of(learner.model, images, learner.inputs)) for images in kinds]
    rows = [np.mean([z[memory.labels == c].mean(axis=0) for z in seen], axis=0) for c in range(learner.known)]
    return unit(np.array(rows))


@pytest.fixture(scope="module")
def learned(small_data: Dataset) -> Learner:
    """A learner after two tasks of iCaRL."""
    config = checks.small_config(method__name="icarl", labels="given")
    learner = checks.make_learner(config, small_data)
    checks.learn(learner, checks.streams(config, small_data)[:2])
    return learner


def test_class_means_with_mirrored_images(learned: Learner) -> None:
    """Mirrored from left to right: neither upside down nor with colours exchanged."""
    means = learned.means
    assert means is not None
    np.testing.assert_allclose(means, means_by_hand(learned, flipped=2), atol=1e-4)
    for other in (None, 1, 3):
        assert np.abs(means - means_by_hand(learned, flipped=other)).max() > 1e-3


@pytest.mark.parametrize("view", ["shift", "none"])
def test_no_mirrored_images_where_they_may_be_other_classes(view: str, learned: Learner, small_data: Dataset) -> None:
    assert learned.config.memory.mirror
    other, state = checks.make_learner(learned.config, small_data), learned.state()
    other.restore(replace(state, means=None, inputs=replace(state.inputs, view=view, mirrors=False)))
    assert other.means is not None
    np.testing.assert_allclose(other.means, means_by_hand(learned, flipped=None), atol=1e-4)


def test_no_mirrored_images_where_they_are_switched_off(learned: Learner, small_data: Dataset) -> None:
    config = checks.small_config(method__name="icarl", labels="given", memory__mirror=False)
    other = checks.make_learner(config, small_data)
    other.restore(replace(learned.state(), means=None))
    assert other.means is not None
    np.testing.assert_allclose(other.means, means_by_hand(learned, flipped=None), atol=1e-4)


def test_mirrored_images_with_any_view_of_training(learned: Learner, small_data: Dataset) -> None:
    """The data set determines whether a mirrored image keeps its class, not the random views of training."""
    config = checks.small_config(method__name="icarl", labels="given", train__augment="none")
    other = checks.make_learner(config, small_data)
    assert (other.inputs.view, other.inputs.mirrors) == ("none", True)
    other.restore(replace(learned.state(), means=None, inputs=other.inputs))
    assert other.means is not None
    np.testing.assert_allclose(other.means, means_by_hand(learned, flipped=2), atol=1e-4)


def test_mirrored_images_do_not_affect_the_selection(small_data: Dataset) -> None:
    """They are used in the means only: the memory is the same with and without them."""
    kept = []
    for mirror in (True, False):
        config = checks.small_config(method__name="icarl", labels="given", memory__mirror=mirror)
        learner = checks.make_learner(config, small_data)
        checks.learn(learner, checks.streams(config, small_data)[:1])
        kept.append(learner.memory.images)
    assert torch.equal(*kept)


def test_scores_by_the_nearest_mean(learned: Learner, small_data: Dataset) -> None:
    images = small_data.test.read(np.arange(30))
    z = unit(features_of(learned.model, images, learned.inputs))
    distances = [[-np.sum((row - mean) ** 2) for mean in means_by_hand(learned, flipped=2)] for row in z]
    found = learned.classifier.scores(small_data.test)["nme"]
    np.testing.assert_allclose(found[:30], distances, atol=1e-3)


def test_acc_is_that_of_the_nearest_mean_and_both_are_stored(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(method__name="icarl", labels="given", stream__tasks=2)
    assert config.classifier == "nme"
    result = run(config, small_data, tmp_path)
    for step in result.steps:
        assert step.acc == step.acc_nme
        assert step.acc_fc is not None
        assert 0 <= step.acc_fc <= 1
    other = checks.small_config(method__name="icarl", labels="given", stream__tasks=2, classifier="fc")
    for step, same in zip(run(other, small_data, tmp_path).steps, result.steps, strict=True):
        assert step.acc == step.acc_fc == same.acc_fc
