"""Runs that take a second or two: their config, the tensors that they store, and a way to stop one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whorl.config import ExperimentConfig, Tree, merge, override
from whorl.recipes import resolve
from whorl.reporter import EpochRecord, Silent
from whorl.runs.files import read_tensors

SMALL: Tree = {
    "data": {"name": "synthetic", "classes": 6, "per_class": 20, "resize": 8},
    "stream": {"step": 2},
    "train": {"first_epochs": 2, "epochs": 2, "batch": 16},
    "cluster": {"restarts": 2},
}
"""Three tasks of two classes, in two epochs each."""


def small_config(**changes: Any) -> ExperimentConfig:
    """A config with these changes; a key such as ``memory.quota`` is written ``memory__quota``."""
    memory = {} if changes.get("method__name") == "lwf" else {"memory": {"quota": 4}}
    return resolve(merge(SMALL, memory, override(*((key.replace("__", "."), value) for key, value in changes.items()))))


class StopsInTask2(Silent):
    """Ends the run after an epoch of task 2 was saved."""

    def epoch(self, record: EpochRecord) -> None:
        if record.task == 2:
            raise InterruptedError


def stored(path: Path) -> dict[str, Tensor]:
    """Every tensor in a run's folder."""
    files = sorted(path.glob("*.safetensors"))
    return {f"{file.name}:{name}": tensor for file in files for name, tensor in read_tensors(file)[0].items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two runs stored the same tensors, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
