"""Refined features, against a training step by hand, and whole runs."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import checks
from whorl.data.inputs import Inputs, scaled
from whorl.data.source import Dataset, Samples, in_memory
from whorl.engine import REFINING, Learner
from whorl.errors import WhorlError
from whorl.experiment import check, run
from whorl.fit import Purpose
from whorl.nets.contrast import Contrast, projector
from whorl.nets.heads import LinearHead
from whorl.nets.rotations import Rotations, rotation_head
from whorl.recipes import resolve, resolve_learner
from whorl.refine import OPTIM, UNLABELLED, Refinement, _batches
from whorl.reporter import Silent
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.schedule import learning_rate
from whorl.seeds import generator
from whorl.tree import override
from whorl.types import Delivery


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_batches_have_every_delivered_sample_once_and_some_exemplars() -> None:
    found = _batches(300, 7)(draws())
    assert [len(batch) for batch in found] == [128 + 7, 128 + 7, 44 + 7]
    assert sorted(i for batch in found for i in batch if i < 300) == list(range(300))
    exemplars = [i for batch in found for i in batch if i >= 300]
    assert sorted(exemplars) == sorted([*range(300, 307)] * 3)
    more = _batches(300, 200)(draws())
    chosen = [set(batch[batch >= 300].tolist()) for batch in more]
    assert [len(each) for each in chosen] == [32, 32, 32]  # none of them twice
    assert len(set.union(*chosen)) > 60


class Averages(nn.Module):
    """A network that can be computed by hand: a linear layer on the mean colour of the halves of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.dim = 4
        self.linear = nn.Linear(12, 4, bias=False)
        nn.init.normal_(self.linear.weight, generator=draws(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = x.shape[-1] // 2
        parts = [x[:, :, :side], x[:, :, side:], x[..., :side], x[..., side:]]
        found: torch.Tensor = self.linear(torch.cat([part.mean((2, 3)) for part in parts], 1))
        return found


def test_one_update_by_hand() -> None:
    """One epoch of one batch: the three losses summed, and Nesterov's first step with weight decay, written out."""
    inputs, purpose = Inputs.images(32), Purpose(3, 2, REFINING)
    images = torch.randint(0, 256, (26, 32, 32, 3), dtype=torch.uint8, generator=draws(1))
    delivered = Samples(in_memory(images[:20]), np.full(20, UNLABELLED))
    exemplars = Samples(in_memory(images[20:]), np.array([0, 0, 1, 1, 2, 2]))
    start = Averages()
    refine = Refinement(1, (0.5, 1.0), exemplars, inputs, Runtime(), purpose)
    found = refine(copy.deepcopy(start), delivered, Silent()).state_dict()["linear.weight"]

    index = _batches(20, 6)(purpose.generator("shuffle", 0))[0]
    x = scaled(inputs.train(images[torch.from_numpy(index)], purpose.generator("augment", 0)), 1.0)
    labels = np.concatenate([delivered.labels, exemplars.labels])[index]
    head, turns, project = LinearHead(4), rotation_head(4, 1, 3), projector(4, 3)
    head.grow(3, generator(3, "init", "head", 0))
    aside = purpose.generator("aside", 0)
    turned, by = Rotations(turns, by_class=False).views(x, torch.from_numpy(labels), aside)
    second, _ = Contrast(project, inputs).views(x, torch.from_numpy(labels), aside)
    features = start(torch.cat([x, turned, second]))
    own, rotated, other = features.split([26, 13, 26])
    taught = torch.from_numpy(labels >= 0)
    expected_loss = F.cross_entropy(head(own[taught]), torch.from_numpy(labels)[taught])
    expected_loss = expected_loss + F.cross_entropy(turns(rotated), by)
    z = F.normalize(project(torch.cat([own, other])), dim=1)
    cosines = (z @ z.T / 0.2).masked_fill(torch.eye(52, dtype=torch.bool), -1e9)
    expected_loss = expected_loss + F.cross_entropy(cosines, (torch.arange(52) + 26) % 52)
    expected_loss.backward()  # type: ignore[no-untyped-call]
    weight = start.linear.weight.detach()
    assert start.linear.weight.grad is not None
    gradient = start.linear.weight.grad + 5e-4 * weight
    rate = learning_rate(OPTIM, 0, 1, 1)
    assert rate > 0
    torch.testing.assert_close(found, weight - rate * (gradient + 0.9 * gradient), rtol=1e-4, atol=1e-6)
    assert set(by.tolist()) <= {0, 1, 2}


def learned(data: Dataset, **changes: object) -> tuple[Learner, Delivery]:
    config = checks.small_config(**changes)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[:1])
    return learner, stream[1]


@pytest.mark.parametrize("features", ["current", "first"])
def test_labels_change_and_the_learner_does_not(features: str, small_data: Dataset) -> None:
    changes = {"pseudo__refine": 3, "pseudo__features": features}
    learner, delivery = learned(small_data, **changes)
    before = checks_of(learner)
    one, same = (learner.label(delivery, Silent()) for _ in range(2))
    assert np.array_equal(one.ids, same.ids)
    assert checks.same(before, checks_of(learner))
    plain = learner._refined(learner.sight(), Delivery(delivery.images, delivery.labels, 2), Silent())
    assert not np.allclose(plain.current(delivery.images), learner.sight().current(delivery.images))


def checks_of(learner: Learner) -> dict[str, torch.Tensor]:
    state = learner.state()
    return {**state.model, **{f"memory {name}": value for name, value in state.memory.items()}}


def test_exemplars_of_later_classes_are_not_used(small_data: Dataset) -> None:
    """Their labels are pseudo labels. Task 3 is labelled alike, whichever exemplars of task 2 are stored."""
    learner, delivery = learned(small_data, pseudo__refine=1)
    checks.learn(learner, checks.streams(checks.small_config(), small_data)[1:2])
    seen = list[Samples]()
    refine = Refinement.__call__

    def watched(self: Refinement, backbone: nn.Module, delivered: Samples, ticker: Silent) -> nn.Module:
        seen.append(self.exemplars)
        return refine(self, backbone, delivered, ticker)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Refinement, "__call__", watched)
        learner.label(delivery, Silent())
    assert set(seen[0].labels) == {0, 1}
    assert len(seen[0]) == 8
    assert len(learner.memory) == 16


