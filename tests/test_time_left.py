"""The time left: the work that an experiment announces is what its batches add up to, also after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import checks
from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.experiment import run, workload
from whorl.reporter import EpochRecord, Silent
from whorl.runs.checkpoint import load_epoch
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run

NETWORKS = {"pseudo__features": "networks", "pseudo__networks": 2}


class Work(Silent):
    """Counts the announced work and that of the batches; ends the run after the given epoch, if any."""

    def __init__(self, epochs: int = 0) -> None:
        self.total = self.before = self.done = 0
        self.left = epochs

    def begin(self, tasks: int, images: int, done: int) -> None:
        self.total, self.before, self.done = images, done, done

    def tick(self, images: int, loss: Tensor) -> None:
        self.done += images

    def epoch(self, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            raise checks.Killed


def work(config: ExperimentConfig, data: Dataset, out: Path, epochs: int = 0) -> Work:
    """The work of a run until it ends, or is killed after so many epochs."""
    seen = Work(epochs)
    try:
        run(config, data, out, reporter=seen)
    except checks.Killed:
        assert epochs
    return seen


def config_with(**changes: Any) -> ExperimentConfig:
    """With 16 exemplars per class, of which a refinement takes 32 per batch."""
    return checks.small_config(**{"stream__tasks": 2, "memory__quota": 16, **changes})


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        # 40 images per task and 32 exemplars, two epochs each.
        ({}, 2 * 40, 2 * 72),
        ({"train__rotations": "initial"}, 1.5 * 2 * 40, 2 * 72),
        ({"train__contrast": "always"}, 2 * 2 * 40, 2 * 2 * 72),
        ({"train__rotations": "always", "train__contrast": "initial"}, 2.5 * 2 * 40, 1.5 * 2 * 72),
        (NETWORKS, 2 * 40 + 2.5 * 2 * 2 * 40, 2 * 72),
        ({"pseudo__refine": 3}, 2 * 40, 2 * 72 + 2.5 * 3 * 72),
        ({"method__name": "ilio", "train__contrast": "always", "train__batch": 16}, 2 * 2 * 40, 2 * 3 * 40),
    ],
)
def test_the_work_is_known_in_advance(
    changes: dict[str, Any], first: float, second: float, small_data: Dataset, tmp_path: Path
) -> None:
    config = config_with(**changes)
    assert workload(config, small_data) == (first, second)
    seen = work(config, small_data, tmp_path)
    assert (seen.total, seen.before, seen.done) == (first + second, 0, first + second)


@pytest.mark.parametrize("epochs", [1, 3, 5, 7])
def test_a_resumed_run_counts_what_is_done(epochs: int, small_data: Dataset, tmp_path: Path) -> None:
    """Killed in the first network, the second one, the model, and task 2."""
    config = config_with(**NETWORKS)
    killed = work(config, small_data, tmp_path, epochs)
    resumed = work(config, small_data, tmp_path)
    assert resumed.total == killed.total
    assert resumed.before == killed.done
    assert resumed.done == resumed.total


def test_a_finished_refinement_is_not_counted_again(small_data: Dataset, tmp_path: Path) -> None:
    config = config_with(pseudo__refine=3)
    killed = work(config, small_data, tmp_path, 3)  # the first epoch after the refinement of task 2
    resumed = work(config, small_data, tmp_path)
    assert resumed.before == killed.done == 2 * 40 + 2.5 * 3 * 72 + 72
    assert resumed.done == resumed.total == killed.total


def test_networks_of_another_run_are_counted_as_done(small_data: Dataset, tmp_path: Path) -> None:
    work(config_with(**NETWORKS), small_data, tmp_path)
    other = config_with(**NETWORKS, method__name="wa")
    killed = work(other, small_data, tmp_path, 1)
    assert (killed.before, killed.done) == (400, 440)
    resumed = work(other, small_data, tmp_path)
    assert resumed.before == 440
    assert resumed.done == resumed.total == killed.total


def test_files_of_earlier_versions(small_data: Dataset, tmp_path: Path) -> None:
    """They store the images of all epochs, but not the work."""
    config = config_with(train__rotations="initial")
    work(config, small_data, tmp_path, 1)
    path = Run.at(tmp_path, config).path / "epoch.safetensors"
    tensors, about = read_tensors(path)
    assert (about["images"], about.pop("passes")) == (40, 60)
    write_tensors(path, tensors, about)
    assert load_epoch(path, config.hash)[2].passes == 40
