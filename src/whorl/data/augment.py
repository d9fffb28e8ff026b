"""Bytes to network inputs, a batch at a time on the device: random views for training, one fixed view for looking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    n, pad, device = len(images), size // 8, images.device
    offset = torch.randint(-pad, pad + 1, (2, n, 1), generator=generator).to(device)
    line = torch.arange(size, device=device)
    rows, columns = _reflect(line + offset[0], size), _reflect(line + offset[1], size)
    if mirror:
        flip = (torch.rand(n, 1, generator=generator) < 0.5).to(device)
        columns = torch.where(flip, columns.flip(1), columns)
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


@dataclass(frozen=True)
class Augment:
    """How stored bytes [n, s, s, 3] become normalised inputs [n, 3, size, size] in channels-last layout."""

    view: str
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def train(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """A random view of each image."""
        return self._normalise(VIEWS[self.view](images, self.size, generator))

    def look(self, images: Tensor) -> Tensor:
        """The fixed view used for features, herding, class means and evaluation."""
        return self._normalise(centre(images, self.size))

    def _normalise(self, images: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=images.device) * 255
        scale = 1 / (torch.tensor(self.std, device=images.device) * 255)
        return ((images.float() - mean) * scale).permute(0, 3, 1, 2)
