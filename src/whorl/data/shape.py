"""Applies the options that work for every data set: number of classes, samples per class, image size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from whorl.data.options import DataOptions
from whorl.data.parts import fits
from whorl.data.source import ArraySource, Dataset, Subset
from whorl.data.split import choose
from whorl.errors import WhorlError
from whorl.types import ImageSource, IntArray

_CHUNK = 256
"""Images that are resized at a time."""


def shape(data: Dataset, options: DataOptions) -> Dataset:
    """``data`` with the options applied. An option that the loader has already applied changes nothing."""
    if options.classes is not None:
        data = _keep_classes(data, options.classes)
    if options.per_class is not None:
        data = _rows(data, choose(data.train_labels, options.per_class), np.arange(len(data.test)))
    if options.resize is not None:
        data = _resize(data, options.resize)
    return data


def _keep_classes(data: Dataset, count: int) -> Dataset:
    """The data set with classes 0..count-1 only."""
    if count > len(data.class_names):
        raise WhorlError(f"{data.name} has {len(data.class_names)} classes, fewer than `data.classes={count}`")
    few = _rows(data, np.flatnonzero(data.train_labels < count), np.flatnonzero(data.test_labels < count))
    return replace(few, class_names=data.class_names[:count])


def _rows(data: Dataset, train: IntArray, test: IntArray) -> Dataset:
    """The data set with these training and test samples only. A part that stays complete is not wrapped."""
    return replace(
        data,
        train=data.train if len(train) == len(data.train) else Subset(data.train, train),
        test=data.test if len(test) == len(data.test) else Subset(data.test, test),
        train_labels=data.train_labels[train],
        test_labels=data.test_labels[test],
    )


def _resize(data: Dataset, size: int) -> Dataset:
    if data.inputs.kind == "vectors":
        raise WhorlError(f"{data.name}: vectors have no size in pixels; leave `data.resize` out")
    if data.inputs.size == size:
        return data
    if not (data.train.resident and data.test.resident):
        raise WhorlError(f"{data.name} cannot be resized, because it is not held in memory; leave `data.resize` out")
    held = fits(len(data.train) + len(data.test), size)
    train, test = (resized(source, size, held) for source in (data.train, data.test))
    return replace(data, train=train, test=test, inputs=replace(data.inputs, size=size))


def resized(source: ImageSource, size: int, held: bool) -> ImageSource:
    """The images of ``source`` resized to side ``size`` (bilinear, antialiased).

    They are in memory if ``held``, and otherwise resized each time they are read.
    """
    on_demand = Resized(source, size)
    if not held:
        return on_demand
    out = torch.empty((len(source), size, size, 3), dtype=torch.uint8)
    for start in range(0, len(source), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(source)))
        out[start : start + len(rows)] = on_demand.read(rows).cpu()
    return ArraySource(out)


class Resized:
    """The images of another source, resized each time they are read."""

    resident = False

    def __init__(self, source: ImageSource, size: int) -> None:
        self.source: ImageSource = source
        self.size: int = size

    def __len__(self) -> int:
        return len(self.source)

    def read(self, indices: IntArray) -> Tensor:
        """Resize the images at ``indices``."""
        pixels = self.source.read(indices).permute(0, 3, 1, 2).float()
        pixels = interpolate(pixels, size=(self.size, self.size), mode="bilinear", antialias=True, align_corners=False)
        return pixels.round_().clamp_(0, 255).permute(0, 2, 3, 1).to(torch.uint8)
