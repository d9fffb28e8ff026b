"""Frozen backbones: features as the network itself gives them, computed once, and a head trained on them alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import checks
from small import small_learner
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Dataset, Subset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.nets.frozen import FrozenBackbone, blocks
from whorl.nets.vectors import Scaled
from whorl.runs.features import FeatureFolder
from whorl.runtime import Runtime
from whorl.types import FloatArray

METHODS = ("ours", "lwf", "icarl", "eeil", "lucir", "wa", "bic", "ilio", "finetune", "joint")
INPUTS = Inputs.images(8, view="none")


class Patches(nn.Module):
    """A network whose features are counted: a convolution, and the mean of what it finds."""

    dim = 12

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, self.dim, 3)
        draws = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=draws) - 0.4)
        self.dropout = nn.Dropout(0.5)
        self.seen = torch.zeros(1)  # not in the state, and shared by copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Patches:
        copy = Patches()
        copy.load_state_dict(self.state_dict())
        copy.seen = self.seen
        return copy.train(self.training).requires_grad_(self.layer.weight.requires_grad)

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        out: Tensor = self.dropout(F.relu(self.layer(x)).mean((2, 3)))
        return out


class Through(nn.Module):
    """The reference: the frozen network and the scale of its features, in front of every training step."""

    dim = Patches.dim

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.net = Patches().requires_grad_(False)
        self.scale = scale

    def train(self, mode: bool = True) -> Through:
        super().train(mode)
        self.net.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x) / self.scale
        return out


def by_hand(images: Tensor) -> FloatArray:
    """The features as the network gives them, without the machinery."""
    net = Patches().eval()
    with torch.no_grad():
        found: FloatArray = net(INPUTS.fixed(images)).numpy()
    return found


def pictures(n: int) -> Tensor:
    return torch.randint(0, 256, (n, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))


def test_features_are_those_of_the_network_in_eval_mode() -> None:
    images = pictures(130)
    found = FrozenBackbone(Patches(), INPUTS, Runtime())(ArraySource(images))
    assert (len(found), found.size, found.resident) == (130, 12, True)
    expected = np.concatenate([by_hand(images[:100]), by_hand(images[100:])])
    np.testing.assert_array_equal(found.read(np.arange(130)).numpy(), expected)
    np.testing.assert_array_equal(found.read(np.array([120, 3])).numpy(), expected[[120, 3]])


def test_every_image_is_computed_once_and_only_when_its_group_is_read() -> None:
    net, groups = Patches(), np.arange(40) % 4
    frozen = FrozenBackbone(net, INPUTS, Runtime())
    found = frozen(ArraySource(pictures(40)), groups)
    net.seen.zero_()
    two = Subset(found, np.flatnonzero(groups == 2))
    first = two.read(np.arange(10))
    assert net.seen.item() == 10
    assert torch.equal(found.read(np.arange(40))[groups == 2], first)
    found.read(np.arange(40))
    assert net.seen.item() == 40
    assert frozen(found) is found
    assert frozen(two) is two


def test_blocks_hold_one_group_each_and_all_samples() -> None:
    groups = np.random.default_rng(0).integers(0, 3, 700)
    found = blocks(groups)
    assert sorted(np.concatenate(found).tolist()) == list(range(700))
    assert all(len(np.unique(groups[rows])) == 1 and len(rows) <= 100 for rows in found)
    assert len(found) == sum(-(-int((groups == group).sum()) // 100) for group in range(3))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", [True, False], ids=["given", "pseudo"])
def test_training_on_features_is_training_through_the_frozen_network(
    method: str, given: bool, small_data: Dataset
) -> None:
    data = replace(small_data, inputs=INPUTS)
    labels: dict[str, Any] = {"labels": "given"} if given else {}
    config = checks.small_config(method__name=method, net__tune="none", train__sizes=[], **labels)
    stream = checks.streams(config, data)
    learner = Learner(config, data.inputs, Runtime(), Patches())
    checks.learn(learner, stream)
    first = stream[0].images.read(np.arange(len(stream[0].images)))
    scale = float(np.sqrt(np.mean(by_hand(first).astype(np.float64) ** 2)))
    whole = config.model_copy(update={"net": config.net.model_copy(update={"tune": "all"})})
    reference = Learner(whole, data.inputs, Runtime(), Through(scale))
    checks.learn(reference, stream)
    found, expected = learner.classifier.scores(data.test), reference.classifier.scores(data.test)
    assert found.keys() == expected.keys()
    for rule, scores in expected.items():
        np.testing.assert_allclose(found[rule], scores, rtol=2e-4, atol=2e-4)
    assert np.ptp(expected["fc"]) > 0.1


def test_the_network_is_neither_trained_nor_called_again(small_data: Dataset) -> None:
    net = Patches()
    learner = small_learner(small_data, net, net__tune="none", train__epochs=4, train__first_epochs=4)
    assert learner.fixed is not None
    before = {name: value.clone() for name, value in learner.fixed.net.state_dict().items()}
    assert isinstance(learner.model.backbone, Scaled)
    assert not any(parameter.requires_grad for parameter in learner.fixed.net.parameters())
    stream = checks.streams(checks.small_config(), small_data)
    net.seen.zero_()
    checks.learn(learner, stream)
    assert net.seen.item() == sum(len(delivery.images) for delivery in stream)
    assert checks.same(dict(learner.fixed.net.state_dict()), before)
    assert not learner.fixed.net.training


def test_features_are_kept_between_runs_and_change_no_bit(tmp_path: Path) -> None:
    images, net = ArraySource(pictures(250)), Patches()
    plain = FrozenBackbone(Patches(), INPUTS, Runtime())(images).read(np.arange(250))
    first = FrozenBackbone(Patches(), INPUTS, Runtime(), FeatureFolder(tmp_path))(images).read(np.arange(250))
    second = FrozenBackbone(net, INPUTS, Runtime(), FeatureFolder(tmp_path))(images)
    net.seen.zero_()
    assert torch.equal(first, plain)
    assert torch.equal(second.read(np.arange(250)), plain)
    assert net.seen.item() == 0
    other = Patches()
    with torch.no_grad():
        other.layer.weight += 0.1
    changed = FrozenBackbone(other, INPUTS, Runtime(), FeatureFolder(tmp_path))(images).read(np.arange(250))
    assert not torch.equal(changed, plain)
    prepared = replace(INPUTS, mean=(0.1, 0.2, 0.3))
    assert not torch.equal(
        FrozenBackbone(net, prepared, Runtime(), FeatureFolder(tmp_path))(images).read(np.arange(250)), plain
    )
    assert len(list(tmp_path.rglob("*.safetensors"))) == 9


def test_a_damaged_file_is_computed_again(tmp_path: Path) -> None:
    images = ArraySource(pictures(20))
    frozen = FrozenBackbone(Patches(), INPUTS, Runtime(), FeatureFolder(tmp_path))
    expected = frozen(images).read(np.arange(20))
    (file,) = tmp_path.rglob("*.safetensors")
    whole = file.read_bytes()
    for payload in (whole[:50], whole[:-1] + b"\x01", b""):
        file.write_bytes(payload)
        with pytest.warns(UserWarning, match=r"is not used \(.*damaged.*\); its features are computed again"):
            assert torch.equal(frozen(images).read(np.arange(20)), expected)
        assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    frozen = FrozenBackbone(Patches(), INPUTS, Runtime(), FeatureFolder(tmp_path / "file"))
    with pytest.warns(UserWarning, match="features are not kept") as said:
        found = frozen(ArraySource(pictures(250))).read(np.arange(250))
    assert len(said) == 1
    assert np.isfinite(found.numpy()).all()


@pytest.mark.parametrize("kill", [1, 3, 6])
def test_a_run_with_a_frozen_network_resumes_bit_for_bit(
    kill: int, small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checks.small_config(net__tune="none", method__name="joint" if kill == 3 else "ours")
    whole = run(config, small_data, tmp_path / "whole")
    monkeypatch.setenv("WHORL_FEATURES", str(tmp_path / "features"))
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(kill))
    resumed = run(config, small_data, tmp_path)
    assert checks.same(checks.stored(resumed.path), checks.stored(whole.path))
    assert checks.numbers(resumed.steps) == checks.numbers(whole.steps)
    assert not any("conv" in name for name in checks.stored(resumed.path))  # the network is not stored with each task


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"train__rotations": "initial"},
            "`net.tune=none` learns features and not images; leave out `train.rotations`",
        ),
        ({"pseudo__networks": 1, "pseudo__features": "networks"}, "leave out `pseudo.networks`, or set `net.tune=all`"),
        ({"pseudo__features": "scratch"}, "leave out `pseudo.features`"),
    ],
)
def test_what_trains_a_network_is_refused(
    changes: dict[str, Any], line: str, small_data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(WhorlError, match=line):
        run(checks.small_config(net__tune="none", **changes), small_data, tmp_path)


def test_vectors_are_not_frozen() -> None:
    with pytest.raises(WhorlError, match=r"`net.tune=none` is for images, and these are vectors"):
        FrozenBackbone(Patches(), Inputs.vectors(4), Runtime())


def test_the_default_changes_no_name() -> None:
    config = checks.small_config()
    assert (config.net.tune, config.net.size, config.net.fingerprint) == ("all", None, "")
    assert config.identity()["net"] == {"arch": "tiny", "head": "linear", "final_relu": True}
    assert checks.small_config(net__tune="last").hash != config.hash
