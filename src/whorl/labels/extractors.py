"""Extractors: which features pseudo labels are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from whorl import registry
from whorl.cluster.base import random_state
from whorl.data.inputs import Inputs
from whorl.labels.whiten import Whitening
from whorl.nets.extract import BATCH
from whorl.types import FloatArray, ImageSource

LARGEST = 64
"""Larger images are scaled down to this side before PCA."""


@dataclass(frozen=True)
class Sight:
    """What an extractor can use: the features of samples by several models, and the inputs themselves."""

    current: Callable[[ImageSource], FloatArray]
    """By the model after the previous delivery."""
    initial: Callable[[ImageSource], FloatArray]
    """By the model after the initial delivery."""
    random: Callable[[ImageSource], FloatArray]
    """By a network with random weights; always the same one for a seed."""
    inputs: Inputs
    dim: int
    """The number of features of the backbone."""
    seed: int
    networks: Callable[[ImageSource], FloatArray] | None = None
    """By the networks that were trained for pseudo labels, side by side; None if there are none."""
    whitening: Whitening | None = None
    """What is done to the features before they are clustered."""


Extractor = Callable[[ImageSource, Sight], FloatArray]
"""(samples, sight) → features [n, d] to cluster."""


def current(images: ImageSource, sight: Sight) -> FloatArray:
    """The features of the last model: the paper's choice."""
    return sight.current(images)


def initial(images: ImageSource, sight: Sight) -> FloatArray:
    """The features of the model after the initial delivery (the paper's FFE)."""
    return sight.initial(images)


def networks(images: ImageSource, sight: Sight) -> FloatArray:
    """The features of the networks that were trained on the initial delivery for pseudo labels, side by side."""
    assert sight.networks is not None
    return sight.networks(images)


def scratch(images: ImageSource, sight: Sight) -> FloatArray:
    """The features of a random network."""
    return sight.random(images)


def pca(images: ImageSource, sight: Sight) -> FloatArray:
    """Principal components of the inputs, as many as the backbone has features."""
    return principal_components(images, sight.inputs, sight.dim, sight.seed)


EXTRACTORS: dict[str, Extractor] = {
    "current": current,
    "first": initial,
    "networks": networks,
    "scratch": scratch,
    "pca": pca,
}
GROUP = "whorl.extractors"
"""The entry point group of third-party extractors."""


def find(name: str) -> Extractor:
    """The extractor called ``name``."""
    return registry.find("extractor", name, EXTRACTORS, GROUP)


def flattened(images: ImageSource, inputs: Inputs) -> FloatArray:
    """The prepared samples in their fixed view as rows [n, 3 · side²], or [n, D] for vectors."""
    rows = []
    for start in range(0, len(images), BATCH):
        seen = inputs.fixed(images.read(np.arange(start, min(start + BATCH, len(images)))).cpu())
        if seen.ndim == 4 and seen.shape[-1] > LARGEST:
            seen = F.interpolate(seen, LARGEST, mode="bilinear", antialias=True)
        rows.append(seen.flatten(1))
    return torch.cat(rows).numpy()


def principal_components(images: ImageSource, inputs: Inputs, components: int, seed: int) -> FloatArray:
    """The first principal components of the samples, fitted on them, not whitened."""
    points = flattened(images, inputs)
    model = PCA(
        min(components, *points.shape),
        svd_solver="randomized",
        iterated_power=7,
        random_state=random_state(seed),
    )
    with threadpool_limits(1):
        return np.asarray(model.fit_transform(points), dtype=np.float32)
