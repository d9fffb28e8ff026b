"""Checkpoints: states and positions in files, damaged ones, and those of older versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import checks
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs import checkpoint, files
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.scores import RunScores, TaskScores
from whorl.training import Halt
from whorl.types import Found, Labelling


def _without_a_weight(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    del tensors["model.head.weight"]


def _without_a_weight_of_the_start(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    del tensors["start.1.head.weight"]


def _of_another_phase(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["phase"] = 5


def _of_other_classes(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    tensors["labels"] = tensors["labels"] + 1000


def _with_weights_of_another_type(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    tensors["model.head.weight"] = tensors["model.head.weight"].double()


def _with_an_optimiser_of_another_shape(tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    name = next(name for name in tensors if name.startswith("optimiser."))
    tensors[name] = tensors[name].new_zeros(1, 2, 3)


DAMAGES = [
    _without_a_weight, _without_a_weight_of_the_start, _of_another_phase, _of_other_classes,
    _with_weights_of_another_type, _with_an_optimiser_of_another_shape,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_epoch_costs_the_task_and_not_the_run(
    damage: Callable[[dict[str, Tensor], dict[str, Any]], None], small_data: Dataset, tmp_path: Path
) -> None:
    """BiC killed in phase 1 of task 2; the file also holds the model at the start of each phase."""
    config = checks.small_config(method__name="bic", labels="given", stream__tasks=2)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    path = Run.at(tmp_path, config).path / "epoch.safetensors"
    tensors, about = files.read_tensors(path)
    damage(tensors, about)
    files.write_tensors(path, tensors, about)
    notes = checks.Notes()
    again = run(config, small_data, tmp_path, reporter=notes)
    (line,) = notes.lines
    assert line.startswith(f"{path} is not used (")
    assert line.endswith("; task 2 starts again")
    assert checks.same(checks.stored(again.path), checks.stored(whole.path))
    assert checks.numbers(again.steps) == checks.numbers(whole.steps)
    assert len(Run.open(again.path).log()) == len(Run.open(whole.path).log())


def as_format_1(path: Path) -> None:
    """Rewrite an unfinished run as whorl 0.1 stored it: no headers, no class means, no provenance."""
    for file in path.glob("task-*.safetensors"):
        files.write_tensors(file, files.read_tensors(file)[0])
    for file in path.glob("memory-*.safetensors"):
        tensors, _ = files.read_tensors(file)
        files.write_tensors(file, {name: tensors[name] for name in ("images", "labels", "tasks")})
    scores = json.loads((path / "scores.json").read_text())
    del scores["provenance"], scores["checksum"]
    (path / "scores.json").write_text(json.dumps({**scores, "format": 1}))
    tensors, about = files.read_tensors(path / "epoch.safetensors")
    tensors = {name: value for name, value in tensors.items() if name.startswith(("model.", "labels"))}
    about = {name: value for name, value in about.items() if name not in ("format", "known", "new")}
    files.write_tensors(path / "epoch.safetensors", tensors, {**about, "starts": 0})


@pytest.mark.parametrize("method", ["ours", "icarl", "joint"])
def test_a_run_of_format_1_is_continued_after_its_last_task(method: str, small_data: Dataset, tmp_path: Path) -> None:
    """Its tasks are read, its epochs are trained again, and it ends with the bits of a run that was not stopped."""
    config = checks.small_config(method__name=method)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    path = Run.at(tmp_path, config).path
    as_format_1(path)
    assert Run.open(path).scores().versions == ("not recorded",)
    again = run(config, small_data, tmp_path)
    found, expected = checks.stored(again.path), checks.stored(whole.path)
    assert checks.same(found, expected)
    assert checks.numbers(again.steps) == checks.numbers(whole.steps)
    assert [(r["task"], r["epoch"]) for r in Run.open(path).log()] == [(t, e) for t in (1, 2, 3) for e in (1, 2)]
    assert [session.tasks for session in Run.open(path).scores().provenance] == [(3,)]


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_the_optimiser_is_stored_by_parameter_name(optimiser: str, small_data: Dataset, tmp_path: Path) -> None:
    """The epoch file names each parameter, and a run that continues from it ends with the same bits."""
    config = checks.small_config(optim__name=optimiser, optim__lr=0.01, stream__tasks=2)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(3))
    tensors, _ = files.read_tensors(Run.at(tmp_path, config).path / "epoch.safetensors")
    stored = {name.removeprefix("optimiser.") for name in tensors if name.startswith("optimiser.")}
    model = checks.make_learner(config, small_data).model
    kept = ("momentum_buffer",) if optimiser == "sgd" else ("step", "exp_avg", "exp_avg_sq")
    assert stored == {f"{name}/{key}" for name, _ in model.named_parameters() for key in kept}
    again = run(config, small_data, tmp_path)
    assert checks.same(checks.stored(again.path), checks.stored(whole.path))


def test_a_state_needs_no_deliveries(small_data: Dataset, tmp_path: Path) -> None:
    """A learner restored from files, on a machine without the data, predicts the same and learns on."""
    config = checks.small_config(labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    store = Run(tmp_path, config)
    for task in (1, 2):
        checks.learn(learner, stream[task - 1 : task])
        assert learner.labels is not None
        steps = tuple(TaskScores(task=number, classes=2 * number) for number in range(1, task + 1))
        store.save_task(learner.state(), learner.labels, RunScores(steps=steps))
    other = Learner(config, Inputs.images(8), Runtime())  # its inputs come from the files
    other.restore(store.load_task(2, Inputs.images(99)))
    assert other.inputs == learner.inputs
    assert (other.sizes, other.names, other.past) == ((2, 2), (0, 1, 2, 3), ())
    assert learner.means is not None
    np.testing.assert_array_equal(other.means, learner.means)
    for rule, found in learner.classifier.scores(small_data.test).items():
        np.testing.assert_array_equal(other.classifier.scores(small_data.test)[rule], found)
    for each in (learner, other):
        checks.learn(each, stream[2:])
    assert checks.same(other.state().model, learner.state().model)
    assert checks.same(other.state().memory, learner.state().memory)


def test_means_of_a_class_without_exemplars_can_be_stored(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(method__name="icarl")
    learner = checks.make_learner(config, small_data)
    checks.learn(learner, checks.streams(config, small_data)[:1])
    assert learner.means is not None
    assert learner.labels is not None
    means = learner.means.copy()
    means[1] = np.nan
    checkpoint.save_task(tmp_path, 1, replace(learner.state(), means=means), learner.labels)
    found = checkpoint.load_task(tmp_path, 1, learner.inputs).means
    np.testing.assert_array_equal(np.asarray(found), means)


def test_what_was_found_in_a_mixed_delivery_is_stored(tmp_path: Path) -> None:
    """Files of before have nothing of it; junk that is not left out is a damage."""
    path, start, weight = tmp_path / "epoch.safetensors", *({"head.weight": torch.zeros(3, 2)} for _ in range(2))
    found = Found(1, 1, 2, ("why",), 2, 1, (1,), (0.5, 0.0, 0.25, 1.0), ((0, 2, 0.75),))
    labels = Labelling(np.array([0, 2, 1, 2]), 2, 1, np.array([1]), found)
    checkpoint.save_epoch(path, 3, Halt(0, 1, labels, weight, {}, (start,)), checkpoint.Spent(), 0)
    _, halt, _ = checkpoint.load_epoch(path)
    assert halt is not None
    assert (halt.labels.found, halt.labels.unsure.tolist(), halt.labels.ids.tolist()) == (found, [1], [0, 2, 1, 2])
    tensors, about = files.read_tensors(path)
    files.write_tensors(path, tensors, {key: value for key, value in about.items() if key != "found"})
    _, halt, _ = checkpoint.load_epoch(path)
    assert halt is not None
    assert halt.labels.found is None
    files.write_tensors(path, tensors, {**about, "found": {**about["found"], "junk": [2]}})
    with pytest.raises(WhorlError, match="its junk is not what is left out"):
        checkpoint.load_epoch(path)
