"""Measuring how fast this machine trains and extracts features."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

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
from whorl.sections import OptimConfig

BATCH = 64
Precision = Literal["fp32", "bf16"]
GAIN = 1.1
"""bf16 is chosen if it trains at least this much faster."""
SECONDS = 0.5
"""How long each precision is measured."""


def measure(arch: str, size: int, runtime: Runtime, seconds: float) -> tuple[float, float]:
    """Images per second in training and in feature extraction, each measured for ``seconds`` seconds."""
    inputs = Inputs.vectors(size) if arch in FOR_VECTORS else Inputs.images(size)
    model, data = _model(arch, inputs, runtime)
    frozen = model.frozen()
    extraction = _rate(lambda: extract(frozen.backbone, model.dim, data.images, inputs, runtime), len(data), seconds)
    return training_rate(arch, inputs, runtime, seconds), extraction


def training_rate(
    arch: str, inputs: Inputs, runtime: Runtime, seconds: float, backbone: Backbone | None = None
) -> float:
    """Samples per second in training, measured for ``seconds`` seconds after one batch.

    ``backbone`` replaces the network called ``arch``; a copy of it is trained.
    """
    model, data = _model(arch, inputs, runtime, backbone)
    phase = Phase("speed", data, classify, 1_000_000, BATCH, OptimConfig(lr=1e-4))
    epochs = fit(phase, model, inputs, runtime, Purpose(0, 0, 0), Silent())
    next(epochs)
    return _rate(lambda: next(epochs), len(data), seconds)


def faster(arch: str, inputs: Inputs, runtime: Runtime, backbone: Backbone | None = None) -> tuple[Precision, str]:
    """The precision that trains this network, or this ``backbone``, faster here, and the measured rates in words."""
    with threads_for(arch):
        full = training_rate(arch, inputs, runtime.at("fp32"), SECONDS, backbone)
        try:
            half = training_rate(arch, inputs, runtime.at("bf16"), SECONDS, backbone)
        except RuntimeError:  # a device or a network without bf16
            return "fp32", "bf16 is not possible here"
    chosen: Precision = "bf16" if half >= GAIN * full else "fp32"
    return chosen, f"measured {full:.0f} images/s in fp32 and {half:.0f} images/s in bf16"


def _model(arch: str, inputs: Inputs, runtime: Runtime, own: Backbone | None = None) -> tuple[Model, Samples]:
    """A model with ten classes, and random samples for it."""
    draws = torch.Generator().manual_seed(0)
    side = inputs.size
    if inputs.kind == "vectors":
        samples = torch.randn(BATCH, side, generator=draws)
    else:
        samples = torch.randint(0, 256, (BATCH, side, side, 3), dtype=torch.uint8, generator=draws)
    data = Samples(in_memory(samples), np.arange(BATCH) % 10)
    backbone = copy.deepcopy(own) if own else build(arch, inputs, True, 0)
    model = Model(backbone, HEADS["linear"](backbone.dim), 0)
    model.grow(10)
    return runtime.place(model), data


def _rate(work: Callable[[], object], images: int, seconds: float) -> float:
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        work()
        count += images
    return count / (time.perf_counter() - started)
