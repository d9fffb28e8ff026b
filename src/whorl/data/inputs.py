"""Bytes to network inputs, a batch at a time on the device: random views for training, one fixed view for looking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

View = Callable[[Tensor, int, torch.Generator], Tensor]


def _reflect(position: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 mirrored back in, without repeating the edge."""
    return (size - 1) - ((size - 1) - position.abs()).abs()


def _shifted(images: Tensor, size: int, generator: torch.Generator, mirror: bool) -> Tensor:
    """Each image moved by up to an eighth of its side, mirrored in at the edges; half of them flipped if ``mirror``.

    The same as padding, cropping and flipping, but as one gather: only the indices are computed.
    """
    images = centre(images, size)
    pad = size // 8
    offset = torch.randint(-pad, pad + 1, (2, len(images), 1), generator=generator)
    flip = torch.rand(len(images), 1, generator=generator) < 0.5 if mirror else None
    return moved(images, offset, flip)


def moved(images: Tensor, offset: Tensor, flip: Tensor | None) -> Tensor:
    """Square images moved by ``offset`` [2, n, 1], mirrored in at the edges; those in ``flip`` [n, 1] are flipped."""
    n, size, device = len(images), images.shape[1], images.device
    line = torch.arange(size, device=device)
    rows, columns = (_reflect(line + by.to(device), size) for by in offset)
    if flip is not None:
        columns = torch.where(flip.to(device), columns.flip(1), columns)
    return images[torch.arange(n, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def crop_flip(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Pad by an eighth (4 of 32) with the mirror image, crop at random, flip half."""
    return _shifted(images, size, generator, mirror=True)


def shift(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The same without the flip: a mirrored digit is another digit."""
    return _shifted(images, size, generator, mirror=False)


def resized_crop(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A box of 8 % to 100 % of the area and an aspect of 3/4 to 4/3, resized to ``size``; half are flipped."""
    n, device = len(images), images.device
    draws = torch.rand(5, n, generator=generator)
    area = 0.08 + 0.92 * draws[0]
    aspect = torch.exp((draws[1] * 2 - 1) * torch.log(torch.tensor(4 / 3)))
    half_w, half_h = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = torch.where(draws[2] < 0.5, -half_w, half_w)
    theta[:, 1, 1] = half_h
    theta[:, 0, 2], theta[:, 1, 2] = (draws[3] * 2 - 1) * (1 - half_w), (draws[4] * 2 - 1) * (1 - half_h)
    grid = F.affine_grid(theta.to(device), [n, 3, size, size], align_corners=False)
    planes = images.permute(0, 3, 1, 2).float()
    out = F.grid_sample(planes, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    return out.permute(0, 2, 3, 1)


def centre(images: Tensor, size: int, generator: torch.Generator | None = None) -> Tensor:
    """The middle square; nothing is drawn."""
    edge = (images.shape[1] - size) // 2
    return images[:, edge : edge + size, edge : edge + size]


VIEWS: dict[str, View] = {"crop_flip": crop_flip, "shift": shift, "resized_crop": resized_crop, "none": centre}


def brighter(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's brightness: each image shifted by a value in ±63, for draws in 0..1."""
    return (images.float() + (draws.view(-1, 1, 1, 1) * 126 - 63)).clamp(0, 255)


def contrasted(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's contrast: each image scaled by 0.2 to 1.8 around the means of its channels, for draws in 0..1."""
    mean = images.float().mean((1, 2), keepdim=True)
    return ((images.float() - mean) * (0.2 + 1.6 * draws.view(-1, 1, 1, 1)) + mean).clamp(0, 255)


def jitter(images: Tensor, generator: torch.Generator) -> Tensor:
    """A third of the images as they are, a third with another brightness, a third with another contrast."""
    kind, draws = torch.rand(2, len(images), 1, 1, 1, generator=generator).to(images.device)
    changed = torch.where(kind < 2 / 3, brighter(images, draws), contrasted(images, draws))
    return torch.where(kind < 1 / 3, images.float(), changed)


@dataclass(frozen=True)
class Inputs:
    """How stored images or vectors become the normalised inputs of a net."""

    kind: Literal["images", "vectors"]
    size: int
    """Side of the images the net sees, or the number of dimensions of the vectors."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    view: str
    mirrors: bool
    """Whether a mirrored image still belongs to its class."""
    jitter: bool = False

    def plain(self) -> Inputs:
        """The same without anything random."""
        return replace(self, view="none", jitter=False)

    def jittered(self) -> Inputs:
        """The same with random brightness and contrast on top."""
        return replace(self, jitter=True)

    def train(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A random view of each image."""
        seen = VIEWS[self.view](images, self.size, generator)
        return self._normalise(jitter(seen, generator) if self.jitter else seen)

    def look(self, images: Tensor) -> Tensor:
        """The fixed view used for features, herding, class means and evaluation."""
        return self._normalise(centre(images, self.size))

    def _normalise(self, images: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=images.device) * 255
        scale = 1 / (torch.tensor(self.std, device=images.device) * 255)
        return ((images.float() - mean) * scale).permute(0, 3, 1, 2)
