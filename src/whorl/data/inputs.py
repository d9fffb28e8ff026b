"""How stored samples become network inputs: random views for training, one fixed view for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import ConfigDict
from torch import Tensor

from whorl.errors import WhorlError, count, unknown
from whorl.sections import MOST_IMAGES, MOST_PIXELS
from whorl.types import ImageSource

View = Callable[[Tensor, int, torch.Generator], Tensor]
SMALLEST = 16
"""Training on scaled images never goes below this side."""
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def _reflect(position: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 reflected at the border, without repeating the border itself."""
    return (size - 1) - ((size - 1) - position.abs()).abs()


def _shifted(images: Tensor, size: int, generator: torch.Generator, mirror: bool) -> Tensor:
    """Translate each image by up to an eighth of its side, with reflection; flip half of them if ``mirror``.

    Equivalent to padding, cropping and flipping, but done as one gather.
    """
    images = centre(images, size)
    pad = size // 8
    offset = torch.randint(-pad, pad + 1, (2, len(images), 1), generator=generator)
    flip = torch.rand(len(images), 1, generator=generator) < 0.5 if mirror else None
    return moved(images, offset, flip)


def moved(images: Tensor, offset: Tensor, flip: Tensor | None) -> Tensor:
    """Square images translated by ``offset`` [2, n, 1] with reflection; those in ``flip`` [n, 1] are flipped."""
    n, size, device = len(images), images.shape[1], images.device
    line = torch.arange(size, device=device)
    rows, columns = (_reflect(line + by.to(device), size) for by in offset)
    if flip is not None:
        columns = torch.where(flip.to(device), columns.flip(1), columns)
    return images[torch.arange(n, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def crop_flip(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Reflection padding by an eighth of the side (4 of 32), random crop, random horizontal flip."""
    return _shifted(images, size, generator, mirror=True)


def shift(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Like ``crop_flip`` without the flip, for images such as digits whose mirror image is another class."""
    return _shifted(images, size, generator, mirror=False)


def resized_crop(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A crop of 8 % to 100 % of the area with aspect ratio 3/4 to 4/3, resized to ``size``; random flip."""
    return random_crops(images.permute(0, 3, 1, 2).float(), size, 0.08, True, generator).permute(0, 2, 3, 1)


def random_crops(planes: Tensor, size: int, smallest: float, mirror: bool, generator: torch.Generator) -> Tensor:
    """A random crop of each image [n, 3, s, s], resized to ``size``; half of them are flipped if ``mirror``.

    It shows a share of ``smallest`` to 1 of the area, with aspect ratio 3/4 to 4/3.
    """
    n, device = len(planes), planes.device
    draws = torch.rand(5, n, generator=generator)
    area = smallest + (1 - smallest) * draws[0]
    aspect = torch.exp((draws[1] * 2 - 1) * torch.log(torch.tensor(4 / 3)))
    half_w, half_h = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = torch.where((draws[2] < 0.5) & mirror, -half_w, half_w)
    theta[:, 1, 1] = half_h
    theta[:, 0, 2], theta[:, 1, 2] = (draws[3] * 2 - 1) * (1 - half_w), (draws[4] * 2 - 1) * (1 - half_h)
    grid = F.affine_grid(theta.to(device), [n, 3, size, size], align_corners=False)
    return F.grid_sample(planes, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def centre(images: Tensor, size: int, generator: torch.Generator | None = None) -> Tensor:
    """The centre crop. Deterministic; ``generator`` is accepted so that it can be used as a view."""
    edge = (images.shape[1] - size) // 2
    return images[:, edge : edge + size, edge : edge + size]


VIEWS: dict[str, View] = {"crop_flip": crop_flip, "shift": shift, "resized_crop": resized_crop, "none": centre}


def brighter(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's brightness change: add a value in ±63 to each image, for ``draws`` in 0..1."""
    return (images.float() + (draws.view(-1, 1, 1, 1) * 126 - 63)).clamp(0, 255)


def contrasted(images: Tensor, draws: Tensor) -> Tensor:
    """EEIL's contrast change: scale each image by 0.2 to 1.8 around its channel means, for ``draws`` in 0..1."""
    mean = images.float().mean((1, 2), keepdim=True)
    return ((images.float() - mean) * (0.2 + 1.6 * draws.view(-1, 1, 1, 1)) + mean).clamp(0, 255)


def jitter(images: Tensor, generator: torch.Generator) -> Tensor:
    """Change the brightness of a third of the images and the contrast of another third."""
    kind, draws = torch.rand(2, len(images), 1, 1, 1, generator=generator).to(images.device)
    changed = torch.where(kind < 2 / 3, brighter(images, draws), contrasted(images, draws))
    return torch.where(kind < 1 / 3, images.float(), changed)


def scaled(prepared: Tensor, share: float) -> Tensor:
    """Prepared images scaled down to a share of their side, but not below 16 pixels. Vectors stay as they are."""
    side = prepared.shape[-1]
    target = max(round(side * share), min(side, SMALLEST))
    if prepared.ndim != 4 or target == side:
        return prepared
    out = F.interpolate(prepared, target, mode="bilinear", antialias=True, align_corners=False)
    return out.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class Inputs:
    """How a model prepares its inputs. Part of the model: predictions use the values it was trained with.

    Parameters
    ----------
    kind : {"images", "vectors"}
        Images are stored as uint8 [n, s, s, 3] and become float [n, 3, size, size]; vectors stay [n, size].
    size : int
        Side of the images the network sees, or length of the vectors.
    mean, std : tuple of float
        Normalisation: per channel for images in 0..1, one value for vectors.
    view : {"crop_flip", "shift", "resized_crop", "none"}
        The random view used in training.
    mirrors : bool
        Whether the mirror image of a sample has the same class.
    jitter : bool
        Whether training also changes brightness and contrast at random.

    Examples
    --------
    >>> from whorl import Inputs
    >>> Inputs.images(64, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)).photos
    False
    >>> Inputs.images(224, view="resized_crop").photos
    True
    >>> Inputs.vectors(512).kind
    'vectors'
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    kind: Literal["images", "vectors"]
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    view: str = "none"
    mirrors: bool = False
    jitter: bool = False

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise unknown("view", self.view, VIEWS)
        largest = MOST_PIXELS if self.kind == "images" else MOST_IMAGES
        if not 1 <= self.size <= largest:
            raise WhorlError(f"the size of inputs must be at least 1 and at most {largest}, not {self.size}")
        channels = 3 if self.kind == "images" else 1
        for name, values in (("mean", self.mean), ("standard deviation", self.std)):
            if len(values) != channels:
                expected = count(channels, "value")
                raise WhorlError(f"the {name} of {self.kind} must have {expected}, not {len(values)}")
        highest = 1e3 if self.kind == "images" else 1e38  # nearly the largest number of float32
        if not all(0 < value <= highest and np.float32(value) > 0 for value in self.std):
            raise WhorlError(
                f"the standard deviation of {self.kind} must be above 0 and at most {highest:g}, not {self.std}"
            )
        if not all(abs(mean) <= 1e6 * std for mean, std in zip(self.mean, self.std, strict=True)):
            raise WhorlError(f"the mean of inputs must be at most 1e6 standard deviations, not {self.mean}")

    @classmethod
    def images(
        cls,
        size: int,
        view: str = "crop_flip",
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
    ) -> Inputs:
        """Images of side ``size``; ``crop_flip`` and ``resized_crop`` imply that mirror images keep their class."""
        return cls("images", size, mean, std, view, mirrors=view in ("crop_flip", "resized_crop"))

    @classmethod
    def vectors(cls, size: int, scale: float = 1.0) -> Inputs:
        """Vectors of length ``size``, divided by ``scale``."""
        return cls("vectors", size, (0.0,), (scale,))

    @property
    def photos(self) -> bool:
        """Whether these are photos (random resized crops, or a side of 128 pixels or more) and not small images."""
        return self.kind == "images" and (self.view == "resized_crop" or self.size >= PHOTO_SIZE)

    def check(self, images: ImageSource) -> None:
        """Raise a ``WhorlError`` unless the samples are of this kind and large enough."""
        if not len(images):
            raise WhorlError("there are no samples")
        found, wanted = images.size, self.size
        sample = images.read(np.arange(1))
        kind = "vectors" if sample.ndim == 2 else "images"
        if sample.dtype != (torch.float32 if kind == "vectors" else torch.uint8):
            raise WhorlError(f"a source must return uint8 images or float32 vectors, not {sample.dtype}")
        if kind != self.kind or found < wanted or (found > wanted and kind == "vectors"):
            words = {"vectors": "vectors of length", "images": "images of side"}
            other = kind if kind != self.kind else f"{words[kind]} {found}"
            raise WhorlError(f"the network takes {words[self.kind]} {wanted}, not {other}")

    def viewed(self, view: str) -> Inputs:
        """The same with another random view; ``auto`` keeps the present one."""
        return self if view == "auto" or self.kind == "vectors" else replace(self, view=view)

    def plain(self) -> Inputs:
        """The same without random views."""
        return replace(self, view="none", jitter=False)

    def jittered(self) -> Inputs:
        """The same with random brightness and contrast."""
        return self if self.kind == "vectors" else replace(self, jitter=True)

    def train(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """A random view of each sample, normalised."""
        if self.kind == "vectors":
            return self.fixed(samples)
        seen = VIEWS[self.view](samples, self.size, generator)
        return self._normalise(jitter(seen, generator) if self.jitter else seen)

    def fixed(self, samples: Tensor) -> Tensor:
        """The fixed view, normalised: used for features, exemplars, class means and predictions."""
        if self.kind == "vectors":
            return (samples.float() - self.mean[0]) / self.std[0]
        return self._normalise(centre(samples, self.size))

    def mirrored(self, prepared: Tensor) -> Tensor:
        """The mirror images of prepared inputs."""
        return prepared.flip(3)

    def _normalise(self, images: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=images.device) * 255
        scale = 1 / (torch.tensor(self.std, device=images.device) * 255)
        return ((images.float() - mean) * scale).permute(0, 3, 1, 2)


PHOTO_SIZE = 128
"""Images of this side or more count as photos."""
