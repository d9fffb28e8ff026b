"""``precision=auto``: the precision of a stored run, else the faster one on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.speed import Precision, faster


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


_measured = cache(faster)
