"""EEIL: distillation inside every old head, the balanced second stage, its stored copies and its gradient noise."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import checks
from references import eq1, eq2, eq3, headwise, herding_by_loops, wide
from scenes import features_of, names_of, read_all, scene, watch
from whorl.data import DataOptions, load
from whorl.data.copies import Copies
from whorl.data.source import Dataset
from whorl.nets.model import Model
from whorl.types import granted


@pytest.fixture(scope="module")
def eight() -> Dataset:
    """Eight classes, for a task of four and two tasks of two."""
    return load("synthetic", None, DataOptions(resize=8, per_class=20, classes=8))


@pytest.mark.parametrize(("task", "heads"), [(1, ()), (2, (4,)), (3, (4, 2))])
def test_stage_one_distils_every_old_head(task: int, heads: tuple[int, ...], eight: Dataset) -> None:
    """Also the most recent one, so task 2 distils already. The new head has no teacher."""
    at = scene(eight, task, method__name="eeil", stream__first=4)
    assert at.step.sizes == (*heads, 4 if task == 1 else 2)
    batch = at.batch()
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    assert teacher.shape[1] == sum(heads)
    distilled = headwise(logits, teacher, heads, 2.0)
    assert (distilled > 0) == (task > 1)
    assert at.phase().loss(batch).item() == pytest.approx(eq2(logits, labels) + distilled, rel=1e-4)
    if task == 3:
        assert distilled != pytest.approx(eq1(logits, teacher, 2.0), rel=1e-2)  # not one softmax over the old classes
        assert distilled != pytest.approx(headwise(logits, teacher, heads[:1], 2.0), rel=1e-2)  # no head is left out


@pytest.mark.parametrize("task", [1, 2, 3])
def test_stage_one_with_eq3(task: int, eight: Dataset) -> None:
    at = scene(eight, task, method__name="eeil", stream__first=4, method__loss="eq3")
    batch = at.batch()
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    expected = eq2(logits, labels) if task == 1 else eq3(logits, labels, teacher, 2.0)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def move(model: Model, seed: int) -> None:
    """Change every parameter a little, as training would."""
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws), alpha=0.1)


@pytest.mark.parametrize("loss", ["heads", "eq3"])
def test_stage_two_learns_from_the_model_that_stage_one_left(loss: str, eight: Dataset) -> None:
    """All of its heads are distilled, also the newest; later training does not change the teacher."""
    at = scene(eight, 3, method__name="eeil", stream__first=4, method__loss=loss)
    model = at.model
    plan = iter(at.learner.method.plan(at.step))
    first = next(plan)
    move(model, 1)
    between = copy.deepcopy(model).eval()
    second = next(plan)
    move(model, 2)
    batch = at.batch()
    logits, labels = wide(batch.logits), batch.labels.numpy()
    with torch.no_grad():
        teacher = wide(between(batch.images).logits)
    assert teacher.shape[1] == 8
    heads = (4, 2, 2) if loss == "heads" else (8,)
    expected = eq2(logits, labels) + headwise(logits, teacher, heads, 2.0)
    assert second.loss(batch).item() == pytest.approx(expected, rel=1e-4)
    assert expected != pytest.approx(eq2(logits, labels) + headwise(logits, teacher, heads[:-1], 2.0), rel=1e-2)
    assert first.loss(batch).item() != pytest.approx(expected, rel=1e-2)
    assert next(plan, None) is None


def test_task_one_has_one_stage(eight: Dataset) -> None:
    at = scene(eight, 1, method__name="eeil", stream__first=4)
    assert [phase.name for phase in at.learner.method.plan(at.step)] == ["train"]


def test_length_and_rates_of_stage_two(small_data: Dataset) -> None:
    """Ten epochs each at 0.01, 0.001 and 0.0001, with any schedule of stage one."""
    at = scene(small_data, 2, method__name="eeil", method__balanced_epochs=30)
    first, second = at.learner.method.plan(at.step)
    assert first.optim == at.step.optim
    assert (first.optim.schedule, first.epochs) == ("onecycle", 2)
    assert (second.optim.schedule, second.epochs, second.batch) == ("steps", 30, 16)
    assert (second.optim.lr, second.optim.milestones, second.optim.gamma) == (0.01, (10, 20), 0.1)
    assert second.optim.weight_decay == first.optim.weight_decay


@pytest.mark.parametrize("labels", ["given", "pseudo"])
@pytest.mark.parametrize("changes", [{}, {"memory__policy": "total", "memory__quota": 18}], ids=["per-class", "total"])
def test_the_balanced_set(
    labels: str, changes: dict[str, object], small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All exemplars, and as many of each new (pseudo) class, herded by the model of stage one.

    The memory is chosen again after stage two, by the model of then.
    """
    config = checks.small_config(method__name="eeil", labels=labels, memory__reading="reuse", **changes)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    memory, ran = learner.memory, watch(monkeypatch)
    quota = len(memory) // 2
    assert quota == (4 if not changes else 9)
    checks.learn(learner, stream[1:2])
    train, balance = ran
    assert (train.phase.name, balance.phase.name) == ("train", "balance")
    assert learner.labels is not None
    pixels, own = read_all(stream[1].images), learner.labels.ids
    between = copy.deepcopy(learner.model)
    between.load(balance.before)
    assert checks.same(train.after, balance.before)
    expected: list[tuple[bytes, int]] = list(zip(names_of(memory.images), memory.labels.tolist(), strict=True))
    after: list[tuple[bytes, int]] = []
    for label in (2, 3):
        mine = np.flatnonzero(own == label)
        for model, into, count in ((between, expected, quota), (learner.model, after, learner.memory.per_class(4))):
            seen = features_of(model, pixels[torch.from_numpy(mine)], learner.inputs).astype(np.float32)
            chosen = mine[herding_by_loops(seen, count)]
            into += [(name, label) for name in names_of(pixels[torch.from_numpy(chosen)])]
    data = balance.phase.data
    assert list(zip(names_of(read_all(data.images)), data.labels.tolist(), strict=True)) == expected
    sizes = np.bincount(own)[2:]
    assert np.bincount(data.labels).tolist() == [quota, quota, *np.minimum(sizes, quota)]
    kept = list(zip(names_of(learner.memory.images), learner.memory.labels.tolist(), strict=True))
    assert kept[-len(after) :] == after


