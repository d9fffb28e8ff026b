"""Measuring how fast this machine trains and extracts features."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from whorl.config import OptimConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples, in_memory
from whorl.fit import Purpose, fit
from whorl.methods.base import Phase
from whorl.methods.losses import classify
from whorl.nets.backbone import FOR_VECTORS, build
from whorl.nets.extract import extract
from whorl.nets.heads import HEADS
from whorl.nets.model import Model
from whorl.reporter import Silent
from whorl.runtime import Runtime

IMAGES = 256


def measure(arch: str, size: int, runtime: Runtime, seconds: float) -> tuple[float, float]:
    """Images per second in training and in feature extraction, each measured for ``seconds`` seconds."""
    draws = torch.Generator().manual_seed(0)
    if arch in FOR_VECTORS:
        inputs, samples = Inputs.vectors(size), torch.randn(IMAGES, size, generator=draws)
    else:
        inputs = Inputs.images(size)
        samples = torch.randint(0, 256, (IMAGES, size, size, 3), dtype=torch.uint8, generator=draws)
    data = Samples(in_memory(samples), np.arange(IMAGES) % 10)
    backbone = build(arch, inputs, True, 0)
    model = Model(backbone, HEADS["linear"](backbone.dim), 0)
    model.grow(10)
    model = runtime.place(model)
    phase = Phase("speed", data, classify, 1_000_000, 64, OptimConfig(lr=1e-4))
    epochs = fit(phase, model, inputs, runtime, Purpose(0, 0, 0), Silent())
    next(epochs)
    train = _rate(lambda: next(epochs), seconds)
    frozen = model.frozen()
    return train, _rate(lambda: extract(frozen.backbone, model.dim, data.images, inputs, runtime), seconds)


def _rate(work: Callable[[], object], seconds: float) -> float:
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        work()
        count += IMAGES
    return count / (time.perf_counter() - started)
