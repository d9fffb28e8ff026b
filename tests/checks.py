"""Small configs and learners for tests, and exact comparisons of runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whorl.config import ExperimentConfig, LearnerConfig
from whorl.data.source import Dataset
from whorl.data.stream import Stream, class_incremental, split_sizes
from whorl.engine import Learner
from whorl.methods import method_class
from whorl.recipes import resolve
from whorl.reporter import EpochRecord, Silent
from whorl.runs.files import read_json, read_tensors, write_json, write_tensors
from whorl.runtime import Runtime
from whorl.scores import TaskScores, plain
from whorl.tree import Tree, merge, override
from whorl.types import ImageSource, IntArray

OWN: dict[str, Tree] = {
    "bic": {"method": {"every": 2, "correction_epochs": 2}},
    "eeil": {"method": {"balanced_epochs": 2}},
    "ilio": {"train": {"epochs": 1}},
}
"""Settings that fit a method to this little data."""


class Logged:
    """A source that records what is read from it."""

    def __init__(self, source: ImageSource, resident: bool = True) -> None:
        self.source, self.size, self.resident = source, source.size, resident
        self.log: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.source)

    def read(self, indices: IntArray) -> Tensor:
        self.log.append(np.asarray(indices).tolist())
        return self.source.read(indices)


def small_config(**changes: Any) -> ExperimentConfig:
    """Three tasks of two classes, two epochs each, of the six small synthetic classes; write dots as ``__``."""
    base: Tree = {
        "data": {"name": "synthetic", "classes": 6, "per_class": 20, "resize": 8},
        "stream": {"step": 2},
        "train": {"first_epochs": 2, "epochs": 2, "batch": 16},
        "cluster": {"restarts": 2},
    }
    name = changes.get("method__name", "ours")
    if method_class(name).needs_memory:
        base["memory"] = {"quota": 4}
    base = merge(base, OWN.get(name, {}))
    return resolve(merge(base, override(*((key.replace("__", "."), value) for key, value in changes.items()))))


def without_views(data: Dataset) -> Dataset:
    """The data set without random views, so that images can be recognised in training."""
    return replace(data, inputs=data.inputs.plain())


def streams(config: ExperimentConfig, data: Dataset) -> Stream:
    sizes = split_sizes(len(data.class_names), config.stream.step, config.stream.first, config.stream.tasks)
    return class_incremental(data, sizes, config.stream.order, config.labels == "given")[0]


def make_learner(config: LearnerConfig, data: Dataset) -> Learner:
    return Learner(config, data.inputs, Runtime())


def learn(learner: Learner, stream: Stream) -> None:
    for delivery in stream:
        for _ in learner.learn(delivery, Silent()):
            pass


def stored(path: Path) -> dict[str, Tensor]:
    """Every tensor in a run's folder."""
    files = sorted(path.glob("*.safetensors"))
    return {f"{file.name}:{name}": tensor for file in files for name, tensor in read_tensors(file)[0].items()}


def unbind(path: Path) -> None:
    """Rewrite the files of a run as versions did that stored no hash of the run in them."""
    for file in path.glob("*.safetensors"):
        tensors, about = read_tensors(file)
        write_tensors(file, tensors, {key: value for key, value in about.items() if key != "run"})
    scores = read_json(path / "scores.json")
    write_json(path / "scores.json", {key: value for key, value in scores.items() if key != "run"})


def stored_bytes(path: Path) -> dict[str, bytes]:
    """Every file in a run's folder except the lock, as bytes."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(steps: tuple[TaskScores, ...]) -> list[dict[str, Any]]:
    """The scores without the times."""
    return [{k: v for k, v in plain(step).items() if k not in ("seconds", "images_per_second")} for step in steps]


class Notes(Silent):
    """Remembers the lines for the user."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


class Killed(Exception):
    """Stands for a kill."""


class KillAfter(Silent):
    """Ends the run right after the given epoch was saved, counted over the whole run."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def epoch(self, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


class StopsInTask2(Silent):
    """Ends the run after an epoch of task 2 was saved."""

    def epoch(self, record: EpochRecord) -> None:
        if record.task == 2:
            raise InterruptedError


def killer(event: int) -> Callable[..., None]:
    """A function that kills this process with SIGKILL when it is called for the ``event``-th time."""
    left = event

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count