def test_copies_in_both_stages(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve copies of 40 new images and 8 exemplars, then of 4 images for each of 4 classes."""
    config = checks.small_config(method__name="eeil", method__profile="twelve", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    ran = watch(monkeypatch)
    checks.learn(learner, stream[:2])
    for one, count in zip(ran, (40, 48, 16), strict=True):
        data = one.phase.data
        assert isinstance(data.images, Copies)
        assert len(data) == len(data.images) == 12 * count
        assert one.phase.inputs == learner.inputs.plain()
        # A copy has the label of its image. The first kind are the images; the others follow in that order.
        source = read_all(data.images.source)
        assert torch.equal(data.images.read(np.arange(count)), source)
        assert np.array_equal(data.labels, np.tile(data.labels[:count], 12))
    old, new = ran[1].phase.data.labels[40:48], ran[1].phase.data.labels[:40]
    assert sorted(old) == [0] * 4 + [1] * 4
    assert np.array_equal(new, granted(stream[1].labels))


def test_stage_two_has_other_copies(small_data: Dataset) -> None:
    """They are drawn again, also for the exemplars, which are in both stages."""
    at = scene(small_data, 2, method__name="eeil", method__profile="twelve")
    first, second = at.learner.method.plan(at.step)
    assert torch.equal(first.data.images.read(np.arange(40, 48)), second.data.images.read(np.arange(8)))
    brighter = first.data.images.read(4 * 48 + np.arange(40, 48)), second.data.images.read(4 * 16 + np.arange(8))
    assert not torch.equal(*brighter)
    drawn = [phase.data.images._draws[:16] for phase in (first, second) if isinstance(phase.data.images, Copies)]
    assert not torch.equal(*drawn)


def test_stage_two_can_be_left_out(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="eeil", method__balanced_epochs=0)
    assert [phase.name for phase in at.learner.method.plan(at.step)] == ["train"]


def test_the_light_profile_uses_random_views(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="eeil", method__profile="light")
    for phase in at.learner.method.plan(at.step):
        assert phase.inputs == at.learner.inputs.jittered()
        assert not isinstance(phase.data.images, Copies)


@pytest.mark.parametrize("profile", ["twelve", "light"])
def test_gradient_noise(profile: str, small_data: Dataset) -> None:
    """eta / ((1 + epoch)^0.55 · images) for the gradient of a batch mean; stage two continues the count of epochs."""
    at = scene(small_data, 2, method__name="eeil", method__profile=profile, method__noise=0.3, train__epochs=40)
    first, second = at.learner.method.plan(at.step)
    assert first.noise is not None
    assert second.noise is not None
    for epoch, images in ((0, 128), (7, 128), (39, 3)):
        assert first.noise(epoch, images) == pytest.approx(0.3 / ((1 + epoch) ** 0.55 * images), rel=1e-12)
        assert second.noise(epoch, images) == pytest.approx(0.3 / ((41 + epoch) ** 0.55 * images), rel=1e-12)
    assert first.noise(0, 128) == pytest.approx(0.0023, abs=5e-5)


@pytest.mark.parametrize("profile", ["twelve", "light"])
def test_no_gradient_noise_unless_asked_for(profile: str, small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="eeil", method__profile=profile)
    assert [phase.noise for phase in at.learner.method.plan(at.step)] == [None, None]


def test_without_views_nothing_is_copied(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="eeil", method__profile="twelve", method__noise=0.3)
    for phase in at.learner.method.plan(replace(at.step, inputs=at.step.inputs.plain())):
        assert phase.inputs is None
        assert not isinstance(phase.data.images, Copies)
        assert phase.noise is not None


@pytest.mark.parametrize("profile", ["twelve", "light"])
def test_photos_are_not_varied_in_stage_two(profile: str, small_data: Dataset) -> None:
    """As in the authors' code for ImageNet: two copies each, then plain images."""
    at = scene(small_data, 2, method__name="eeil", method__profile=profile)
    photos = replace(at.step.inputs, view="resized_crop")
    first, second = at.learner.method.plan(replace(at.step, inputs=photos))
    assert len(first.data) == (2 * 48 if profile == "twelve" else 48)
    assert first.inputs == (photos.plain() if profile == "twelve" else photos.jittered())
    assert (len(second.data), second.inputs) == (16, photos.plain())
