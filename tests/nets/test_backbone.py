"""Backbones by name, from other packages, and brought along: used as given, with weights drawn at most once."""

from __future__ import annotations

import copy
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import checks
from small import deliveries, learn, small_learner
from whorl import registry
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.nets import backbone as nets
from whorl.nets.backbone import check_fit
from whorl.nets.heads import HEADS, LinearHead
from whorl.nets.model import Model, weights
from whorl.nets.resnet import ResNet
from whorl.nets.vectors import Identity, Mlp
from whorl.reporter import Silent
from whorl.runtime import Runtime
from whorl.seeds import derive, generator

IMAGES, VECTORS = Inputs.images(8), Inputs.vectors(6)


class Pretrained(nn.Module):
    """A backbone as a user brings it: mean colours through a linear layer, with its own input preparation."""

    dim = 5
    inputs = Inputs.images(4, "none", (0.1, 0.2, 0.3), (0.5, 0.5, 0.5))

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, self.dim)
        draws = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=draws))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x.mean((2, 3)))
        return out


def made(inputs: Inputs, final_relu: bool) -> Pretrained:
    """The factory that the entry point of another package names."""
    found = Pretrained()
    found.inputs = inputs
    return found


def no_backbone(inputs: Inputs, final_relu: bool) -> nn.Module:
    return nn.Flatten()


@pytest.mark.parametrize("arch", list(nets.BACKBONES))
def test_every_backbone_has_the_dimension_it_states(arch: str) -> None:
    inputs = VECTORS if arch in nets.FOR_VECTORS else Inputs.images(16)
    net = nets.build(arch, inputs, True, 0)
    assert isinstance(net, nets.Backbone)
    x = torch.randn(2, 6) if arch in nets.FOR_VECTORS else torch.randn(2, 3, 16, 16)
    assert net(x).shape == (2, net.dim)


def test_names_are_complete() -> None:
    assert {*nets.FOR_IMAGES, *nets.FOR_VECTORS} == set(nets.BACKBONES)


@pytest.mark.parametrize(
    ("arch", "inputs", "line"),
    [
        ("identity", IMAGES, "network 'identity' does not take images; set `net.arch` to resnet32 or resnet14-wide or"),
        ("tiny", VECTORS, "network 'tiny' does not take vectors; set `net.arch` to identity or mlp"),
        ("resnet23", IMAGES, "unknown network 'resnet23'; did you mean 'resnet32'"),
    ],
)
def test_unsuitable_names(arch: str, inputs: Inputs, line: str) -> None:
    with pytest.raises(WhorlError, match=line):
        nets.build(arch, inputs, True, 0)


def test_weights_depend_on_the_seed_alone() -> None:
    for arch, inputs in (("tiny", IMAGES), ("mlp", VECTORS)):
        one = nets.build(arch, inputs, True, 7)
        torch.rand(100)
        same, other = (nets.build(arch, inputs, True, seed) for seed in (7, 8))
        for model, equal in ((same, True), (other, False)):
            assert isinstance(one, nn.Module)
            assert isinstance(model, nn.Module)
            pairs = zip(one.parameters(), model.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs) == equal


def test_mlp_by_hand() -> None:
    """Linear, layer norm and ReLU twice; the last ReLU is optional."""
    net = Mlp(6, hidden=7, dim=4)
    net.draw(torch.Generator().manual_seed(0))
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)

    def layer(rows: np.ndarray, linear: nn.Linear) -> np.ndarray:
        out = rows @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        deviation = np.sqrt(out.var(axis=1, keepdims=True) + 1e-5)
        return np.asarray((out - out.mean(axis=1, keepdims=True)) / deviation)

    features = layer(np.maximum(layer(x, net.hidden), 0), net.out)
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach().numpy(), np.maximum(features, 0), atol=1e-5)
    net.final_relu = False
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach().numpy(), features, atol=1e-5)


def test_mlp_starts_he_normal() -> None:
    net = Mlp(400)
    net.draw(torch.Generator().manual_seed(0))
    assert net.hidden.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert net.out.weight.std().item() == pytest.approx((2 / 512) ** 0.5, rel=0.02)
    assert not net.hidden.bias.any()
    assert not net.out.bias.any()


