"""Backbones and heads against counts from the literature and formulas by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from whorl.data.inputs import Inputs
from whorl.nets.backbone import BACKBONES, FOR_IMAGES, build
from whorl.nets.heads import HEADS, CorrectedHead, CosineHead, LinearHead, MeansHead
from whorl.nets.model import Model, weights
from whorl.nets.resnet import BasicBlock, PadShortcut, ResNet, resnet32

INPUTS = Inputs.images(16)


def model_of(arch: str, head: str, seed: int) -> Model:
    backbone = build(arch, INPUTS, True, seed)
    return Model(backbone, HEADS[head](backbone.dim), seed)


@pytest.mark.parametrize(
    ("arch", "count", "dim"),
    # 463,504: ResNet-32 with option A; 11,176,512: ResNet-18 without its 513,000 classifier values.
    [("resnet32", 463_504, 64), ("resnet18", 11_176_512, 512), ("resnet18-small", 11_168_832, 512)],
)
def test_parameter_counts(arch: str, count: int, dim: int) -> None:
    net = BACKBONES[arch](INPUTS, True)
    assert isinstance(net, nn.Module)
    assert sum(p.numel() for p in net.parameters()) == count
    assert net.dim == dim


@pytest.mark.parametrize(("arch", "size"), [("resnet32", 32), ("resnet18", 64), ("resnet18-small", 32), ("tiny", 8)])
def test_final_relu(arch: str, size: int) -> None:
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    for final_relu in (True, False):
        net = build(arch, INPUTS, final_relu, 0)
        assert isinstance(net, nn.Module)
        assert bool(net.eval()(x).min() >= 0) == final_relu


def test_option_a_shortcut_by_hand() -> None:
    x = torch.arange(2 * 4 * 4, dtype=torch.float32).reshape(1, 2, 4, 4)
    y = PadShortcut(2, 4, 2)(x)
    expected = np.zeros((1, 4, 2, 2), np.float32)
    expected[:, 1:3] = x.numpy()[:, :, ::2, ::2]
    assert np.array_equal(y.numpy(), expected)


def test_block_equals_the_formula_and_its_gradient() -> None:
    """The block writes in place; the plain formula does not. Values and gradients must agree."""
    torch.manual_seed(0)
    block = BasicBlock(4, 4, 1, nn.Identity())

    def plain(x: torch.Tensor) -> torch.Tensor:
        first, second = block.first, block.second
        inner = F.relu(F.batch_norm(F.conv2d(x, first.conv.weight, padding=1), None, None, training=True))
        outer = F.batch_norm(F.conv2d(inner, second.conv.weight, padding=1), None, None, training=True)
        return F.relu(outer + x)

    x = torch.randn(3, 4, 6, 6, requires_grad=True)
    ours = torch.autograd.grad(block(x).square().sum(), [x, block.first.conv.weight])
    theirs = torch.autograd.grad(plain(x).square().sum(), [x, block.first.conv.weight])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", FOR_IMAGES)
def test_folding_keeps_the_output(arch: str) -> None:
    torch.manual_seed(0)
    model = model_of(arch, "linear", 0)
    model.grow(3)
    x = torch.randn(8, 3, 16, 16)
    for _ in range(3):
        model.train()(x * 2 + 1)  # running statistics away from their start
    with torch.no_grad():
        expected = model.eval()(x)
        found = model.frozen()(x)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-3, atol=1e-4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in model.frozen().modules())
    assert any(isinstance(m, nn.BatchNorm2d) for m in model.modules())


def test_linear_head_by_hand(draws: torch.Generator) -> None:
    head = LinearHead(5)
    head.grow(2, draws)
    head.grow(3, draws)
    assert head.bias is not None
    f = torch.randn(4, 5)
    expected = f.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(head(f).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert head.weight.abs().max() <= 5**-0.5
    assert head.bias.abs().max() <= 5**-0.5


def test_cosine_head_by_hand(draws: torch.Generator) -> None:
    head = CosineHead(5)
    head.grow(3, draws)
    head.eta.data.fill_(2.5)
    f = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    w = head.weight.detach().numpy()
    expected = [[2.5 * a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in w] for a in f]
    np.testing.assert_allclose(head(torch.from_numpy(f)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_corrected_head_by_hand(draws: torch.Generator) -> None:
    """W f + b, then beta · o + gamma for the newest classes only. Growing resets the correction."""
    head = CorrectedHead(5)
    head.grow(2, draws)
    head.grow(3, draws)
    assert head.bias is not None
    head.beta.fill_(0.5)
    head.gamma.fill_(-2.0)
    f = torch.randn(4, 5, generator=draws)
    plain = f.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    expected = plain.copy()
    expected[:, 2:] = 0.5 * plain[:, 2:] - 2
    np.testing.assert_allclose(head(f).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    head.grow(1, draws)
    assert (head.beta.item(), head.gamma.item()) == (1, 0)
    assert head.newest.tolist() == [False] * 5 + [True]
    np.testing.assert_allclose(head(f).detach().numpy()[:, :5], plain, rtol=1e-5, atol=1e-6)


def test_the_correction_is_trained_only_where_it_is_named(draws: torch.Generator) -> None:
    """Its gradient by hand: of a newest logit's slope g, beta gets g · o and gamma gets g."""
    head = CorrectedHead(5)
    head.grow(2, draws)
    head.grow(2, draws)
    assert {name for name, p in head.named_parameters() if p.requires_grad} == {"weight", "bias"}
    f, slope = torch.randn(6, 5, generator=draws), torch.randn(6, 4, generator=draws)
    assert head.bias is not None
    logits = (f @ head.weight.T + head.bias).detach()
    head.requires_grad_(False)
    head.beta.requires_grad_()
    head.gamma.requires_grad_()
    beta, gamma = torch.autograd.grad((slope * head(f)).sum(), [head.beta, head.gamma])
    assert beta.item() == pytest.approx((slope * logits)[:, 2:].sum().item(), rel=1e-4)
    assert gamma.item() == pytest.approx(slope[:, 2:].sum().item(), rel=1e-4)


