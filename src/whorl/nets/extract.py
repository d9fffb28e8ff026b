"""Feature extraction: the features of a frozen model in the fixed view."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.data.source import Subset, batches
from whorl.errors import WhorlError
from whorl.nets.model import Model
from whorl.nets.resnet import fold
from whorl.runtime import Runtime
from whorl.types import FloatArray, ImageSource

BATCH = 100
"""Fastest of those measured: smaller batches wait more between layers, larger ones leave the cache."""


def extract(
    backbone: nn.Module, dim: int, images: ImageSource, inputs: Inputs, runtime: Runtime, mirror: bool = False
) -> FloatArray:
    """The features [n, dim] of all samples, or of their mirror images, by a frozen backbone."""
    n = len(images)
    plan = [np.arange(i, min(i + BATCH, n)) for i in range(0, n, BATCH)]
    out = np.empty((n, dim), dtype=np.float32)
    with torch.inference_mode(), runtime.autocast():
        for index, batch in zip(plan, batches(images, plan, runtime.workers), strict=True):
            out[index] = _batch(backbone, dim, batch, inputs, runtime, mirror)
    return out


def seen_by(backbone: nn.Module, dim: int, images: Tensor, inputs: Inputs, runtime: Runtime) -> FloatArray:
    """The features [n, dim] of one batch of images by a frozen backbone."""
    with torch.inference_mode(), runtime.autocast():
        return _batch(backbone, dim, images, inputs, runtime, mirror=False)


def _batch(backbone: nn.Module, dim: int, images: Tensor, inputs: Inputs, runtime: Runtime, mirror: bool) -> FloatArray:
    seen = inputs.fixed(images.to(runtime.device))
    found = backbone(runtime.inputs(inputs.mirrored(seen) if mirror else seen))
    if found.shape != (len(images), dim):
        raise WhorlError(
            f"the backbone returned features of shape {tuple(found.shape)} for {len(images)} samples, "
            f"but its `dim` is {dim}"
        )
    features: FloatArray = found.float().cpu().numpy()
    return features


class Features:
    """Features of a model in training, computed once per source for as long as the backbone does not change.

    Labels, imprinting, exemplar selection and class means all ask for the features of the same samples. Each set is
    extracted once per state of the backbone; any change of its parameters or buffers discards what was computed. The
    values are compared, because version counters miss writes through ``.data``. Features of a part of ``whole`` are
    always taken from those of all of it, so that they do not depend on what was asked for before.
    """

    def __init__(self, model: Model, inputs: Inputs, runtime: Runtime, whole: ImageSource | None = None) -> None:
        self.model: Model = model
        self._inputs, self._runtime, self._whole = inputs, runtime, whole
        self._state: list[Tensor] = []
        self._frozen: nn.Module | None = None
        self._known: dict[tuple[int, bool], tuple[ImageSource, FloatArray]] = {}

    def __call__(self, images: ImageSource, mirror: bool = False) -> FloatArray:
        """The features [n, dim] of ``images``, or of their mirror images."""
        backbone = self.model.backbone
        state = [one.detach() for one in (*backbone.parameters(), *backbone.buffers())]
        same = len(state) == len(self._state) and all(map(torch.equal, state, self._state))
        if self._frozen is None or not same:
            self._state, self._frozen, self._known = [one.clone() for one in state], fold(backbone), {}
        key = id(images), mirror
        if key not in self._known:
            rows = None
            if self._whole is not None and images is not self._whole and isinstance(images, Subset):
                rows = images.within(self._whole)
            if self._whole is not None and rows is not None:
                found = self(self._whole, mirror)[rows]
            else:
                found = extract(self._frozen, self.model.dim, images, self._inputs, self._runtime, mirror)
            self._known[key] = images, found
        return self._known[key][1]
