"""Principal components of pixels: what clustering sees in the PCA row, which needs no network."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from whorl.cluster.base import random_state
from whorl.data.augment import Augment
from whorl.nets.extract import BATCH
from whorl.types import FloatArray, ImageSource

LARGEST = 64
"""Side to which larger images are shrunk first."""


def pixels(images: ImageSource, augment: Augment) -> FloatArray:
    """The normalised images in their fixed view as rows [n, 3 · side²]."""
    rows = []
    for start in range(0, len(images), BATCH):
        seen = augment.look(images.read(np.arange(start, min(start + BATCH, len(images)))))
        if seen.shape[-1] > LARGEST:
            seen = F.interpolate(seen, LARGEST, mode="bilinear", antialias=True)
        rows.append(seen.flatten(1))
    return torch.cat(rows).numpy()


def principal_components(images: ImageSource, augment: Augment, components: int, seed: int) -> FloatArray:
    """The first components of the pixels, fitted on these images, not whitened; as many as the net has features."""
    points = pixels(images, augment)
    model = PCA(
        min(components, *points.shape),
        svd_solver="randomized",
        iterated_power=7,
        random_state=random_state(seed),
    )
    with threadpool_limits(1):
        return np.asarray(model.fit_transform(points), dtype=np.float32)
