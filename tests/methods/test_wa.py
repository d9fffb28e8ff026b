"""WA: non-negative weights after each update, and the alignment of the new rows after training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import checks
from references import Array, eq3, herding_by_loops, wide
from scenes import Scene, begin, features_of, followed, grown, heard, names_of, read_all, scene, watch
from whorl import engine
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.memory.update import updated
from whorl.methods import method_class
from whorl.methods.base import Batch, Phase
from whorl.methods.wa import alignment
from whorl.nets.heads import LinearHead
from whorl.nets.model import Model, weights
from whorl.types import granted


def gamma_by_hand(weight: Array, known: int, norm: int) -> float:
    lengths = [float(np.sum(np.abs(row) ** norm)) ** (1 / norm) for row in weight]
    return min(1.0, float(np.mean(lengths[:known]) / np.mean(lengths[known:])))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_alignment(norm: int, scale: float) -> None:
    """The ratio of the norms, old over new, at most 1; after aligning it is 1."""
    weight = torch.rand(7, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight[4:] *= scale
    expected = gamma_by_hand(wide(weight), 4, norm)
    gamma = alignment(weight, 4, norm)
    assert gamma == pytest.approx(expected, rel=1e-12)
    assert (gamma == 1) == (scale < 1)
    weight[4:] *= gamma
    assert alignment(weight, 4, norm) == pytest.approx(1, rel=1e-12)


def test_the_norms_differ() -> None:
    weight = torch.eye(4, dtype=torch.float64)
    weight[2:] = 1.0  # length 2, or 4 by the other norm
    assert alignment(weight, 2, 2) == pytest.approx(1 / 2)
    assert alignment(weight, 2, 1) == pytest.approx(1 / 4)


@pytest.mark.parametrize("clip", [True, False])
def test_weights_are_clipped_after_every_update(
    clip: bool, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checks.small_config(method__name="wa", labels="given", method__clip=clip, optim__lr=0.5)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    lowest: list[float] = []
    watch(monkeypatch, lambda phase, model: followed(phase, lambda _: lowest.append(model.head.weight.min().item())))
    checks.learn(learner, stream[:2])
    assert len(lowest) == 2 * 3 + 2 * 3
    if clip:
        assert min(lowest) == 0  # some were cut off
        assert learner.model.head.weight.min() == 0
    else:
        assert max(lowest) < 0


def test_clipping_is_part_of_the_update(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are clipped before every batch except the initial one."""
    config = checks.small_config(method__name="wa", labels="given", optim__lr=0.5)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    seen: list[Tensor] = []
    watch(monkeypatch, lambda phase, model: heard(phase, lambda _: seen.append(model.head.weight.detach().clone())))
    checks.learn(learner, stream[:1])
    assert seen[0].min() < 0
    assert all(weight.min() == 0 for weight in seen[1:])


@pytest.mark.parametrize("task", [1, 2, 3])
def test_loss(task: int, small_data: Dataset) -> None:
    """Eq. 3 with the aligned teacher."""
    at = scene(small_data, task, method__name="wa")
    batch = at.batch()
    loss = at.phase().loss(batch).item()
    logits, labels = wide(batch.logits), batch.labels.numpy()
    expected = torch.nn.functional.cross_entropy(batch.logits, batch.labels).item()
    if task > 1:
        expected = eq3(logits, labels, at.teacher(batch), 2.0)
    assert loss == pytest.approx(expected, rel=1e-4)


def inflated(phase: Phase, model: Model) -> Phase:
    """The phase, with the new rows multiplied by three in its training."""

    def after(batch: Batch) -> None:
        if phase.after:
            phase.after(batch)
        if batch.number == 0:
            with torch.no_grad():
                model.head.weight[-2:] *= 3

    return replace(phase, after=after)


