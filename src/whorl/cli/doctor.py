"""``whorl doctor``: versions, hardware and speed."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from whorl.cli.lines import say

PACKAGES = "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic", "Pillow", "pooch", "datasets"
SECONDS = 5.0


def doctor() -> None:
    """Print versions, cores and devices, and measure the speed for ten seconds."""
    import torch

    from whorl import __version__
    from whorl.recipes import RECIPES
    from whorl.runtime import Runtime, find_device
    from whorl.sections import TrainConfig
    from whorl.speed import measure

    say(f"whorl {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    say(", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    threads, level = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
    say(f"{os.cpu_count()} cores, torch uses {threads} threads, {level}")
    device = find_device()
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        say(f"cuda:{number} {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    say(f"device chosen by --device auto: {device}")
    train, extract = measure("resnet32", 32, Runtime(device), SECONDS)
    say(f"ResNet-32 on 32×32 images, float32: training {train:.0f} images/s, features {extract:.0f} images/s")
    spec = TrainConfig(**RECIPES["fast"]["train"])
    replayed = sum(5000 + 200 * task for task in range(1, 10)) * spec.epochs
    hours = spec.pixels * (spec.first_epochs * 5000 / train + replayed * (1 / train + 1 / extract)) / 3600
    say(f"`whorl run --data cifar100 --recipe fast` over all ten tasks would take about {hours:.1f} hours here")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
