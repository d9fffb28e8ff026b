"""A backbone that is not trained: samples become its features, which are computed once and then learned as vectors."""

from __future__ import annotations

import copy
import hashlib
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.data.source import batches
from whorl.errors import WhorlError
from whorl.nets.backbone import Backbone, check_fit, inputs_of, module
from whorl.nets.extract import BATCH, seen_by
from whorl.nets.resnet import fold
from whorl.nets.weights import fingerprint
from whorl.runtime import Runtime
from whorl.types import FloatArray, ImageSource, IntArray


class Store(Protocol):
    """Keeps features between runs. It may lose any of them at any time."""

    def load(self, key: str, shape: tuple[int, int]) -> FloatArray | None:
        """The features [n, dim] that were saved under this key, or None."""
        ...

    def save(self, key: str, features: FloatArray) -> None:
        """Keep features under a key."""
        ...


class FrozenBackbone:
    """Turns sources of images into sources of their features, in the fixed view.

    The images are taken in blocks of a fixed composition, so that the features of an image do not depend on what was
    asked for before, nor on what the ``store`` holds.
    """

    def __init__(self, backbone: Backbone, data: Inputs, runtime: Runtime, store: Store | None = None) -> None:
        self.inputs: Inputs = inputs_of(backbone, data).plain()
        if self.inputs.kind == "vectors":
            raise WhorlError("`net.tune=none` is for images, and these are vectors; leave `net.tune` out")
        self.dim: int = backbone.dim
        self._runtime, self._store = runtime, store
        self._set(module(backbone))
        check_fit(self.net, self.inputs, runtime)

    def _set(self, net: nn.Module) -> None:
        self.net: nn.Module = net.eval().requires_grad_(False)
        self._folded = fold(self._runtime.place(copy.deepcopy(net)))
        preparation = self.inputs, getattr(net, "origin", None), self._runtime.precision, self._runtime.device
        self._about = f"1 {fingerprint(net)} {preparation}".encode()

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take over stored weights; raises a ``WhorlError`` if they do not fit."""
        try:
            self.net.load_state_dict(weights)
        except RuntimeError as error:
            raise WhorlError(f"the stored weights do not fit ({str(error).splitlines()[-1].strip()})") from None
        self._set(self.net)

    def __call__(self, images: ImageSource, groups: IntArray | None = None) -> ImageSource:
        """The features of a source of images; a source of such features is returned as it is.

        No block has samples of two ``groups``, so that reading some groups leaves the others alone.
        """
        if len(images) and images.read(np.arange(1)).ndim == 2:
            return images
        self.inputs.check(images)
        return FeatureSource(self, images, groups)

    def block(self, images: Tensor) -> FloatArray:
        """The features [n, dim] of a block of images."""
        found = hashlib.sha256(self._about + str(tuple(images.shape)).encode())
        found.update(images.cpu().numpy().tobytes())
        key = found.hexdigest()
        if self._store and (kept := self._store.load(key, (len(images), self.dim))) is not None:
            return kept
        computed = seen_by(self._folded, self.dim, images, self.inputs, self._runtime)
        if self._store:
            self._store.save(key, computed)
        return computed

    def blocks(self, images: ImageSource, rows: list[IntArray]) -> list[FloatArray]:
        """The features of several blocks of a source."""
        return [self.block(each) for each in batches(images, rows, self._runtime.workers)]


class FeatureSource:
    """The features of images as a source of vectors. Each block is computed when one of its samples is first read."""

    resident = True

    def __init__(self, backbone: FrozenBackbone, images: ImageSource, groups: IntArray | None = None) -> None:
        self.images: ImageSource = images
        self._backbone = backbone
        self._blocks = blocks(np.zeros(len(images), np.int64) if groups is None else groups)
        self._block_of = np.empty(len(images), np.int64)
        for number, rows in enumerate(self._blocks):
            self._block_of[rows] = number
        self._there = np.zeros(len(self._blocks), np.bool_)
        self._features = np.zeros((len(images), backbone.dim), np.float32)

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return self._backbone.dim

    def __len__(self) -> int:
        return len(self.images)

    def read(self, indices: IntArray) -> Tensor:
        """The features at ``indices``."""
        wanted = np.unique(self._block_of[indices])
        missing = [int(number) for number in wanted[~self._there[wanted]]]
        rows = [self._blocks[number] for number in missing]
        for number, index, found in zip(missing, rows, self._computed(rows), strict=True):
            self._features[index] = found
            self._there[number] = True
        return torch.from_numpy(self._features[indices])

    def _computed(self, rows: list[IntArray]) -> list[FloatArray]:
        return self._backbone.blocks(self.images, rows) if rows else []


def blocks(groups: IntArray) -> list[IntArray]:
    """The positions of all samples in blocks of at most :data:`BATCH`, none of which has samples of two groups."""
    found = list[IntArray]()
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        found += np.split(mine, range(BATCH, len(mine), BATCH))
    return found
