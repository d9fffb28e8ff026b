"""``precision=auto``: the precision of a stored run, else the faster one on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.nets.backbone import Backbone
from whorl.runs.run import Run
from whorl.runtime import Runtime, threads_for
from whorl.speed import training_rate

Precision = Literal["fp32", "bf16"]
GAIN = 1.1
"""bf16 is chosen if it trains at least this much faster."""
SECONDS = 0.5
"""How long each precision is measured."""


def settled(
    config: ExperimentConfig, data: Dataset, out: Path, runtime: Runtime, notify: Callable[[str], None]
) -> ExperimentConfig:
    """The config with ``precision=auto`` replaced by the precision to use; ``notify`` receives the reason.

    A run that is stored below ``out`` keeps its precision, also on a machine where the other one would be faster.
    """
    if config.precision != "auto":
        return config
    for precision in get_args(Precision):
        stored = config.model_copy(update={"precision": precision})
        if Run.at(out, stored).path.exists():
            return stored
    precision, reason = _measured(config.net.arch, data.inputs.size, runtime)
    notify(f"`precision=auto`: {precision} ({reason})")
    return config.model_copy(update={"precision": precision})


def faster(arch: str, size: int, runtime: Runtime, backbone: Backbone | None = None) -> tuple[Precision, str]:
    """The precision that trains this network, or this ``backbone``, faster here, and the measured rates in words."""
    with threads_for(arch):
        rates = {each: training_rate(arch, size, runtime.at(each), SECONDS, backbone) for each in get_args(Precision)}
    chosen: Precision = "bf16" if rates["bf16"] >= GAIN * rates["fp32"] else "fp32"
    words = " and ".join(f"{rate:.0f} images/s in {each}" for each, rate in rates.items())
    return chosen, f"measured {words}"


_measured = cache(faster)
