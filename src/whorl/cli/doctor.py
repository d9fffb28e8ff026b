"""``whorl doctor``: what is installed, what the machine has, and how fast it is."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whorl.runtime import Runtime

PACKAGES = "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic", "Pillow", "pooch", "datasets"
SECONDS = 5.0


def doctor() -> None:
    """Print versions, cores and devices, and test the speed for ten seconds."""
    import torch

    from whorl import __version__
    from whorl.recipes import RECIPES
    from whorl.runtime import Runtime, find_device

    print(f"whorl {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    threads, level = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
    print(f"{os.cpu_count()} cores, torch uses {threads} threads, {level}")
    device = find_device()
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        print(f"cuda:{number} {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    print(f"device chosen by --device auto: {device}")
    train, look = _speed(Runtime(device))
    print(f"ResNet-32 on 32×32 images, float32: training {train:.0f} images/s, features {look:.0f} images/s")
    spec = RECIPES["fast"]["train"]
    replayed = sum(5000 + 200 * task for task in range(1, 10)) * spec["epochs"]
    hours = (spec["first_epochs"] * 5000 / train + replayed * (1 / train + 1 / look)) / 3600
    print(f"`whorl run --data cifar100 --recipe fast` over all ten tasks would take about {hours:.1f} hours here")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _speed(runtime: Runtime) -> tuple[float, float]:
    """Images a second in training and in looking, each measured for half of the time."""
    import numpy as np
    import torch

    from whorl.config import OptimConfig
    from whorl.data.augment import Augment
    from whorl.data.source import ArraySource
    from whorl.fit import fit
    from whorl.methods.base import Phase, Samples
    from whorl.methods.losses import cross_entropy
    from whorl.nets.extract import extract
    from whorl.nets.model import Model
    from whorl.reporter import Silent

    images = torch.randint(0, 256, (256, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Samples(ArraySource(images), np.arange(256) % 10)
    augment = Augment("crop_flip", 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    model = runtime.place(Model("resnet32", "linear", True, 0))
    model.grow(10)
    model = runtime.place(model)
    phase = Phase("speed", data, lambda b: cross_entropy(b.logits, b.labels), 10_000, 64, OptimConfig(lr=1e-4))
    epochs = fit(phase, model, augment, runtime, 0, (0,), Silent())
    next(epochs)
    train = _rate(lambda: next(epochs), 256)
    frozen = model.frozen()
    return train, _rate(lambda: extract(frozen, data.images, augment, runtime), 256)


def _rate(work: Callable[[], object], images: int) -> float:
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        work()
        count += images
    return count / (time.perf_counter() - started)
