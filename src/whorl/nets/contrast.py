"""Contrast of two views: a self-supervised task that is trained beside the labels.

Each image of a batch is also seen in a second, strongly changed view. Among all views of the batch, a view must be
nearest to the other one of its own image (Chen et al. 2020, "A simple framework for contrastive learning of visual
representations").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whorl.data.inputs import Inputs, random_crops
from whorl.nets.heads import LinearHead
from whorl.seeds import generator

HIDDEN, OUTPUTS = 128, 64
TEMPERATURE = 0.2
SMALLEST_CROP = 0.25
"""Share of the area that a crop shows at least."""
STRENGTH = 0.5
"""How much colours change: brightness, contrast and saturation by up to 0.8 of this, hue by up to 0.2 of it."""
GREY = 0.2
"""Share of the views without colours."""
UNCHANGED = 0.2
"""Share of the views whose colours are not changed otherwise."""
_LUMA = (0.299, 0.587, 0.114)
_YIQ = (_LUMA, (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def projector(dim: int, seed: int) -> nn.Sequential:
    """Two layers on the features, in whose output views are compared."""
    layers, draws = [LinearHead(dim), LinearHead(HIDDEN)], generator(seed, "init", "contrast")
    for layer, outputs in zip(layers, (HIDDEN, OUTPUTS), strict=True):
        layer.grow(outputs, draws)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


@dataclass(frozen=True)
class Contrast:
    """Makes a strongly changed view of each image, and the loss on the features of both."""

    projector: nn.Module
    inputs: Inputs

    def views(self, images: Tensor, labels: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """A second view of each image; the targets are the numbers of the images."""
        mean, std = (
            torch.tensor(each, device=images.device).view(1, 3, 1, 1) for each in (self.inputs.mean, self.inputs.std)
        )
        crops = random_crops(images.contiguous(), images.shape[-1], SMALLEST_CROP, self.inputs.mirrors, draws)
        views = (recoloured(crops * std + mean, draws) - mean) / std
        return views, torch.arange(len(images), device=images.device)

    def loss(self, own: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of :func:`nearest_view` on the projected features of the images and of their second views."""
        first, second = self.projector(torch.cat([own, features])).chunk(2)
        return nearest_view(first, second, TEMPERATURE)


def nearest_view(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of finding the other view of the same image among all other views, by cosine (NT-Xent)."""
    n = len(first)
    with torch.autocast(first.device.type, enabled=False):  # bfloat16 is too coarse for cosines over a temperature
        units = F.normalize(torch.cat([first, second]).float(), dim=1)
        cosines = (units @ units.T / temperature).fill_diagonal_(-math.inf)
    return F.cross_entropy(cosines, torch.arange(2 * n, device=first.device).roll(n))


def recoloured(images: Tensor, draws: torch.Generator) -> Tensor:
    """Images in 0..1 with other brightness, contrast, saturation and hue; some of them without colours."""
    n = len(images)
    drawn = torch.rand(6, n, 1, 1, 1, generator=draws).to(images.device)
    brightness, contrast, saturation = (1 + 0.8 * STRENGTH * (2 * each - 1) for each in drawn[:3])
    out = images * brightness
    mean = out.mean((1, 2, 3), keepdim=True)
    out = (out - mean) * contrast + mean
    grey = _grey(out)
    out = grey + (out - grey) * saturation
    out = _turned(out, 0.2 * STRENGTH * 2 * math.pi * (2 * drawn[3] - 1)).clamp(0, 1)
    out = torch.where(drawn[4] < UNCHANGED, images, out)
    return torch.where(drawn[5] < GREY, _grey(out).expand_as(out), out)


def _grey(images: Tensor) -> Tensor:
    return (images * torch.tensor(_LUMA, device=images.device).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _turned(images: Tensor, angle: Tensor) -> Tensor:
    """The hue turned by ``angle`` [n, 1, 1, 1]: a rotation of the two colour channels of YIQ."""
    to_yiq = torch.tensor(_YIQ, device=images.device)
    luma, i, q = torch.einsum("cd,ndhw->cnhw", to_yiq, images)
    cos, sin = angle.cos()[:, 0], angle.sin()[:, 0]
    turned = torch.stack([luma, i * cos - q * sin, i * sin + q * cos])
    return torch.einsum("cd,dnhw->nchw", torch.linalg.inv(to_yiq), turned)
