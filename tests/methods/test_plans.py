"""Every method: its training samples, the inputs of its loss, and the gradient of its distillation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import checks
from references import eq3, wide
from scenes import features_of, gradient, heard, names_of, read_all, scene, seen_by, stored_bytes, watch
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import workload
from whorl.methods import METHODS, method_class, method_names
from whorl.methods.base import Batch, Phase
from whorl.nets.extract import extract
from whorl.nets.model import Model, Output, weights
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.training import Frozen

DISTILLING: list[dict[str, Any]] = [
    {"method__name": "ours"},
    {"method__name": "lwf", "method__variant": "mc_bce"},
    {"method__name": "lwf", "method__variant": "local_ce"},
    {"method__name": "lwf", "method__variant": "eq3"},
    {"method__name": "icarl", "method__loss": "bce"},
    {"method__name": "icarl", "method__loss": "ce_kd"},
    {"method__name": "eeil", "method__loss": "heads"},
    {"method__name": "eeil", "method__loss": "eq3"},
    {"method__name": "lucir"},
    {"method__name": "wa"},
    {"method__name": "bic"},
    {"method__name": "ilio"},
]
NAMES = ["-".join(map(str, changes.values())) for changes in DISTILLING]
REHEARSED, ALONE = [4, 4, 4, 4, 20, 20], [0, 0, 0, 0, 20, 20]


@pytest.mark.parametrize(
    ("method", "counts"),
    # The number of training samples of each class in task 3, with 20 images and 4 exemplars per class.
    [
        ("finetune", ALONE),
        ("joint", [20] * 6),
        ("ours", REHEARSED),
        ("lwf", ALONE),
        ("icarl", REHEARSED),
        ("eeil", REHEARSED),
        ("lucir", REHEARSED),
        ("wa", REHEARSED),
        ("bic", [2, 2, 2, 2, 18, 18]),  # two of four exemplars and of the new images are held out
        ("ilio", REHEARSED),
    ],
)
def test_what_task_three_trains_on(method: str, counts: list[int], small_data: Dataset) -> None:
    phase = scene(small_data, 3, method__name=method).phase()
    assert np.bincount(phase.data.labels, minlength=6).tolist() == counts
    assert len(phase.data.images) == sum(counts)


def test_exemplars_come_with_their_own_images(small_data: Dataset) -> None:
    at = scene(small_data, 3)
    images = read_all(at.phase().data.images)
    assert torch.equal(images[len(at.step.new) :], at.step.memory.images)


def test_exemplars_are_in_the_batches(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch of task 2 uses every exemplar and every new image once, with its label."""
    config = checks.small_config(labels="given")
    plain = checks.without_views(small_data)
    learner, stream = checks.make_learner(config, plain), checks.streams(config, plain)
    checks.learn(learner, stream[:1])
    memory, shown = learner.memory, list[tuple[bytes, int]]()

    def tell(batch: Batch) -> None:
        shown.extend(zip(names_of(stored_bytes(batch, learner.inputs)), batch.labels.tolist(), strict=True))

    watch(monkeypatch, lambda phase, model: heard(phase, tell))
    checks.learn(learner, stream[1:2])
    given = list(zip(names_of(memory.images), memory.labels.tolist(), strict=True))
    new = read_all(stream[1].images)
    given += list(zip(names_of(new), np.asarray(stream[1].labels).tolist(), strict=True))
    assert len(set(given)) == 48
    assert sorted(shown) == sorted(given * config.train.epochs)


def test_eq3_of_ours_with_unequal_tasks(small_data: Dataset) -> None:
    """alpha counts classes, not tasks: it is 2/3 for 4 old and 2 new classes."""
    at = scene(small_data, 2, stream__first=4)
    batch = at.batch()
    expected = eq3(wide(batch.logits), batch.labels.numpy(), at.teacher(batch), 2.0)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("changes", DISTILLING, ids=NAMES)
def test_distillation_reaches_the_backbone(changes: dict[str, Any], small_data: Dataset) -> None:
    """With another teacher, the gradient of the bottom layer is another one. The teacher itself gets no gradient."""
    at = scene(small_data, 2, **changes)
    model = at.model
    stem = next(model.backbone.parameters())
    batch = seen_by(model, at.batch(labels=torch.tensor([2, 3] * 6)))  # new classes, the only ones that lwf trains on

    def elsewhere(images: Tensor) -> Output:
        out = at.step.teacher(images)
        assert not out.logits.requires_grad
        assert not out.features.requires_grad
        return Output(out.logits.flip(1) * 2, out.features.flip(1))

    slopes = []
    for teacher in (at.step.teacher, elsewhere):
        phase = next(iter(at.learner.method.plan(replace(at.step, teacher=teacher))))
        slopes.append(gradient(phase.loss(batch), stem))
    assert np.abs(slopes[0]).max() > 0
    assert np.abs(slopes[0] - slopes[1]).max() > 1e-3 * np.abs(slopes[0]).max()
    assert isinstance(at.step.teacher, Frozen)
    assert all(not p.requires_grad and p.grad is None for p in at.step.teacher.model.parameters())