def test_progress_is_reported(small_data: Dataset) -> None:
    class Counts(Silent):
        images = 0

        def tick(self, images: int, loss: torch.Tensor) -> None:
            self.images += images

    learner, delivery = learned(small_data, pseudo__refine=3)
    counts = Counts()
    learner.label(delivery, counts)
    n = len(delivery.images)
    exemplars = 8  # all of them in each of n / 128 batches
    assert counts.images == 3 * 2.5 * (n + exemplars * -(-n // 128))  # half of them turned, all in a second view
    plain, _ = learned(small_data)
    assert learner.passes(delivery) == plain.passes(delivery) + 3 * 2.5 * (n + 32 * -(-n // 128))


def test_a_run_that_is_stopped_in_a_refinement_resumes(small_data: Dataset, tmp_path: Path) -> None:
    class Stops(Silent):
        second = False

        def task(self, task: int, classes: int) -> None:
            self.second = task == 2

        def tick(self, images: int, loss: torch.Tensor) -> None:
            if self.second:
                raise InterruptedError

    config = checks.small_config(pseudo__refine=2)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path / "parts", reporter=Stops())
    assert len(Run(tmp_path / "parts" / whole.path.name, config).scores().steps) == 1
    run(config, small_data, tmp_path / "parts")
    assert checks.same(checks.stored(whole.path), checks.stored(tmp_path / "parts" / whole.path.name))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pseudo.features": "pca"}, "cannot be combined with `pseudo.features=pca`"),
        ({"memory.quota": 0, "method.name": "lwf"}, "needs exemplars"),
        ({"pseudo.features": "scratch"}, "refines a trained network"),
        ({"pseudo.refresh": 1}, "cannot be combined with `pseudo.refine`"),
    ],
)
def test_bad_combinations(asked: dict[str, object], message: str) -> None:
    tree = override(("data.name", "digits"), ("stream.step", 2), ("pseudo.refine", 2), *asked.items())
    with pytest.raises(WhorlError, match=message):
        check(resolve(tree))


def test_without_exemplars(small_data: Dataset) -> None:
    learner, delivery = learned(small_data, method__name="finetune", pseudo__refine=2)
    with pytest.raises(WhorlError, match=r"needs exemplars; set `memory.quota` to 1 or more, or `pseudo.refine=0`"):
        learner.label(delivery, Silent())


def test_a_refinement_that_diverges_is_one_line(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whorl.refine.OPTIM", OPTIM.model_copy(update={"lr": 1e20}))
    learner, delivery = learned(small_data, pseudo__refine=3)
    with pytest.raises(WhorlError, match=r"diverged; set `pseudo.refine=0`"):
        learner.label(delivery, Silent())


def test_a_single_image(small_data: Dataset) -> None:
    learner, delivery = learned(small_data, pseudo__refine=2)
    single = Delivery(in_memory(delivery.images.read(np.arange(1))), delivery.labels, 1)
    with pytest.raises(WhorlError, match="compares at least 2 images"):
        learner.label(single, Silent())


def test_vectors_cannot_be_refined() -> None:
    inputs = Inputs.vectors(6)
    with pytest.raises(WhorlError, match=r"`pseudo.refine` needs images, and these are vectors"):
        Learner(resolve_learner({"pseudo": {"refine": 1}}, inputs), inputs, Runtime())
