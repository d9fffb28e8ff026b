"""Networks that learn the initial delivery for the features of pseudo labels alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import checks
from whorl import Whorl
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import check, run, workload
from whorl.labels.extractors import EXTRACTORS
from whorl.methods import METHODS
from whorl.nets.backbone import build
from whorl.nets.contrast import Contrast, projector
from whorl.nets.heads import LinearHead
from whorl.nets.model import Model
from whorl.nets.rotations import Rotations, rotation_head
from whorl.networks import OPTIM, WITHOUT
from whorl.recipes import resolve, resolve_learner
from whorl.reporter import EpochRecord, Silent
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.schedule import learning_rate
from whorl.seeds import derive, generator
from whorl.tree import merge, override

TWO = {"pseudo__features": "networks", "pseudo__networks": 2, "pseudo__transform": "root"}


def learned(data: Dataset, tasks: int, **changes: object) -> Learner:
    config = checks.small_config(**changes)
    learner = checks.make_learner(config, data)
    checks.learn(learner, checks.streams(config, data)[:tasks])
    return learner


def test_training_by_hand(small_data: Dataset) -> None:
    """Every update written out with torch's own SGD: labels, rotations and contrast, summed."""
    learner = learned(small_data, 1, **TWO)
    config = checks.small_config()
    delivery = checks.streams(config, small_data)[0]
    images, labels = delivery.images.read(np.arange(len(delivery.images))), torch.from_numpy(delivery.labels)
    for number, found in enumerate(learner.state().networks, 1):
        seed = derive(0, "network", number)
        backbone = build("tiny", learner.inputs, True, seed)
        assert isinstance(backbone, nn.Module)
        head, turns, views = LinearHead(32), rotation_head(32, 2, seed), projector(32, seed)
        head.grow(2, generator(seed, "init", "head", 0))
        every = Runtime().place(nn.ModuleList([backbone, head, turns, views]))
        sgd = torch.optim.SGD(every.parameters(), 0.2, momentum=0.9, nesterov=True, weight_decay=5e-4)
        rotations, contrast = Rotations(turns), Contrast(views, learner.inputs)
        for epoch in range(2):
            order, augment, aside = (generator(seed, use, 1, 0, epoch) for use in ("shuffle", "augment", "aside"))
            parts = torch.split(torch.randperm(len(images), generator=order), 64)
            for step, part in enumerate(parts):
                x, y = learner.inputs.train(images[part], augment), labels[part]
                turned, by = rotations.views(x, y, aside)
                second, _ = contrast.views(x, y, aside)
                features = backbone(torch.cat([x, turned, second]))
                own, rotated, other = torch.split(features, [len(x), len(turned), len(x)])
                loss = F.cross_entropy(head(own), y) + F.cross_entropy(turns(rotated), by)
                z = F.normalize(views(torch.cat([own, other])), dim=1)
                cosines = (z @ z.T / 0.2).masked_fill(torch.eye(2 * len(x), dtype=torch.bool), -1e9)
                loss = loss + F.cross_entropy(cosines, (torch.arange(2 * len(x)) + len(x)) % (2 * len(x)))
                sgd.param_groups[0]["lr"] = learning_rate(OPTIM, epoch * len(parts) + step, len(parts), 2)
                sgd.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                sgd.step()
        for name, value in backbone.state_dict().items():
            torch.testing.assert_close(found[f"backbone.{name}"], value, rtol=1e-3, atol=1e-5)


def test_the_model_is_not_affected(small_data: Dataset) -> None:
    with_networks, without = learned(small_data, 1, **TWO), learned(small_data, 1)
    assert checks.same(with_networks.state().model, without.state().model)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_networks_and_labels_do_not_depend_on_the_method(method: str, small_data: Dataset) -> None:
    one, other = (learned(small_data, 2, **TWO, method__name=name, net__arch="tiny") for name in ("ours", method))
    pairs = zip(one.state().networks, other.state().networks, strict=True)
    assert all(checks.same(first, second) for first, second in pairs)
    assert one.labels is not None
    assert other.labels is not None
    assert np.array_equal(one.labels.ids, other.labels.ids)