@pytest.mark.parametrize("changes", DISTILLING, ids=NAMES)
def test_the_teacher_sees_the_students_views(
    changes: dict[str, Any], small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a real step, both get the same batch; the student is in train mode, the teacher in eval mode."""
    looked: list[Tensor] = []
    plain = Frozen.__call__

    def spying(teacher: Frozen, images: Tensor) -> Output:
        looked.append(images)
        assert not teacher.model.training
        assert not any(isinstance(part, nn.BatchNorm2d) for part in teacher.model.modules())  # folded in
        return plain(teacher, images)

    def tell(batch: Batch, model: Model) -> None:
        assert model.training
        looked.clear()
        again = model(batch.images)  # in train mode the batch's own statistics count, so it is the same pass
        torch.testing.assert_close(again.logits, batch.logits)

    def listening(phase: Phase, model: Model) -> Phase:
        phase = heard(phase, lambda batch: tell(batch, model))

        def loss(batch: Batch) -> Tensor:
            value = phase.loss(batch)
            assert all(images is batch.images for images in looked)
            counts.append(len(looked))
            return value

        return replace(phase, loss=loss)

    counts: list[int] = []
    config = checks.small_config(labels="given", **changes)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    monkeypatch.setattr(Frozen, "__call__", spying)
    watch(monkeypatch, lambda phase, model: listening(phase, model) if phase.mode == "train" else phase)
    checks.learn(learner, stream[1:2])
    assert sum(counts) >= 3
    assert max(counts) == 1


def test_the_teacher_has_the_old_classes(small_data: Dataset) -> None:
    at = scene(small_data, 3)
    batch = at.batch()
    logits = at.step.teacher(batch.images).logits
    assert logits.shape == (12, 4)
    np.testing.assert_allclose(logits.numpy(), at.teacher(batch), atol=1e-4)
    assert at.step.known == 4


def test_inference_does_not_change_the_student(small_data: Dataset) -> None:
    """Extracting features and scoring change no mode, no statistics of batch norm and no weight."""
    at = scene(small_data, 2)
    learner, model = at.learner, at.model.train()
    before = weights(model)
    found = at.step.features(small_data.test)
    np.testing.assert_allclose(
        found, features_of(model, read_all(small_data.test), learner.inputs), rtol=1e-3, atol=1e-4
    )
    at.step.freeze()(torch.zeros(2, 3, 8, 8))
    learner.classifier.scores(small_data.test)
    extract(model.frozen().backbone, model.dim, small_data.test, learner.inputs, learner.runtime, mirror=True)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert checks.same(before, weights(model))


@pytest.mark.parametrize(
    "changes",
    [
        {"method__name": "finetune"},
        {"method__name": "joint"},
        *DISTILLING,
        {"method__name": "eeil", "method__profile": "twelve", "train__first_epochs": 1, "train__epochs": 1},
        {"method__name": "ilio", "method__strict": True},
        {"method__name": "ours", "memory__policy": "total", "memory__quota": 24},
        {"method__name": "eeil", "method__profile": "twelve", "train__augment": "none"},
        {"method__name": "lwf", "memory__quota": 4},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_estimates_of_the_number_of_training_images(changes: dict[str, Any], small_data: Dataset) -> None:
    """Used for the time left. Exact except for BiC, where the number of held-out images is not known in advance."""
    config = checks.small_config(labels="given", **changes)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    estimated = list(workload(config, small_data))
    counted = []
    for task in stream:
        counted.append(sum(halt.record.images for halt in learner.learn(task, Silent()) if halt.record))
    if config.method.name == "bic":
        assert estimated == pytest.approx(counted, rel=0.3)
    else:
        assert estimated == counted


def test_names() -> None:
    assert set(METHODS) <= set(method_names())
    assert sorted(METHODS) == ["bic", "eeil", "finetune", "icarl", "ilio", "joint", "lucir", "lwf", "ours", "wa"]
    assert all(METHODS[name].name == name for name in METHODS)
    with pytest.raises(WhorlError, match=r"unknown method 'our'; did you mean 'ours'\?"):
        method_class("our")


def test_options_are_checked() -> None:
    with pytest.raises(WhorlError, match=r"unknown config key 'method.temprature'; did you mean 'method.temperature'"):
        resolve({"method": {"name": "ours", "temprature": 3}})
    with pytest.raises(WhorlError, match=r"`method.temperature` must be above 0, not -1"):
        resolve({"method": {"name": "ours", "temperature": -1}})
    found = resolve({"method": {"name": "ours", "temperature": 3}}).method.options
    assert found == {"temperature": 3.0}


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].needs_memory])
def test_methods_with_exemplars_need_a_memory(name: str) -> None:
    config = checks.small_config(method__name=name, memory__quota=0)
    with pytest.raises(WhorlError, match=f"{name} needs exemplars; set `memory.quota`"):
        method_class(name)().check(config, (), True)


@pytest.mark.parametrize(
    ("name", "head", "fitting"),
    [
        ("ours", "corrected", "linear or linear-nobias or cosine"),
        ("eeil", "means", "linear or linear-nobias or cosine"),
        ("lucir", "linear", "cosine"),
        ("wa", "cosine", "linear-nobias or linear"),
        ("bic", "linear", "corrected"),
        ("ilio", "linear", "means"),
    ],
)
def test_heads_must_fit(name: str, head: str, fitting: str) -> None:
    config = checks.small_config(method__name=name, net__head=head)
    with pytest.raises(WhorlError, match=f"{name} works with `net.head` {fitting}, not {head}"):
        method_class(name)().check(config, (), True)
