"""Sharing task 1: a run that takes it over ends as if it had trained it itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import checks
from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs.run import Run
from whorl.runs.task1 import task1_key
from whorl.scores import TaskScores

SHARING = [
    ({"labels": "given"}, {"labels": "pseudo"}),
    ({}, {"memory__select": "random", "memory__quota": 7}),
    ({}, {"pseudo__features": "first"}),
    ({}, {"pseudo__features": "scratch"}),
    ({"labels": "given"}, {"pseudo__refresh": 1}),
    ({}, {"cluster__name": "gmm"}),
    ({}, {"method__name": "finetune"}),
    ({"method__name": "joint"}, {"classifier": "nme"}),
    ({"method__name": "wa", "labels": "given"}, {"method__name": "wa"}),
    ({"method__name": "bic", "labels": "given"}, {"method__name": "bic"}),
    ({"method__name": "ilio", "labels": "given"}, {"method__name": "ilio"}),
    ({"method__name": "lucir", "labels": "given"}, {"method__name": "lucir", "memory__select": "random"}),
]


def _compared(steps: tuple[TaskScores, ...]) -> list[dict[str, Any]]:
    """The scores without the cost and the origin of task 1."""
    return [{k: v for k, v in step.items() if k not in ("images", "taken_from")} for step in checks.numbers(steps)]


@pytest.mark.parametrize(
    ("giver", "taker"), SHARING, ids=lambda changes: "-".join(map(str, changes.values())) or "ours"
)
def test_a_run_from_a_shared_task_1_ends_with_the_same_bits(
    giver: dict[str, Any], taker: dict[str, Any], small_data: Dataset, tmp_path: Path
) -> None:
    first, config = checks.small_config(**giver), checks.small_config(**taker)
    assert task1_key(first) == task1_key(config)
    given = run(first, small_data, tmp_path / "shared")
    taken = run(config, small_data, tmp_path / "shared", task1=Run.open(given.path))
    own = run(config, small_data, tmp_path / "own")
    assert checks.same(checks.stored(taken.path), checks.stored(own.path))
    assert _compared(taken.steps) == _compared(own.steps)
    assert taken.steps[0].taken_from == given.path.name
    assert taken.steps[0].images == 0
    assert [record["task"] for record in Run.open(taken.path).log() if record["task"] == 1] == []


def test_a_kill_after_taking_over_resumes_to_the_same_end(small_data: Dataset, tmp_path: Path) -> None:
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    config, first = checks.small_config(), Run.open(given.path)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(1), task1=first)
    resumed = run(config, small_data, tmp_path, task1=first)
    assert checks.same(checks.stored(resumed.path), checks.stored(whole.path))
    assert resumed.steps[0].taken_from == given.path.name


def test_an_unfinished_task_1_is_replaced_by_a_finished_one(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config()
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(1))
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    taken = run(config, small_data, tmp_path, task1=Run.open(given.path))
    own = run(config, small_data, tmp_path / "own")
    assert checks.same(checks.stored(taken.path), checks.stored(own.path))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1}, {"net__head": "cosine"}, {"net__final_relu": False}, {"train__first_epochs": 3},
        {"train__batch": 8}, {"train__augment": "none"}, {"optim__lr": 0.05}, {"optim__first_weight_decay": 0.1},
        {"stream__step": 3}, {"stream__first": 4}, {"stream__order": (5, 4, 3, 2, 1, 0)}, {"data__per_class": 10},
        {"data__resize": 12}, {"precision": "bf16"}, {"method__name": "wa"}, {"method__name": "icarl"},
    ],
    ids=lambda changes: "-".join(changes),
)  # fmt: skip
def test_what_task_1_depends_on(changes: dict[str, Any]) -> None:
    assert task1_key(checks.small_config(**changes)) != task1_key(checks.small_config())


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": "given"}, {"classifier": "nme"}, {"cluster__name": "gmm"}, {"cluster__l2": True},
        {"pseudo__features": "pca"}, {"pseudo__refresh": 1}, {"memory__quota": 9}, {"memory__select": "random"},
        {"memory__policy": "total", "memory__quota": 30}, {"memory__reading": "reuse"}, {"train__epochs": 7},
        {"stream__tasks": 2}, {"stream__first": 2}, {"method__temperature": 4.0}, {"method__name": "finetune"},
    ],
    ids=lambda changes: "-".join(changes),
)  # fmt: skip
def test_what_it_does_not_depend_on(changes: dict[str, Any]) -> None:
    assert task1_key(checks.small_config(**changes)) == task1_key(checks.small_config())


def test_what_is_held_out_of_task_1_depends_on_the_quota() -> None:
    bic: dict[str, Any] = {"method__name": "bic"}
    assert task1_key(checks.small_config(**bic, memory__quota=8)) != task1_key(checks.small_config(**bic))
    assert task1_key(checks.small_config(**bic, labels="given")) == task1_key(checks.small_config(**bic))


def test_a_damaged_task_1_is_reported(small_data: Dataset, tmp_path: Path) -> None:
    config: ExperimentConfig = checks.small_config()
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    (given.path / "task-01.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WhorlError, match=r"cannot read .*task-01\.safetensors"):
        run(config, small_data, tmp_path, task1=Run.open(given.path))


@pytest.mark.parametrize("changes", [{"optim__lr": 0.05}, {"seed": 1}, {"method__name": "wa"}, {"train__batch": 8}])
def test_a_task_1_trained_with_other_settings_is_refused(
    changes: dict[str, Any], small_data: Dataset, tmp_path: Path
) -> None:
    given = run(checks.small_config(labels="given", stream__tasks=1, **changes), small_data, tmp_path)
    config = checks.small_config()
    with pytest.raises(WhorlError, match=r"task 1 of .* was trained with other settings"):
        run(config, small_data, tmp_path, task1=Run.open(given.path))
    assert not Run.at(tmp_path, config).path.exists()
