"""``precision=auto``: the precision of a stored run, else the faster one on this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import get_args

from whorl.config import ExperimentConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.known import is_pretrained
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.speed import Precision, faster


def settled(
    config: ExperimentConfig, data: Dataset, out: Path, runtime: Runtime, notify: Callable[[str], None]
) -> ExperimentConfig:
    """The config with ``precision=auto`` replaced by the precision to use; ``notify`` receives the reason.

    A run that is stored below ``out`` keeps its precision, also on a machine where the other one would be faster. If
    both are stored, the run with more finished tasks is meant.
    """
    if config.precision != "auto":
        return config
    stored = list[tuple[int, ExperimentConfig]]()
    for precision in get_args(Precision):
        candidate = config.model_copy(update={"precision": precision})
        with suppress(WhorlError):
            stored.append((len(Run.open(Run.at(out, candidate).path).scores().steps), candidate))
    if stored:
        return max(stored, key=lambda pair: pair[0])[1]
    if config.net.tune == "none" or is_pretrained(config.net.arch):
        notify("`precision=auto`: fp32 (pretrained and frozen networks are not measured)")
        return config.model_copy(update={"precision": "fp32"})
    return config.model_copy(update={"precision": _measured(config.net.arch, data.inputs, runtime, notify)})


@cache
def _measured(arch: str, inputs: Inputs, runtime: Runtime, notify: Callable[[str], None]) -> Precision:
    """The faster precision, measured and announced once."""
    precision, reason = faster(arch, inputs, runtime)
    notify(f"`precision=auto`: {precision} ({reason})")
    return precision
