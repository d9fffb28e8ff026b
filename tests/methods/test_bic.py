"""BiC: images that are never trained on, and two scalars fitted on them and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import checks
from references import Array, eq2, eq3, wide
from scenes import (
    Ran,
    Scene,
    features_of,
    heard,
    names_of,
    read_all,
    scene,
    seen_by,
    stop_before,
    stopped,
    stored_bytes,
    watch,
)
from whorl.data.source import Dataset, Subset
from whorl.data.stream import Stream
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.memory.holdout import is_held_out
from whorl.methods import method_class
from whorl.methods.base import Batch, Phase
from whorl.nets.heads import CorrectedHead
from whorl.nets.model import Model
from whorl.types import Delivery, IntArray, granted

POLICIES: list[dict[str, Any]] = [
    {},
    {"memory__quota": 9, "method__every": 4},
    {"memory__policy": "total", "memory__quota": 30},
    {"memory__policy": "total", "memory__quota": 33, "method__every": 3},
    {"labels": "pseudo"},
    {"labels": "pseudo", "memory__policy": "total", "memory__quota": 30},
]


def corrected_head(model: Model) -> CorrectedHead:
    head = model.head
    assert isinstance(head, CorrectedHead)
    return head


def held_names(learner: Learner) -> list[bytes]:
    """The exemplars that are held out now: those at every k-th rank."""
    return names_of(
        learner.memory.images[torch.from_numpy(is_held_out(learner.memory.ranks, learner.method.hold_out_every))]
    )


@pytest.mark.parametrize("changes", POLICIES, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_held_out_images_are_never_trained_on(
    changes: dict[str, Any], small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples used for validation are in no training batch of any step, also after the memory was cut.

    And each class, old or new, has as many of them.
    """
    plain = checks.without_views(small_data)
    config = checks.small_config(method__name="bic", **{"labels": "given", **changes})
    learner, stream = checks.make_learner(config, plain), checks.streams(config, plain)
    every = learner.method.hold_out_every
    trained: set[bytes] = set()
    validated: list[set[bytes]] = []
    counts: list[list[int]] = []

    def listen(phase: Phase, model: Model) -> Phase:
        def tell(batch: Batch) -> None:
            names = set(names_of(stored_bytes(batch, learner.inputs)))
            (trained if phase.name == "train" else validated[-1]).update(names)

        if phase.name == "correct":
            validated.append(set())
            counts.append(np.bincount(phase.data.labels, minlength=model.classes).tolist())
            assert phase.data.images.size == 8
        return heard(phase, tell)

    ran = watch(monkeypatch, listen)
    kept: list[list[bytes]] = []
    learned: list[IntArray] = []
    for index in range(1, len(stream) + 1):
        checks.learn(learner, stream[index - 1 : index])
        kept.append(held_names(learner))
        assert learner.labels is not None
        learned.append(learner.labels.ids)
        quota = learner.memory.per_class(learner.known)
        sizes = np.bincount(learner.memory.labels).tolist()
        assert sizes == [quota] * (2 * index)
        assert len(kept[-1]) == 2 * index * (quota // every)
    assert [one.phase.name for one in ran] == ["train", "train", "correct", "train", "correct"]
    for names in [*validated, *map(set, kept)]:
        assert names
        assert not names & trained
    # In steps 2 and 3, each class has as many as an old class had in the memory before. Only a cluster with fewer
    # images has fewer.
    for known, count, labels in zip((2, 4), counts, learned[1:], strict=True):
        quota = learner.memory.per_class(known)
        members = np.bincount(labels)[known:]
        assert count == [quota // every] * known + (np.minimum(members, quota) // every).tolist()
    for names, held, count in zip(validated, kept, counts, strict=False):
        assert set(held) <= names  # held-out exemplars of old classes come from the memory
        assert len(names) == sum(count)
    others = names_of(learner.memory.images)
    assert set(others) - set(kept[-1]) <= trained
    assert len(set(names_of(read_all(small_data.train)))) == 120  # no two images are the same


def test_held_out_before_training(small_data: Dataset) -> None:
    """They are not among the step's training samples; the validation set has them with their labels."""
    at = scene(small_data, 2, method__name="bic", memory__quota=8)
    step = at.step
    assert np.bincount(step.new.labels).tolist() == [0, 0, 16, 16]
    assert np.bincount(step.exemplars.labels).tolist() == [4, 4]
    assert np.bincount(step.validation.labels).tolist() == [4, 4, 4, 4]
    parts = [name for part in (step.new, step.exemplars, step.validation) for name in names_of(read_all(part.images))]
    assert len(set(parts)) == len(parts)
    assert sorted(parts) == sorted([*names_of(read_all(at.stream[1].images)), *names_of(step.memory.images)])


@pytest.fixture(scope="module")
def corrected(small_data: Dataset) -> tuple[Learner, list[Ran]]:
    """A learner after two tasks, with a correction that was trained until it converged, and the phases of task 2."""
    changes = {"memory__quota": 8, "train__epochs": 4, "method__correction_epochs": 300}
    config = checks.small_config(method__name="bic", labels="given", **changes)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    with pytest.MonkeyPatch.context() as patch:
        ran = watch(patch)
        checks.learn(learner, stream[:2])
    return learner, ran[1:]


def test_only_the_two_scalars_change(corrected: tuple[Learner, list[Ran]]) -> None:
    """All weights and all statistics of batch norm keep their bits."""
    _, (train, correct) = corrected
    assert checks.same(train.after, correct.before)
    moved = {name for name, value in correct.after.items() if not torch.equal(value, correct.before[name])}
    assert moved == {"head.beta", "head.gamma"}
    assert any("running_mean" in name for name in correct.before)
    for tensors in (train.before, train.after):
        assert (tensors["head.beta"].item(), tensors["head.gamma"].item()) == (1, 0)


def raw_logits(model: Model, images: torch.Tensor, learner: Learner) -> Array:
    """W f + b, without any correction."""
    head = corrected_head(model)
    assert head.bias is not None
    return np.asarray(features_of(model, images, learner.inputs) @ wide(head.weight).T + wide(head.bias))


def test_the_scalars_approach_the_optimum(corrected: tuple[Learner, list[Ran]]) -> None:
    """The minimum of mean cross-entropy plus 0.1 · gamma² / 2, a convex function of the two."""
    learner, (_, correct) = corrected
    data = correct.phase.data
    logits, labels = raw_logits(learner.model, read_all(data.images), learner), data.labels

    def cost(scalars: Array) -> float:
        changed = logits.copy()
        changed[:, 2:] = scalars[0] * changed[:, 2:] + scalars[1]
        return float(eq2(changed, labels) + 0.1 * scalars[1] ** 2 / 2)

    best = minimize(cost, np.array([1.0, 0.0]), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).x
    head = corrected_head(learner.model)
    found = np.array([head.beta.item(), head.gamma.item()])
    np.testing.assert_allclose(found, best, atol=0.03)
    assert np.abs(found - [1, 0]).max() > 0.1
    assert cost(found) == pytest.approx(cost(best), abs=1e-4)
    assert learner.settled == {"beta": pytest.approx(found[0]), "gamma": pytest.approx(found[1])}


def test_evaluation_is_corrected(corrected: tuple[Learner, list[Ran]], small_data: Dataset) -> None:
    """Only the logits of the newest classes are corrected."""
    learner, _ = corrected
    head = corrected_head(learner.model)
    expected = raw_logits(learner.model, read_all(small_data.test), learner)
    expected[:, 2:] = head.beta.item() * expected[:, 2:] + head.gamma.item()
    scores = learner.classifier.scores(small_data.test)["fc"]
    np.testing.assert_allclose(scores, expected, atol=1e-3)


def set_correction(model: Model, beta: float, gamma: float) -> None:
    head = corrected_head(model)
    with torch.no_grad():
        head.beta.fill_(beta)
        head.gamma.fill_(gamma)


@pytest.fixture
def before_three(small_data: Dataset) -> Scene:
    """Before task 3, with a strong correction from task 2: 0.3 · logit + 2."""
    config = checks.small_config(method__name="bic", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:2])
    set_correction(learner.model, 0.3, 2.0)
    other = checks.make_learner(config, small_data)  # a restored learner uses these weights everywhere
    other.restore(learner.state())
    return stop_before(other, stream, 3)


def test_the_next_teacher_is_corrected_and_the_student_is_not(before_three: Scene) -> None:
    at = before_three
    batch = at.batch()
    with torch.no_grad():
        features = wide(at.old(batch.images).features)
    head = corrected_head(at.old)
    assert head.bias is not None
    plain = features @ wide(head.weight).T + wide(head.bias)
    taught = plain.copy()
    taught[:, 2:] = 0.3 * plain[:, 2:] + 2
    np.testing.assert_allclose(wide(at.step.teacher(batch.images).logits), taught, atol=1e-4)
    model = at.model.eval()
    with torch.no_grad():
        seen = wide(model(batch.images).logits)
    np.testing.assert_allclose(seen[:, :4], plain, atol=1e-4)
    head = corrected_head(model)
    assert (head.beta.item(), head.gamma.item()) == (1, 0)
    assert head.newest.tolist() == [False] * 4 + [True] * 2
    expected = eq3(wide(batch.logits), batch.labels.numpy(), taught, 2.0)
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_the_student_trains_without_correction(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two scalars get no gradient while the network is trained."""
    config = checks.small_config(method__name="bic", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    learns: dict[str, set[str]] = {}

    def tell(phase: Phase, model: Model) -> None:
        learns[phase.name] = {name for name, p in model.named_parameters() if p.requires_grad}

    watch(monkeypatch, lambda phase, model: heard(phase, lambda _: tell(phase, model)))
    checks.learn(learner, stream[:2])
    assert learns["correct"] == {"head.beta", "head.gamma"}
    every = {name for name, _ in learner.model.named_parameters()}
    assert learns["train"] == every - learns["correct"]


@pytest.mark.parametrize("penalty", [0.1, 2.0])
def test_the_loss_of_the_correction(penalty: float, small_data: Dataset) -> None:
    """Cross-entropy of the corrected logits (the softmax is applied once), plus the penalty."""
    at = scene(small_data, 2, method__name="bic", method__penalty=penalty)
    _, phase = at.learner.method.plan(at.step)
    model = at.model
    set_correction(model, 0.7, 1.5)
    batch = seen_by(model, at.batch())
    expected = eq2(wide(batch.logits), batch.labels.numpy()) + penalty * 1.5**2 / 2
    assert phase.loss(batch).item() == pytest.approx(expected, rel=1e-5)


def test_how_the_correction_is_run(small_data: Dataset) -> None:
    """In eval mode, without augmentation, on all classes' held-out images, a tenth of the rate at 60/120/160/180."""
    at = scene(small_data, 2, method__name="bic", method__correction_epochs=200)
    _, phase = at.learner.method.plan(at.step)
    head = corrected_head(at.model)
    assert (phase.mode, phase.epochs, phase.inputs) == ("eval", 200, at.learner.inputs.plain())
    assert phase.trains is not None
    assert [id(p) for p in phase.trains] == [id(head.beta), id(head.gamma)]
    optim = phase.optim
    assert (optim.lr, optim.momentum, optim.weight_decay, optim.nesterov) == (0.1, 0.9, 0, False)
    assert (optim.schedule, optim.milestones, optim.gamma) == ("steps", (60, 120, 160, 180), 0.1)
    assert np.bincount(phase.data.labels).tolist() == [2, 2, 2, 2]


def test_task_one_is_not_corrected(small_data: Dataset) -> None:
    at = scene(small_data, 1, method__name="bic")
    assert [phase.name for phase in at.learner.method.plan(at.step)] == ["train"]
    assert np.bincount(at.step.new.labels).tolist() == [18, 18]  # it holds out samples like later tasks
    assert at.learner.method.settle(at.step) == {}


def test_clusters_too_small_to_hold_any_out(small_data: Dataset) -> None:
    """Nothing can be fitted, so the correction stays the identity."""
    at = scene(small_data, 2, method__name="bic", method__every=4)
    learner, delivery = at.learner, at.stream[1]
    few = np.array([0, 1, 20, 21])
    training = stopped(learner, Delivery(Subset(delivery.images, few), granted(delivery.labels)[few]))
    assert len(training.held) == 0
    step = training.step()
    assert np.bincount(step.validation.labels).tolist() == [1, 1]
    with pytest.warns(UserWarning, match="no images of old and new classes were held out for delivery 2"):
        assert [phase.name for phase in learner.method.plan(step)] == ["train"]
    assert learner.method.settle(step) == {}
    head = corrected_head(step.model)
    assert (head.beta.item(), head.gamma.item()) == (1, 0)


@pytest.mark.parametrize(
    ("quota", "policy", "sizes", "need"),
    [(9, "per-class", (), 10), (9, "per-class", (2, 2, 2), 10), (59, "total", (2, 2, 2), 60), (9, "total", (), 10)],
)
def test_too_small_a_quota(quota: int, policy: str, sizes: tuple[int, ...], need: int) -> None:
    changes = {"method__name": "bic", "memory__policy": policy, "method__every": 10}
    config = checks.small_config(memory__quota=quota, **changes)
    method = method_class("bic")(**config.method.options)
    with pytest.raises(WhorlError, match=f"holds out one in 10 .*`memory.quota={quota}` .* raise it to {need} or"):
        method.check(config, sizes, False)
    enough = checks.small_config(memory__quota=need, **changes)
    method.check(enough, sizes, False)


def test_a_task_1_too_small_to_hold_any_out(small_data: Dataset) -> None:
    config = checks.small_config(method__name="bic", method__every=21, memory__quota=21)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    with pytest.raises(WhorlError, match="holds out one in 21 images of a class, but every class has fewer"):
        checks.learn(learner, stream[:1])


@pytest.mark.parametrize("labels", ["pseudo", "given"])
def test_recluster_needs_given_labels(labels: str) -> None:
    """Images are held out by pseudo label, but ``recluster`` stores exemplars under the ids of other clusters."""
    config = checks.small_config(method__name="bic", labels=labels, memory__reading="recluster")
    method = method_class("bic")(**config.method.options)
    if labels == "given":
        method.check(config, (), labels == "given")
    else:
        with pytest.raises(WhorlError, match="the reading recluster stores other ids"):
            method.check(config, (), labels == "given")


def test_exemplars_that_are_delivered_again_keep_their_role(
    small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deliver all samples of task 1 again: those that were held out are not trained on, the others not held out."""
    plain = checks.without_views(small_data)
    config = checks.small_config(method__name="bic", labels="given", memory__quota=8)
    learner, stream = checks.make_learner(config, plain), checks.streams(config, plain)
    trained: set[bytes] = set()

    def listen(phase: Phase, model: Model) -> Phase:
        def tell(batch: Batch) -> None:
            trained.update(names_of(stored_bytes(batch, learner.inputs)))

        return heard(phase, tell) if phase.name == "train" else phase

    watch(monkeypatch, listen)
    checks.learn(learner, stream[:2])
    held = set(held_names(learner))
    others = set(names_of(learner.memory.images)) - held
    again = replace(stream[0], new=0)
    validation = stopped(learner, again).step().validation
    checks.learn(learner, Stream([again]))
    assert held
    assert not held & trained
    assert not set(names_of(read_all(validation.images))) & others
    assert held <= set(held_names(learner))
    assert len(set(names_of(learner.memory.images))) == len(learner.memory)
