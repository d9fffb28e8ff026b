"""A learner's step: what it leaves, what an interrupt leaves, and how often features are extracted."""

from __future__ import annotations

import copy
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

import checks
from whorl import engine, training
from whorl.config import LearnerConfig
from whorl.data import DataOptions, load
from whorl.data.source import Dataset, Subset
from whorl.data.stream import Stream
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.fit import Epoch, fit
from whorl.labels.labeler import Labeler
from whorl.methods.ours import Ours
from whorl.nets.model import weights
from whorl.nets.resnet import ResNet
from whorl.reporter import Silent
from whorl.runtime import Runtime
from whorl.types import HIDDEN, Delivery


def part(data: Dataset, classes: dict[int, tuple[int, int]], hidden: bool = False, new: int | None = None) -> Delivery:
    """A delivery of the given range of samples of each class."""
    rows = np.concatenate([np.flatnonzero(data.train_labels == c)[slice(*span)] for c, span in classes.items()])
    return Delivery(Subset(data.train, rows), HIDDEN if hidden else data.train_labels[rows], new)


def teach(learner: Learner, *deliveries: Delivery) -> None:
    checks.learn(learner, Stream(deliveries))


@pytest.fixture
def learner(small_data: Dataset) -> Learner:
    """Has learned classes 0 and 1."""
    made = checks.make_learner(checks.small_config(), small_data)
    teach(made, part(small_data, {0: (0, 14), 1: (0, 14)}))
    return made


def facts(learner: Learner) -> dict[str, Any]:
    """Everything a learner shows."""
    return {
        "tensors": {**weights(learner.model), **weights(learner.frozen), **learner.memory.state()},
        "objects": (learner.model, learner.frozen, learner.memory, learner.means, learner.labels, learner.past),
        "rest": (learner.sizes, learner.names, learner.settled, learner.known),
    }


def require_unchanged(learner: Learner, before: dict[str, Any]) -> None:
    after = facts(learner)
    assert checks.same(after["tensors"], before["tensors"])
    assert all(one is two for one, two in zip(after["objects"], before["objects"], strict=True))
    assert after["rest"] == before["rest"]


