"""Contact sheets: images of each cluster, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from whorl.types import ImageSource, IntArray

Pixels = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

FRAME = (213, 94, 0)  # Okabe and Ito's vermilion


@dataclass(frozen=True, eq=False)
class Cluster:
    """One pseudo class: a sample of its images, and the true class of most of its members."""

    label: int
    size: int
    majority: str
    """The true class of most members. The learner never saw it."""
    share: float
    """The fraction of members with that class."""
    images: Pixels
    """A sample of the members, [n, side, side, 3]."""
    strangers: Flags
    """Which images of the sample have another class."""


def clusters(
    images: ImageSource, labels: IntArray, truth: IntArray, names: Sequence[str], sample: int
) -> list[Cluster]:
    """The clusters of ``images`` under ``labels``, by label. ``truth`` holds indices into ``names``."""
    found = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        counts = np.bincount(truth[members])
        majority, share = int(counts.argmax()), float(counts.max() / len(members))
        shown = members[evenly(len(members), sample)]
        pixels, strangers = images.read(shown).cpu().numpy(), truth[shown] != majority
        found.append(Cluster(int(label), len(members), names[majority], share, pixels, strangers))
    return found


def evenly(total: int, count: int) -> IntArray:
    """``count`` positions spread evenly over 0 to total-1, or all positions if there are fewer."""
    count = min(count, total)
    return np.arange(count, dtype=np.int64) * total // max(count, 1)


def resized(images: Pixels, side: int) -> Pixels:
    """Square images [n, s, s, 3] at about ``side``: small ones enlarged by repeating pixels, large ones averaged."""
    if (scale := side // images.shape[1]) >= 1:
        return images.repeat(scale, axis=1).repeat(scale, axis=2)
    box = Image.Resampling.BOX
    return np.stack([np.asarray(Image.fromarray(image).resize((side, side), box)) for image in images])


def strip(images: Pixels, framed: Flags, gap: int) -> Pixels:
    """Square images [n, s, s, 3] side by side, as RGBA.

    Every image has a margin of ``gap`` pixels: transparent, or of the colour :data:`FRAME` where ``framed``.
    """
    opaque = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=255)
    cells = np.pad(opaque, ((0, 0), (gap, gap), (gap, gap), (0, 0)))
    margin = (cells[..., 3] == 0) & framed[:, None, None]
    cells[margin] = *FRAME, 255
    return np.concatenate(list(cells), axis=1)


def png(pixels: Pixels) -> bytes:
    """Pixels (grey, RGB or RGBA) as PNG."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="PNG", optimize=True)
    return out.getvalue()