def test_the_identity_changes_nothing() -> None:
    x = torch.randn(3, 6)
    assert Identity(6)(x) is x
    assert list(Identity(6).parameters()) == []


def test_a_backbone_must_be_a_module_with_a_dimension() -> None:
    with pytest.raises(WhorlError, match=r"a backbone must be a torch\.nn\.Module, not function"):
        nets.checked(made)
    with pytest.raises(WhorlError, match="the backbone Flatten needs an integer attribute `dim`"):
        Model(nn.Flatten(), HEADS["linear"](5), 0)  # type: ignore[arg-type]


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [
        EntryPoint(name, f"test_backbone:{thing}", nets.GROUP)
        for name, thing in (("mine", "made"), ("broken", "missing"), ("wrong", "no_backbone"), ("tiny", "made"))
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(offered).select(group=group))
    for inputs in (IMAGES, VECTORS):  # the package decides what its backbone takes
        found = nets.build("mine", inputs, True, 0)
        assert (type(found).__name__, found.dim, nets.own_inputs(found)) == ("Pretrained", 5, inputs)
    assert type(nets.build("tiny", IMAGES, True, 0)).__name__ == "ResNet"
    with pytest.raises(WhorlError, match="the plug-in for network 'broken' cannot be loaded"):
        nets.find("broken")
    with pytest.raises(WhorlError, match="the backbone Flatten needs an integer attribute `dim`"):
        nets.build("wrong", IMAGES, True, 0)
    with pytest.raises(WhorlError, match="unknown network 'nine'; did you mean 'mine'"):
        nets.find("nine")


def test_an_injected_backbone_is_used_as_given(small_data: Dataset) -> None:
    """Its weights, its features and its input preparation; the user's own object is not trained."""
    brought = Pretrained()
    before = copy.deepcopy(brought)
    learner = small_learner(small_data, backbone=brought)
    assert learner.inputs == Pretrained.inputs
    assert learner.model.backbone is not brought
    start = learner.model.backbone.state_dict()
    assert all(torch.equal(value, start[name]) for name, value in before.state_dict().items())
    images = deliveries(small_data)[0].images
    pixels = images.read(np.arange(len(images))).numpy()[:, 2:6, 2:6].astype(np.float64) / 255
    prepared = ((pixels - [0.1, 0.2, 0.3]) / 0.5).mean(axis=(1, 2))
    expected = prepared @ before.layer.weight.detach().numpy().T + before.layer.bias.detach().numpy()
    np.testing.assert_allclose(learner.classifier.features(images), expected, rtol=1e-4, atol=1e-5)
    learn(learner, deliveries(small_data))
    assert all(torch.equal(value, brought.state_dict()[name]) for name, value in before.state_dict().items())
    assert not torch.equal(learner.model.backbone.state_dict()["layer.weight"], before.layer.weight)
    assert (learner.known, learner.model.head.weight.shape) == (6, (6, 5))


def test_an_injected_backbone_is_restored_with_its_input_preparation(small_data: Dataset) -> None:
    stream = deliveries(small_data)
    learner = small_learner(small_data, backbone=Pretrained())
    learn(learner, stream[:2])
    again = small_learner(small_data, backbone=Pretrained())
    again.restore(replace(learner.state(), inputs=replace(learner.inputs, mean=(0.4, 0.4, 0.4))))
    assert again.inputs.mean == (0.4, 0.4, 0.4)  # the state's, not the backbone's
    again.restore(learner.state())
    for one in (learner, again):
        learn(one, stream[2:])
    ours, theirs = weights(learner.model), weights(again.model)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