def test_features_side_by_side(small_data: Dataset) -> None:
    """After two tasks: features of each network, averaged, rooted and scaled here by itself."""
    learner = learned(small_data, 2, **TWO)
    delivery = checks.streams(checks.small_config(), small_data)[2]
    seen = learner.inputs.fixed(delivery.images.read(np.arange(len(delivery.images))))
    expected = []
    for state in learner.state().networks:
        model: Model = learner._builder.model(state).eval()
        with torch.inference_mode():
            mean = (model.backbone(seen) + model.backbone(seen.flip(3))).numpy() / 2
        roots = np.sqrt(np.maximum(mean, 0))
        expected.append(roots / np.linalg.norm(roots, axis=1, keepdims=True))
    sight = learner.sight()
    found = learner.labeler.features(
        delivery.images, lambda images: EXTRACTORS["networks"](images, sight), learner.inputs
    )
    np.testing.assert_allclose(found, np.hstack(expected), atol=1e-4)


@pytest.mark.parametrize("epochs", range(1, 8))
def test_a_run_resumes_in_every_network(epochs: int, small_data: Dataset, tmp_path: Path) -> None:
    """Two networks and the model of two epochs each, then task 2: killed after any epoch, the bits are the same."""
    config = checks.small_config(**TWO, stream__tasks=2, train__rotations="initial")
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path / "parts", reporter=checks.KillAfter(epochs))
    position = read_tensors(tmp_path / "parts" / whole.path.name / "epoch.safetensors")[0]
    finished = {name.split(".")[1] for name in position if name.startswith("network.")}
    assert len(finished) == (min((epochs - 1) // 2, 2) if epochs < 7 else 0)
    run(config, small_data, tmp_path / "parts")
    assert checks.same(checks.stored(whole.path), checks.stored(tmp_path / "parts" / whole.path.name))
    assert not any("asides" in name for name in checks.stored(whole.path))


class Phases(Silent):
    """Remembers the phase of each epoch."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def epoch(self, record: EpochRecord) -> None:
        self.seen.append(record.phase)


def test_progress_names_the_network(small_data: Dataset, tmp_path: Path) -> None:
    phases = Phases()
    run(checks.small_config(**TWO, stream__tasks=1), small_data, tmp_path, reporter=phases)
    assert phases.seen == ["network 1", "network 1", "network 2", "network 2", "train", "train"]


def test_a_run_that_takes_over_task_1_takes_all_networks(small_data: Dataset, tmp_path: Path) -> None:
    config, other = checks.small_config(**TWO), checks.small_config(**TWO, pseudo__whiten=True, cluster__name="gmm")
    source = run(config, small_data, tmp_path / "source")
    whole = run(other, small_data, tmp_path / "whole")
    taken = run(other, small_data, tmp_path / "taken", task1=Run(source.path, config))
    assert checks.same(checks.stored(whole.path), checks.stored(taken.path))
    one = checks.small_config(**{**TWO, "pseudo__networks": 1})
    with pytest.raises(WhorlError, match="trained with other settings"):
        run(one, small_data, tmp_path / "one", task1=Run(source.path, config))


def test_a_saved_model_keeps_them(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (36, 16, 16, 3), dtype=np.uint8)
    options = {"pseudo.networks": 2, "pseudo.features": "networks", "train.first_epochs": 1, "train.epochs": 1}
    model = Whorl(net="tiny", options=options, verbose=0).learn(images[:18], np.arange(18) % 3)
    model.save(tmp_path)
    again = Whorl.load(tmp_path, verbose=0)
    stored: Sequence[dict[str, torch.Tensor]] = again._learner.state().networks
    assert len(stored) == 2
    assert all(checks.same(*pair) for pair in zip(model._learner.state().networks, stored, strict=True))
    for each in (model, again):
        each.learn(images[18:], new=2)
    assert np.array_equal(model.labels_, again.labels_)


def test_time_left_counts_them(small_data: Dataset) -> None:
    plain, several = checks.small_config(), checks.small_config(**TWO)
    without, found = workload(plain, small_data), workload(several, small_data)
    assert found == (6 * without[0], *without[1:])  # two networks, each on 2.5 views of every image
    learner = checks.make_learner(several, small_data)
    assert learner.passes(checks.streams(several, small_data)[0]) == found[0]


@pytest.mark.parametrize(("arch", "expected"), [("auto", "resnet14-wide"), ("tiny", "tiny"), ("resnet32", "resnet32")])
def test_architecture(arch: str, expected: str) -> None:
    """``auto`` is a wide network in place of ResNet-32, else that of the model."""
    inputs = Inputs.images(16)
    config = resolve_learner({"net": {"arch": "resnet32"}, "pseudo": {"networks": 1, "arch": arch}}, inputs)
    learner = Learner(config, inputs, Runtime())
    made = build(expected, inputs, True, 0)
    assert isinstance(made, nn.Module)
    network = learner._networks._new(2).backbone
    assert [p.shape for p in network.parameters()] == [p.shape for p in made.parameters()]


def test_a_file_without_them(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(**TWO)
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path, reporter=checks.StopsInTask2())
    path = Run.at(tmp_path, config).path / "task-01.safetensors"
    tensors, about = read_tensors(path)
    kept = {name: value for name, value in tensors.items() if not name.startswith("network.1")}
    write_tensors(path, kept, about)
    with pytest.raises(WhorlError, match=r"task-01.safetensors: it has 1 network for pseudo labels, not 2"):
        run(config, small_data, tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pseudo.features": "current"}, r"`pseudo.features=current` does not use; set `pseudo.features=networks`"),
        ({"pseudo.features": "pca"}, r"set `pseudo.features=networks`, or `pseudo.networks=0`"),
        ({"pseudo.networks": 0}, r"needs networks; set `pseudo.networks` to 1 or more, or other features"),
        ({"pseudo.networks": -1}, r"`pseudo.networks` must be at least 0"),
        ({"pseudo.networks": 101}, r"`pseudo.networks` must be at most 100"),
        ({"pseudo.arch": "resnet33"}, r"unknown network 'resnet33'"),
        ({"pseudo.refine": 2}, r"cannot be combined with `pseudo.features=networks`"),
    ],
)
def test_bad_input(asked: dict[str, object], message: str) -> None:
    wanted = {"data.name": "digits", "stream.step": 2, "pseudo.networks": 2, "pseudo.features": "networks", **asked}
    with pytest.raises(WhorlError, match=message):
        check(resolve(override(*wanted.items())))


def test_vectors_have_no_views() -> None:
    inputs = Inputs.vectors(6)
    config = resolve_learner({"pseudo": {"networks": 1, "features": "networks"}}, inputs)
    with pytest.raises(WhorlError, match=r"`pseudo.networks` needs images, and these are vectors; " + WITHOUT):
        Learner(config, inputs, Runtime())


def test_networks_for_vectors_beside_images() -> None:
    """Found before anything is trained, and the message names the key of these networks."""
    inputs = Inputs.images(16)
    config = resolve_learner({"pseudo": {"networks": 1, "features": "networks", "arch": "mlp"}}, inputs)
    with pytest.raises(WhorlError, match=r"'mlp' does not take images; set `pseudo.arch` to resnet32 or"):
        Learner(config, inputs, Runtime())


def test_training_that_diverges_is_one_line(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rate is not that of the config, so the advice is not to lower that."""
    monkeypatch.setattr("whorl.networks.OPTIM", OPTIM.model_copy(update={"lr": 1e20}))
    with pytest.raises(WhorlError, match=f"^network 1 for pseudo labels diverged; {WITHOUT}$"):
        learned(small_data, 1, **TWO)


def test_the_advice_can_be_followed() -> None:
    base = {"data": {"name": "digits"}, "stream": {"step": 2}, "labeler": "best"}
    for features in ("current", "first"):
        check(resolve(merge(base, {"pseudo": {"networks": 0, "features": features}})))
