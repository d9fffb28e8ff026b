"""Looking at images: features from a frozen model, in the fixed view."""

from __future__ import annotations

import numpy as np
import torch

from whorl.data.augment import Augment
from whorl.data.source import batches
from whorl.nets.model import Model
from whorl.runtime import Runtime
from whorl.types import FloatArray, ImageSource

BATCH = 100
"""Measured: smaller ones wait more between layers, larger ones leave the cache."""


def extract(model: Model, images: ImageSource, augment: Augment, runtime: Runtime, mirror: bool = False) -> FloatArray:
    """The features [n, d] of all images, or their mirror images, by a model that :meth:`Model.frozen` has made."""
    n = len(images)
    plan = [np.arange(i, min(i + BATCH, n)) for i in range(0, n, BATCH)]
    out = np.empty((n, model.backbone.dim), dtype=np.float32)
    with torch.inference_mode(), runtime.autocast():
        for index, batch in zip(plan, batches(images, plan, runtime.workers), strict=True):
            seen = augment.look(batch.to(runtime.device))
            x = runtime.inputs(seen.flip(3) if mirror else seen)
            out[index] = model.backbone(x).float().cpu().numpy()
    return out
