"""Backbones and heads against counts from the literature and formulas by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from whorl.nets.heads import CosineHead, LinearHead
from whorl.nets.model import Model, weights
from whorl.nets.resnet import BACKBONES, BasicBlock, PadShortcut, resnet32


@pytest.mark.parametrize(
    ("arch", "count", "dim"),
    # 463,504: ResNet-32 with option A; 11,176,512: ResNet-18 without its 513,000 classifier values.
    [("resnet32", 463_504, 64), ("resnet18", 11_176_512, 512), ("resnet18-small", 11_168_832, 512)],
)
def test_parameter_counts(arch: str, count: int, dim: int) -> None:
    net = BACKBONES[arch](True)
    assert sum(p.numel() for p in net.parameters()) == count
    assert net.dim == dim


@pytest.mark.parametrize(("arch", "size"), [("resnet32", 32), ("resnet18", 64), ("resnet18-small", 32), ("tiny", 8)])
def test_final_relu(arch: str, size: int) -> None:
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    assert BACKBONES[arch](True).eval()(x).min() >= 0
    assert BACKBONES[arch](False).eval()(x).min() < 0


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


@pytest.mark.parametrize("arch", list(BACKBONES))
def test_folding_keeps_the_output(arch: str) -> None:
    torch.manual_seed(0)
    model = Model(arch, "linear", True, 0)
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


def test_same_seed_same_weights_whatever_was_drawn_before() -> None:
    one = Model("tiny", "linear", True, 7)
    torch.rand(100)
    two = Model("tiny", "linear", True, 7)
    one.grow(2)
    two.grow(2)
    assert all(torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))
    assert not torch.equal(one.head.weight, _grown(8).head.weight)


def _grown(seed: int) -> Model:
    model = Model("tiny", "linear", True, seed)
    model.grow(2)
    return model


def test_weights_are_a_copy() -> None:
    model = _grown(0)
    kept = weights(model)
    model.head.weight.data.zero_()
    assert kept["head.weight"].abs().sum() > 0


def test_he_normal_fan_out() -> None:
    model = Model("resnet32", "linear", True, 0)
    conv = model.backbone.blocks[-1].second.conv.weight  # type: ignore[union-attr]
    assert isinstance(conv, torch.Tensor)
    assert conv.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)
    assert resnet32().dim == 64