class Interrupted(Silent):
    """Interrupts at the given batch, as Ctrl+C does."""

    def __init__(self, batch: int) -> None:
        self.left = batch

    def tick(self, images: int, loss: Tensor) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_an_interrupt_in_training_leaves_the_learner_unchanged(
    batch: int, learner: Learner, small_data: Dataset
) -> None:
    before, other = facts(learner), copy.deepcopy(learner)
    delivery = part(small_data, {2: (0, 14), 3: (0, 14)}, hidden=True, new=2)
    with pytest.raises(KeyboardInterrupt):
        list(learner.learn(delivery, Interrupted(batch)))
    require_unchanged(learner, before)
    for each in (learner, other):
        teach(each, delivery)
    assert checks.same(weights(learner.model), weights(other.model))


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Ours, "prepare"), (Ours, "settle"), (engine, "updated"), (engine, "exemplar_means"), (Labeler, "label")],
)
def test_an_interrupt_anywhere_else_does_so_too(
    owner: Any, name: str, learner: Learner, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before training, when the method settles, and while exemplars and class means are computed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = facts(learner)
    delivery = part(small_data, {2: (0, 14), 3: (0, 14)}, hidden=True, new=2)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(learner.learn(delivery, Silent()))
    require_unchanged(learner, before)


def test_a_delivery_that_does_not_fit_leaves_the_learner_unchanged(learner: Learner, small_data: Dataset) -> None:
    before = facts(learner)
    for delivery, line in (
        (part(small_data, {3: (0, 4)}), "new classes must be numbered 2, 3, … without gaps; found 3"),
        (part(small_data, {2: (0, 4)}, new=2), r"the labels hold 1 new class\(es\), but 2 were announced"),
        (part(small_data, {2: (0, 4)}, hidden=True), "state how many new classes to look for with `new`"),
        (part(small_data, {2: (0, 4)}, hidden=True, new=9), "cannot make 9 clusters of 4 samples"),
    ):
        with pytest.raises(WhorlError, match=line):
            teach(learner, delivery)
        require_unchanged(learner, before)


def test_the_initial_delivery_needs_labels(small_data: Dataset) -> None:
    fresh = checks.make_learner(checks.small_config(), small_data)
    with pytest.raises(WhorlError, match="the initial delivery needs labels"):
        teach(fresh, part(small_data, {0: (0, 14)}, hidden=True, new=1))


@pytest.mark.parametrize("name", ["kmeans", "gmm", "spectral", "agglomerative", "sinkhorn"])
def test_fewer_images_than_clusters(name: str) -> None:
    data = load("synthetic", None, DataOptions(resize=8, per_class=1, classes=6))
    made = checks.make_learner(checks.small_config(train__batch=2, cluster__name=name), data)
    teach(made, part(data, {0: (0, 1), 1: (0, 1)}))
    with pytest.raises(WhorlError, match="cannot make 9 clusters of 2 samples"):
        teach(made, part(data, {2: (0, 1), 3: (0, 1)}, hidden=True, new=9))


def test_names(learner: Learner, small_data: Dataset) -> None:
    """New classes are called by their id unless they have names."""
    assert learner.names == (0, 1)
    for _ in learner.learn(part(small_data, {2: (0, 14), 3: (0, 14)}), Silent(), names=("cat", "dog")):
        pass
    assert learner.names == learner.classifier.names == (0, 1, "cat", "dog")


def test_known_classes_among_new_ones(learner: Learner, small_data: Dataset) -> None:
    """They get no second id, their exemplars are selected from all samples, and sizes count new classes only."""
    before = learner.memory
    teach(learner, part(small_data, {2: (0, 14), 0: (14, 20), 3: (0, 14)}))
    assert learner.sizes == (2, 2)
    assert learner.known == 4
    assert learner.labels is not None
    assert np.bincount(learner.labels.ids).tolist() == [6, 0, 14, 14]
    after = learner.memory
    assert np.bincount(after.labels).tolist() == [4] * 4
    assert not torch.equal(after.images[:4], before.images[:4])
    assert 2 in after.tasks[:4]
    assert torch.equal(after.images[4:8], before.images[4:])
    assert learner.means is not None
    assert np.isfinite(learner.means).all()


def test_a_delivery_without_new_classes(learner: Learner, small_data: Dataset) -> None:
    before = weights(learner.model)
    teach(learner, part(small_data, {0: (14, 20), 1: (14, 20)}))
    assert (learner.sizes, learner.known) == ((2, 0), 2)
    assert not torch.equal(weights(learner.model)["head.weight"], before["head.weight"])
    assert set(learner.memory.tasks.tolist()) == {1, 2}


def test_the_frozen_model_gives_the_features_of_the_unfrozen_one(learner: Learner, small_data: Dataset) -> None:
    images = small_data.test.read(np.arange(8))
    with torch.no_grad():
        expected = copy.deepcopy(learner.model).eval()(learner.inputs.fixed(images)).features
    found = learner.classifier.features(small_data.test)[:8]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in learner.frozen.modules())


