"""How fast this machine is, by trying."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from whorl.config import OptimConfig
from whorl.data.augment import Augment
from whorl.data.source import ArraySource
from whorl.fit import fit
from whorl.methods.base import Phase, Samples
from whorl.methods.losses import classify
from whorl.nets.extract import extract
from whorl.nets.model import Model
from whorl.reporter import Silent
from whorl.runtime import Runtime

IMAGES = 256


def measure(arch: str, size: int, runtime: Runtime, seconds: float) -> tuple[float, float]:
    """Images a second in training and in looking, each tried for so many seconds."""
    shape = (IMAGES, size, size, 3)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Samples(ArraySource(images), np.arange(IMAGES) % 10)
    augment = Augment("crop_flip", size, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    model = runtime.place(Model(arch, "linear", True, 0))
    model.grow(10)
    model = runtime.place(model)
    phase = Phase("speed", data, classify, 1_000_000, 64, OptimConfig(lr=1e-4))
    epochs = fit(phase, model, augment, runtime, 0, (0,), Silent())
    next(epochs)
    train = _rate(lambda: next(epochs), seconds)
    frozen = model.frozen()
    return train, _rate(lambda: extract(frozen, data.images, augment, runtime), seconds)


def _rate(work: Callable[[], object], seconds: float) -> float:
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        work()
        count += IMAGES
    return count / (time.perf_counter() - started)