@pytest.fixture
def aligned(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> tuple[Scene, Array, float]:
    """Before task 3, after a task 2 in which aligning changed the head; with the trained head and gamma."""
    with monkeypatch.context() as patch:
        ran = watch(patch, lambda phase, model: inflated(phase, model) if len(phase.data) > 40 else phase)
        at = scene(small_data, 3, method__name="wa")
    trained = wide(ran[1].after["head.weight"])
    gamma = gamma_by_hand(trained, 2, 2)
    assert gamma < 0.9
    return at, trained, gamma


def test_aligned_before_evaluation_and_the_next_teacher(
    aligned: tuple[Scene, Array, float], small_data: Dataset
) -> None:
    """The evaluated model and the next teacher have the trained old rows, and the new rows times gamma."""
    at, trained, gamma = aligned
    expected = trained.copy()
    expected[2:] *= gamma
    np.testing.assert_allclose(wide(at.old.head.weight), expected, rtol=1e-5)
    np.testing.assert_allclose(wide(at.model.head.weight[:4]), expected, rtol=1e-5)
    lengths = np.linalg.norm(expected, axis=1)
    assert lengths[:2].mean() == pytest.approx(lengths[2:].mean(), rel=1e-5)
    assert at.learner.settled == {"gamma": pytest.approx(gamma, rel=1e-5)}
    scores = at.learner.classifier.scores(small_data.test)["fc"]
    features = features_of(at.old, read_all(small_data.test), at.learner.inputs)
    np.testing.assert_allclose(scores, features @ expected.T, atol=1e-3)
    batch = at.batch()
    with torch.no_grad():
        seen = wide(at.old(batch.images).features)
    np.testing.assert_allclose(wide(at.step.teacher(batch.images).logits), seen @ expected.T, atol=1e-3)


def test_exemplars_are_herded_with_the_finished_model(aligned: tuple[Scene, Array, float]) -> None:
    at, _, _ = aligned
    memory, labels = at.learner.memory, granted(at.stream[1].labels)
    pixels = read_all(at.stream[1].images)
    for label in (2, 3):
        mine = pixels[torch.from_numpy(labels == label)]
        chosen = herding_by_loops(features_of(at.old, mine, at.learner.inputs).astype(np.float32), 4)
        assert names_of(memory.images[torch.from_numpy(memory.labels == label)]) == names_of(mine[chosen])


def test_order_of_what_follows_training(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Align, then select exemplars and freeze the model for evaluation and the next teacher."""
    config = checks.small_config(method__name="wa", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    order: list[str] = []

    def told(name: str, call: Any) -> Any:
        def telling(*args: Any) -> Any:
            order.append(name)
            return call(*args)

        return telling

    ran = watch(monkeypatch)
    monkeypatch.setattr("whorl.methods.wa.alignment", told("align", alignment))
    monkeypatch.setattr(Model, "frozen", told("freeze", Model.frozen))
    monkeypatch.setattr(engine, "updated", told("select", updated))
    checks.learn(learner, stream[1:2])
    assert [one.phase.name for one in ran] == ["train"]
    assert order == ["align", "select", "freeze"]


@pytest.mark.parametrize("norm", [1, 2])
def test_a_bias_is_not_scaled(norm: int, small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="wa", net__head="linear", method__norm=norm)
    head = at.model.head
    assert isinstance(head, LinearHead)
    assert head.bias is not None
    with torch.no_grad():
        head.weight[2:] *= 5
    before = weights(head)
    scores = at.learner.method.settle(at.step)
    gamma = gamma_by_hand(wide(before["weight"]), 2, norm)
    assert gamma < 1
    assert scores == {"gamma": pytest.approx(gamma, rel=1e-5)}
    assert torch.equal(head.bias, before["bias"])
    assert torch.equal(head.weight[:2], before["weight"][:2])
    np.testing.assert_allclose(wide(head.weight[2:]), gamma * wide(before["weight"][2:]), rtol=1e-5)


def test_the_head_has_no_bias_by_default(small_data: Dataset) -> None:
    head = scene(small_data, 2, method__name="wa").learner.model.head
    assert isinstance(head, LinearHead)
    assert head.bias is None


@pytest.mark.parametrize("kind", ["linear", "linear-nobias"])
def test_reinit(kind: str, small_data: Dataset) -> None:
    """Every row is drawn again within ±1/sqrt(d) before task 2, and the teacher keeps the old ones."""
    at = scene(small_data, 2, method__name="wa", method__reinit=True, net__head=kind)
    head = at.model.head
    assert isinstance(head, LinearHead)
    before = weights(grown(at.old, 2).head)
    assert (head.weight != before["weight"]).all()
    assert head.weight.abs().max() <= 32**-0.5
    assert head.weight.min() < 0
    assert abs(head.weight.mean().item()) < 4 * 32**-0.5 / (3 * 4 * 32) ** 0.5
    if head.bias is not None:
        assert (head.bias != before["bias"]).all()
    batch = at.batch()
    np.testing.assert_allclose(wide(at.step.teacher(batch.images).logits), at.teacher(batch), atol=1e-4)


@pytest.mark.parametrize("reinit", [True, False])
def test_reinit_is_done_before_the_first_update(
    reinit: bool, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checks.small_config(method__name="wa", labels="given", method__reinit=reinit)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    ran = watch(monkeypatch)
    checks.learn(learner, stream[:2])
    assert torch.equal(ran[1].before["head.weight"][:2], ran[0].after["head.weight"]) != reinit


def test_old_rows_stay_without_reinit(small_data: Dataset) -> None:
    """In task 1, ``reinit`` changes nothing."""
    for changes, task in (({}, 2), ({"method__reinit": True}, 1)):
        at = scene(small_data, task, method__name="wa", **changes)
        assert checks.same(weights(at.model.head), weights(grown(at.old, 2).head))


def test_gamma_is_in_the_scores_from_task_two_on(
    small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = watch(monkeypatch, inflated)
    result = run(checks.small_config(method__name="wa", labels="given"), small_data, tmp_path)
    assert result.steps[0].method == {}
    for step, one, known in zip(result.steps[1:], ran[1:], (2, 4), strict=True):
        expected = gamma_by_hand(wide(one.after["head.weight"]), known, 2)
        assert step.method == {"gamma": pytest.approx(expected, rel=1e-5)}
        assert 0 < expected < 1


def test_a_resumed_step_is_aligned_once(small_data: Dataset) -> None:
    """A restored learner starts the next step with the same teacher."""
    config = checks.small_config(method__name="wa", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:2])
    other = checks.make_learner(config, small_data)
    other.restore(learner.state())
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    one, two = (begin(each, stream[2]).teacher(images).logits for each in (learner, other))
    assert torch.equal(one, two)


def test_clipping_needs_features_that_are_not_negative() -> None:
    config = checks.small_config(method__name="wa", net__final_relu=False)
    with pytest.raises(WhorlError, match="needs non-negative features"):
        method_class("wa")(**config.method.options).check(config, (), True)
    config = checks.small_config(method__name="wa", net__final_relu=False, method__clip=False)
    method_class("wa")(**config.method.options).check(config, (), True)
