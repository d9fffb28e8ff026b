"""EEIL's augmentation: a fixed set of augmented copies of every image, recomputed whenever they are read."""

from __future__ import annotations

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whorl.data.inputs import Inputs, brighter, centre, contrasted, moved
from whorl.seeds import generator
from whorl.types import ImageSource, IntArray


def kinds(inputs: Inputs) -> list[tuple[int, bool, bool]]:
    """The copies of an image, as (colour, cropped, mirrored).

    Small images: {original, brightness, contrast} × {original, crop} × {original, mirrored}, twelve copies, or six
    where a mirror image is another class. Photos: {original, mirrored}, each with brightness and
    contrast changed with probability 1/2, and either cropped or resized. Without augmentation: the image itself.
    """
    if inputs.view == "none":
        return [(0, False, False)]
    flips = (False, True) if inputs.mirrors else (False,)
    if inputs.photos:
        return [(0, False, flip) for flip in flips]
    return list(itertools.product(range(3), (False, True), flips))


class Copies:
    """A source with every kind of copy: all images in the first kind, then all in the second, and so on."""

    def __init__(self, source: ImageSource, inputs: Inputs, seed: int) -> None:
        self.source: ImageSource = source
        self.size: int = inputs.size
        self.resident: bool = source.resident
        self._photos = inputs.photos
        self._kinds = kinds(inputs)
        self._draws = torch.rand(len(self), 6, generator=generator(seed, "copies"))

    @property
    def kinds(self) -> int:
        """How many copies there are of each image."""
        return len(self._kinds)

    def __len__(self) -> int:
        return len(self.source) * self.kinds

    def read(self, indices: IntArray) -> Tensor:
        """The copies at ``indices``."""
        kind, which = np.divmod(np.asarray(indices, np.int64), len(self.source))
        images, draws = self.source.read(which), self._draws[torch.from_numpy(np.asarray(indices, np.int64))]
        colour, crop, flip = torch.tensor(self._kinds)[torch.from_numpy(kind)].T
        if self._photos:
            images = self._framed(images, draws)
            colours = [(draws[:, 2] < 0.5, brighter), (draws[:, 3] < 0.5, contrasted)]
        else:
            images = centre(images, self.size)
            colours = [(colour == 1, brighter), (colour == 2, contrasted)]
        for amount, (chosen, change) in enumerate(colours, 4):
            if chosen.any():
                amounts = draws[chosen, amount].to(images.device)
                images[chosen] = change(images[chosen], amounts).round().to(torch.uint8)
        pad = self.size // 8
        offset = (draws[:, :2] * (2 * pad + 1)).floor().long() - pad
        return moved(images, (offset * crop[:, None]).T[:, :, None], flip[:, None].bool())

    def _framed(self, photos: Tensor, draws: Tensor) -> Tensor:
        """Crop half of the photos at a random position and resize the others."""
        out = torch.empty(len(photos), self.size, self.size, 3, dtype=torch.uint8, device=photos.device)
        room = photos.shape[1] - self.size + 1
        for row, (photo, draw) in enumerate(zip(photos, draws, strict=True)):
            if draw[0] < 0.5:
                # The draw that chose the crop also gives its position.
                top, left = int(draw[0] * 2 * room), int(draw[1] * room)
                out[row] = photo[top : top + self.size, left : left + self.size]
            else:
                planes = photo.permute(2, 0, 1)[None].float()
                small = F.interpolate(planes, self.size, mode="bilinear", antialias=True)[0]
                out[row] = small.permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)
        return out
