"""What each method trains on, and that its loss reaches where it must."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import checks
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.methods import METHODS, method_class, method_names
from whorl.methods.base import Batch
from whorl.recipes import resolve


def plan(method: str, data: Dataset, task: int) -> tuple[object, object]:
    config = checks.small_config(method__name=method, labels="given", memory__quota=3 if method == "ours" else 0)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[: task - 1])
    learner.model.grow(2)
    step = learner._step(stream[task - 1], np.asarray(stream[task - 1].labels))
    (phase,) = learner.method.plan(step)
    return step, phase


@pytest.mark.parametrize(
    ("method", "counts"),
    # 20 images a class, 3 exemplars a class: what task 3 trains on, class by class.
    [("finetune", [0, 0, 0, 0, 20, 20]), ("joint", [20] * 6), ("ours", [3, 3, 3, 3, 20, 20])],
)
def test_what_task_three_trains_on(method: str, counts: list[int], small_data: Dataset) -> None:
    _, phase = plan(method, small_data, 3)
    assert np.bincount(phase.data.labels, minlength=6).tolist() == counts  # type: ignore[attr-defined]
    assert len(phase.data.images) == sum(counts)  # type: ignore[attr-defined]


def test_exemplars_come_with_their_own_images(small_data: Dataset) -> None:
    step, phase = plan("ours", small_data, 3)
    new = len(step.new)  # type: ignore[attr-defined]
    images = phase.data.images.read(np.arange(new, new + 12))  # type: ignore[attr-defined]
    assert torch.equal(images, step.memory.images)  # type: ignore[attr-defined]


def test_distillation_reaches_the_backbone(small_data: Dataset) -> None:
    """With labels that agree with the student nothing but the teacher's part can move the backbone much."""
    step, phase = plan("ours", small_data, 2)
    model = step.model  # type: ignore[attr-defined]
    x = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    out = model.train()(x)
    teacher = step.teacher(x)  # type: ignore[attr-defined]
    assert not teacher.logits.requires_grad
    labels = torch.zeros(8, dtype=torch.int64)
    full = phase.loss(Batch(x, labels, out.logits, out.features))  # type: ignore[attr-defined]
    half = 0.5 * torch.nn.functional.cross_entropy(out.logits, labels)
    kd_only = full - half
    kd_only.backward()
    stem = model.backbone.stem[0].conv.weight.grad
    assert stem.abs().max() > 0


def test_the_teacher_sees_the_augmented_batch_and_is_as_wide_as_the_old_classes(small_data: Dataset) -> None:
    step, _ = plan("ours", small_data, 3)
    assert step.teacher(torch.zeros(2, 3, 8, 8)).logits.shape == (2, 4)  # type: ignore[attr-defined]
    assert step.known == 4  # type: ignore[attr-defined]


def test_names() -> None:
    assert {"finetune", "joint", "ours"} <= set(method_names())
    assert all(METHODS[name].name == name for name in METHODS)
    with pytest.raises(WhorlError, match=r"unknown method 'our'; did you mean 'ours'\?"):
        method_class("our")


def test_options_are_checked() -> None:
    with pytest.raises(WhorlError, match=r"unknown config key 'method.temprature'; did you mean 'method.temperature'"):
        resolve({"method": {"name": "ours", "temprature": 3}})
    with pytest.raises(WhorlError, match=r"config method.temperature: input should be greater than 0, not -1"):
        resolve({"method": {"name": "ours", "temperature": -1}})
    assert resolve({"method": {"name": "ours", "temperature": 3}}).method.options == {"temperature": 3.0}