@pytest.mark.parametrize(
    ("changes", "counts"),
    # 28 new samples and 8 exemplars before, 16 after. Labels: 28 by the old model, shared with imprinting. After
    # training: 28 new samples and 8 old exemplars for Algorithm 2, shared with the class means; 16 mirror images.
    [
        ({}, {"labels": 28, "end": 28 + 8}),
        ({"method__name": "lucir"}, {"labels": 28, "end": 28 + 8 + 16}),
        ({"method__name": "icarl"}, {"labels": 28, "end": 28 + 8 + 16}),
        ({"method__name": "eeil"}, {"labels": 28, "balanced set": 28, "end": 28 + 8}),
        ({"method__name": "finetune"}, {"labels": 28}),
        ({"pseudo__features": "pca"}, {"end": 28 + 8}),
        ({"pseudo__features": "first"}, {"labels": 28, "end": 28 + 8}),
        ({"pseudo__refresh": 1}, {"labels": 28, "refresh": 28, "end": 28 + 8}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) or "ours",
)
def test_features_are_extracted_once(changes: dict[str, Any], counts: dict[str, int], small_data: Dataset) -> None:
    learner = checks.make_learner(checks.small_config(**changes), small_data)
    teach(learner, part(small_data, {0: (0, 14), 1: (0, 14)}))
    passes: list[tuple[int, int]] = []

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if isinstance(module, ResNet) and torch.is_inference_mode_enabled():
            assert not module.training
            passes.append((hash(tuple(float(p.sum()) for p in module.parameters())), len(args[0])))

    hook = register_module_forward_pre_hook(note)
    try:
        teach(learner, part(small_data, {2: (0, 14), 3: (0, 14)}, hidden=True, new=2))
    finally:
        hook.remove()
    by_state: dict[int, int] = {}
    for state, samples in passes:
        by_state[state] = by_state.get(state, 0) + samples
    assert list(by_state.values()) == list(counts.values())


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_refresh_does_not_change_the_epoch_it_follows(
    optimiser: str, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``reset``, the position has no optimiser state of new rows. The epoch that ``fit`` yielded keeps its own."""
    config = checks.small_config(
        pseudo__refresh=1, pseudo__ids="reset", train__epochs=3, optim__name=optimiser, optim__lr=0.01
    )
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    epochs: list[tuple[Epoch, dict[str, Tensor]]] = []

    def recording(*args: Any) -> Generator[Epoch, None, None]:
        for epoch in fit(*args):
            epochs.append((epoch, {name: value.clone() for name, value in epoch.optimiser.items()}))
            yield epoch

    monkeypatch.setattr(training, "fit", recording)
    halts = list(learner.learn(stream[1], Silent()))
    assert len(halts) == len(epochs) == 3
    for number, (halt, (epoch, as_yielded)) in enumerate(zip(halts, epochs, strict=True)):
        assert checks.same(epoch.optimiser, as_yielded)
        for name, value in halt.optimiser.items():
            reset = number < 2 and name.startswith("head.") and value.ndim > 0
            assert torch.equal(value[:2] if reset else value, as_yielded[name][:2] if reset else as_yielded[name])
            assert not reset or (not value[2:].any() and bool(as_yielded[name][2:].any()))


def test_a_learner_needs_no_stream(small_data: Dataset) -> None:
    """Any deliveries in any order, numbered as they come; the config says nothing about data."""
    plain = checks.small_config().model_dump(exclude={"data", "stream", "labels", "label_acc"})
    config = LearnerConfig.model_validate(plain)
    made = Learner(config, small_data.inputs, Runtime())
    teach(
        made,
        part(small_data, {0: (0, 14), 1: (0, 14), 2: (0, 14)}),
        part(small_data, {0: (14, 20)}),
        part(small_data, {3: (0, 14), 4: (0, 14)}, hidden=True, new=2),
        part(small_data, {5: (0, 14), 1: (14, 20)}),
    )
    assert made.sizes == (3, 0, 2, 1)
    assert made.classifier.predict(small_data.test).max() < 6
    np.testing.assert_allclose(made.classifier.probabilities(small_data.test).sum(axis=1), 1, rtol=1e-5)


def test_an_injected_backbone_is_used_as_it_is(small_data: Dataset) -> None:
    """Its weights are neither drawn again nor shared with the learner, and its input preparation is the learner's."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dim, self.layer = 3, nn.Linear(192, 3)
            self.inputs = replace(small_data.inputs, mean=(0.1, 0.2, 0.3), view="none")

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layer(x.flatten(1))
            return out

    own = Own()
    before = weights(own)
    config = checks.small_config()
    made = Learner(config, small_data.inputs, Runtime(), own)
    assert made.inputs == own.inputs
    assert checks.same(weights(made.model.backbone), before)
    teach(made, part(small_data, {0: (0, 14), 1: (0, 14)}))
    assert checks.same(weights(own), before)
    assert not checks.same(weights(made.model.backbone), before)
    other = Learner(config, small_data.inputs, Runtime(), own)
    other.restore(made.state())
    assert checks.same(weights(other.model), weights(made.model))


def test_a_state_without_past_samples_does_not_suit_a_method_that_needs_them(small_data: Dataset) -> None:
    config = checks.small_config(method__name="joint")
    learner, fresh = (checks.make_learner(config, small_data) for _ in range(2))
    checks.learn(learner, checks.streams(config, small_data)[:2])
    with pytest.raises(ValueError, match="joint needs all samples learned so far"):
        fresh.restore(replace(learner.state(), past=()))
    fresh.restore(learner.state())
    assert [len(samples) for samples in fresh.past] == [40, 40]
