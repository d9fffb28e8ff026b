"""Folders written before runs had provenance (format 1) are read, shown and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks import StopsInTask2, same, small_config, stored
from conftest import Call
from whorl import __version__
from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.experiment import run
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run

NEW_KEYS = {"format", "known", "new", "sessions", "sizes", "names", "inputs", "run"}
"""Keys in the headers of checkpoints that format 1 does not have."""


@pytest.fixture
def old(small_data: Dataset, tmp_path: Path) -> ExperimentConfig:
    """An unfinished run of format 1 in ``runs``, stopped in task 2."""
    config = small_config()
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path / "runs", reporter=StopsInTask2())
    folder = tmp_path / "runs" / config.title
    for name in ("task-01.safetensors", "epoch.safetensors"):
        tensors, about = read_tensors(folder / name)
        write_tensors(folder / name, tensors, {key: value for key, value in about.items() if key not in NEW_KEYS})
    document = json.loads((folder / "scores.json").read_text())
    (folder / "scores.json").write_text(json.dumps({"format": 1, "finished": False, "steps": document["steps"]}))
    return config


def test_an_unfinished_old_run_ends_as_if_it_had_never_stopped(
    old: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    whole = run(old, small_data, tmp_path / "whole")
    again = run(old, small_data, tmp_path / "runs")
    assert [step.acc for step in again.steps] == [step.acc for step in whole.steps]
    assert same(stored(again.path), stored(whole.path))
    scores = Run.open(again.path).scores()
    assert scores.finished
    assert scores.unrecorded == (1,)
    assert [part.tasks for part in scores.provenance] == [(2, 3)]
    assert scores.versions[0] == "not recorded"
    assert scores.versions[1].startswith(__version__)


@pytest.mark.usefixtures("old")
def test_an_old_run_is_listed_and_shown(call: Call) -> None:
    assert "unfinished" in call("list")[0]
    lines = call("show", "synthetic")[0].splitlines()
    assert "task 1: computed by a version of whorl that did not record it" in lines
    assert lines[-1] == "unfinished; repeat the command that began it to resume it"