class Draws:
    """Counts how often weights are drawn, and what is loaded after that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        for cls, name in ((Model, "load"), (Model, "reset_head"), (LinearHead, "grow")):
            self._watch(monkeypatch, cls, name)
        plain = nets.draw

        def draw(net: object, seed: int) -> bool:
            self.events.append("draw")
            return plain(net, seed)

        monkeypatch.setattr(nets, "draw", draw)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> None:
        plain = getattr(cls, name)

        def watched(*args: object) -> object:
            self.events.append(name)
            return plain(*args)

        monkeypatch.setattr(cls, name, watched)


def test_loading_weights_is_never_followed_by_drawing(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored learner draws the head's rows, then loads, and draws nothing until the next delivery grows it."""
    learner = small_learner(small_data, pseudo__features="first")
    learn(learner, deliveries(small_data)[:2])
    fresh = small_learner(small_data, pseudo__features="first")
    watched = Draws(monkeypatch)
    fresh.restore(learner.state())
    assert watched.events == ["grow", "load", "grow", "load"]  # the model, and that after the initial delivery
    assert all(torch.equal(value, weights(fresh.model)[name]) for name, value in learner.state().model.items())


def test_continuing_inside_a_step_draws_nothing_after_loading(
    small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = deliveries(small_data)
    learner = small_learner(small_data)
    learn(learner, stream[:1])
    halt = next(iter(learner.learn(stream[1], Silent())))
    fresh = small_learner(small_data)
    fresh.restore(learner.state())
    watched = Draws(monkeypatch)
    for _ in fresh.learn(stream[1], Silent(), halt):
        pass
    assert watched.events == ["grow", "load", "load"]
    learn(learner, stream[1:2])
    ours, theirs = weights(learner.model), weights(fresh.model)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


class Drawn(Pretrained):
    """One that can be initialised from a seed."""

    def draw(self, draws: torch.Generator) -> None:
        with torch.no_grad():
            self.layer.weight.copy_(torch.randn(self.layer.weight.shape, generator=draws))
            self.layer.bias.zero_()


@pytest.mark.parametrize("brought", [None, Drawn()])
def test_scratch_draws_the_weights_of_a_copy(brought: nets.Backbone | None, small_data: Dataset) -> None:
    """Also those of an injected backbone, from the same seed for every delivery."""
    learner = small_learner(small_data, backbone=brought, pseudo__features="scratch")
    images = deliveries(small_data)[1].images
    expected = copy.deepcopy(brought) or nets.build("tiny", learner.inputs, True, None)
    assert isinstance(expected, (Drawn, ResNet))
    expected.draw(generator(derive(0, "scratch"), "init", "backbone"))
    pixels = learner.inputs.fixed(images.read(np.arange(len(images))))
    by_hand = expected.eval()(pixels).detach().numpy()
    learn(learner, deliveries(small_data)[:1])
    np.testing.assert_allclose(learner.sight().random(images), by_hand, rtol=1e-4, atol=1e-5)
    assert not np.allclose(learner.sight().random(images), learner.classifier.features(images))


def test_scratch_needs_a_backbone_that_can_be_drawn(small_data: Dataset) -> None:
    learner = small_learner(small_data, backbone=Pretrained(), pseudo__features="scratch")
    learn(learner, deliveries(small_data)[:1])
    with pytest.raises(
        WhorlError, match=r"`pseudo.features=scratch` needs .*, and Pretrained has no method `draw` to make"
    ):
        learn(learner, deliveries(small_data)[1:2])
    assert learner.known == 2


class Conv(nn.Module):
    """An image backbone that does not say what it takes."""

    dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x).mean((2, 3))
        return out


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        (Inputs.vectors(16), r"the network does not take vectors of length 16 \(.*\); set `net.arch` to one that does"),
        (Inputs.images(2), r"the network does not take images of side 2 \(.*Kernel size can't be greater.*\)"),
    ],
)
def test_inputs_that_a_network_cannot_take_are_one_line(inputs: Inputs, line: str) -> None:
    check_fit(Conv(), Inputs.images(8), Runtime())
    with pytest.raises(WhorlError, match=line) as found:
        Learner(checks.small_config(), inputs, Runtime(), Conv())
    assert "\n" not in str(found.value)


def test_a_network_with_another_number_of_features_is_refused() -> None:
    model = Conv()
    model.dim = 5
    with pytest.raises(WhorlError, match=r"features of shape \(1, 4\) for 1 sample, but its `dim` is 5"):
        check_fit(model, Inputs.images(8), Runtime())