def test_running_means_by_hand(draws: torch.Generator) -> None:
    """One feature at a time, at length one. Batches do not matter, and growing keeps the means."""
    head = MeansHead(4)
    head.grow(3, draws)
    means, counts = np.zeros((5, 4)), np.zeros(5)
    rng = np.random.default_rng(0)
    for batch, classes in ((7, 3), (1, 3), (9, 5), (2, 5)):
        if classes == 5 and len(head.counts) == 3:
            head.grow(2, draws)
        features, labels = rng.normal(size=(batch, 4)), rng.integers(0, classes - 1, batch)
        head.observe(torch.from_numpy(features).float(), torch.from_numpy(labels))
        for f, label in zip(features, labels, strict=True):
            means[label] = (counts[label] * means[label] + f / np.linalg.norm(f)) / (counts[label] + 1)
            counts[label] += 1
    np.testing.assert_allclose(head.means.numpy(), means, atol=1e-6)
    assert head.counts.tolist() == counts.tolist()
    assert counts[4] == 0  # no sample of it was observed
    assert not means[4].any()
    assert {"means", "counts"} <= set(head.state_dict())
    assert {name for name, _ in head.named_parameters()} == {"weight", "bias"}


def test_the_logits_of_a_head_with_means_are_linear(draws: torch.Generator) -> None:
    head = MeansHead(4)
    head.grow(3, draws)
    assert head.bias is not None
    f = torch.randn(6, 4, generator=draws)
    head.observe(f, torch.tensor([0, 1, 2, 0, 1, 2]))
    expected = f.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(head(f).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "linear-nobias", "corrected", "means"])
def test_reset_draws_every_row_again(kind: str) -> None:
    """In place, uniform within ±1/sqrt(d), from the seed; the backbone stays."""
    model, same, other = (model_of("tiny", kind, seed) for seed in (3, 3, 4))
    for one in (model, same, other):
        one.grow(40)
        one.grow(60)
    head = model.head
    assert isinstance(head, LinearHead)
    weight, before = head.weight, weights(model)
    for one in (model, same, other):
        one.reset_head()
    assert head.weight is weight
    after = weights(model)
    for name in ("head.weight", "head.bias"):
        if name in after:
            assert (after[name] != before[name]).all()
            assert after[name].abs().max() <= 32**-0.5
            assert after[name].std().item() == pytest.approx((32 * 3) ** -0.5, rel=0.2)
    assert ("head.bias" in after) == (kind != "linear-nobias")
    assert all(torch.equal(after[name], before[name]) for name in after if name.startswith("backbone"))
    assert torch.equal(same.head.weight, head.weight)
    assert not torch.equal(other.head.weight, head.weight)
    model.reset_head()
    assert torch.equal(head.weight, after["head.weight"])  # a resumed step draws the same


@pytest.mark.parametrize("kind", ["linear", "linear-nobias", "cosine", "corrected", "means"])
def test_a_stored_head_is_restored(kind: str) -> None:
    model, other = model_of("tiny", kind, 0), model_of("tiny", kind, 1)
    model.grow(2)
    model.grow(3)
    with torch.no_grad():
        for value in model.head.state_dict().values():
            if value.is_floating_point():
                value += 0.25
    other.restore(weights(model))
    assert weights(model).keys() == weights(other).keys()
    assert all(torch.equal(value, weights(other)[name]) for name, value in weights(model).items())
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.eval()(x).logits, other.eval()(x).logits)


def test_weights_depend_on_the_seed_alone() -> None:
    one = model_of("tiny", "linear", 7)
    torch.rand(100)
    two = model_of("tiny", "linear", 7)
    one.grow(2)
    two.grow(2)
    assert all(torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))
    assert not torch.equal(one.head.weight, _grown(8).head.weight)


def _grown(seed: int) -> Model:
    model = model_of("tiny", "linear", seed)
    model.grow(2)
    return model


def test_weights_are_a_copy() -> None:
    model = _grown(0)
    kept = weights(model)
    model.head.weight.data.zero_()
    assert kept["head.weight"].abs().sum() > 0


def test_he_normal_fan_out() -> None:
    net = model_of("resnet32", "linear", 0).backbone
    assert isinstance(net, ResNet)
    block = net.blocks[-1]
    assert isinstance(block, BasicBlock)
    conv = block.second.conv.weight
    assert conv.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)
    assert resnet32().dim == 64
