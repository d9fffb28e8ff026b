"""Measuring how fast this machine trains and extracts features."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch

from whorl.config import OptimConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples, in_memory
from whorl.fit import Purpose, fit
from whorl.methods.base import Phase
from whorl.methods.losses import classify
from whorl.nets.backbone import FOR_VECTORS, Backbone, build
from whorl.nets.extract import extract
from whorl.nets.heads import HEADS
from whorl.nets.model import Model
from whorl.reporter import Silent
from whorl.runtime import Runtime, threads_for

BATCH = 64
Precision = Literal["fp32", "bf16"]
GAIN = 1.1
"""bf16 is chosen if it trains at least this much faster."""
SECONDS = 0.5
"""How long each precision is measured."""


def measure(arch: str, size: int, runtime: Runtime, seconds: float) -> tuple[float, float]:
    """Images per second in training and in feature extraction, each measured for ``seconds`` seconds."""
    model, data, inputs = _trained(arch, size, runtime)
    frozen = model.frozen()
    extraction = _rate(lambda: extract(frozen.backbone, model.dim, data.images, inputs, runtime), len(data), seconds)
    return training_rate(arch, size, runtime, seconds), extraction


def training_rate(arch: str, size: int, runtime: Runtime, seconds: float, backbone: Backbone | None = None) -> float:
    """Images per second in training, measured for ``seconds`` seconds after one batch; 0 where it is not possible.

    ``backbone`` replaces the network called ``arch``; a copy of it is trained.
    """
    model, data, inputs = _trained(arch, size, runtime, backbone)
    phase = Phase("speed", data, classify, 1_000_000, BATCH, OptimConfig(lr=1e-4))
    epochs = fit(phase, model, inputs, runtime, Purpose(0, 0, 0), Silent())
    try:
        next(epochs)
        return _rate(lambda: next(epochs), len(data), seconds)
    except (RuntimeError, NotImplementedError):  # a device without bf16
        return 0.0


def faster(arch: str, size: int, runtime: Runtime, backbone: Backbone | None = None) -> tuple[Precision, str]:
    """The precision that trains this network, or this ``backbone``, faster here, and the measured rates in words."""
    with threads_for(arch):
        rates = {each: training_rate(arch, size, runtime.at(each), SECONDS, backbone) for each in get_args(Precision)}
    chosen: Precision = "bf16" if rates["bf16"] >= GAIN * rates["fp32"] else "fp32"
    words = " and ".join(f"{rate:.0f} images/s in {each}" for each, rate in rates.items())
    return chosen, f"measured {words}"


def _trained(arch: str, size: int, runtime: Runtime, own: Backbone | None = None) -> tuple[Model, Samples, Inputs]:
    """A model with ten classes, random samples and how they are prepared."""
    draws = torch.Generator().manual_seed(0)
    if arch in FOR_VECTORS:
        inputs, samples = Inputs.vectors(size), torch.randn(BATCH, size, generator=draws)
    else:
        inputs = Inputs.images(size)
        samples = torch.randint(0, 256, (BATCH, size, size, 3), dtype=torch.uint8, generator=draws)
    data = Samples(in_memory(samples), np.arange(BATCH) % 10)
    backbone = copy.deepcopy(own) if own else build(arch, inputs, True, 0)
    model = Model(backbone, HEADS["linear"](backbone.dim), 0)
    model.grow(10)
    return runtime.place(model), data, inputs


def _rate(work: Callable[[], object], images: int, seconds: float) -> float:
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        work()
        count += images
    return count / (time.perf_counter() - started)
