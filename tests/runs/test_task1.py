"""Sharing the first task: whoever takes it over ends as if it had trained its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import checks
from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs.task1 import task1_key
from whorl.runs.run import Run

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


def _told(steps: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """The scores without what training task 1 cost, and whose it was."""
    return [{k: v for k, v in step.items() if k not in ("images", "taken_from")} for step in checks.numbers(steps)]


@pytest.mark.parametrize(
    ("giver", "taker"), SHARING, ids=lambda changes: "-".join(map(str, changes.values())) or "ours"
)
def test_a_run_from_a_shared_first_task_equals_its_own_bit_for_bit(
    giver: dict[str, Any], taker: dict[str, Any], small_data: Dataset, tmp_path: Path
) -> None:
    first, config = checks.small_config(**giver), checks.small_config(**taker)
    assert task1_key(first) == task1_key(config)
    given = run(first, small_data, tmp_path / "shared")
    taken = run(config, small_data, tmp_path / "shared", first=Run.open(given.path))
    own = run(config, small_data, tmp_path / "own")
    assert checks.same(checks.stored(taken.path), checks.stored(own.path))
    assert _told(taken.steps) == _told(own.steps)
    assert taken.steps[0].taken_from == given.path.name
    assert taken.steps[0].images == 0
    assert [record["task"] for record in Run.open(taken.path).log() if record["task"] == 1] == []


def test_a_kill_after_taking_over_resumes_to_the_same_end(small_data: Dataset, tmp_path: Path) -> None:
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    config, first = checks.small_config(), Run.open(given.path)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(1), first=first)
    resumed = run(config, small_data, tmp_path, first=first)
    assert checks.same(checks.stored(resumed.path), checks.stored(whole.path))
    assert resumed.steps[0].taken_from == given.path.name


def test_half_a_first_task_of_its_own_is_given_up_for_a_finished_one(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config()
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(1))
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    taken = run(config, small_data, tmp_path, first=Run.open(given.path))
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
def test_what_the_first_task_depends_on(changes: dict[str, Any]) -> None:
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


def test_what_is_held_out_of_the_first_task_depends_on_the_quota() -> None:
    bic: dict[str, Any] = {"method__name": "bic"}
    assert task1_key(checks.small_config(**bic, memory__quota=8)) != task1_key(checks.small_config(**bic))
    assert task1_key(checks.small_config(**bic, labels="given")) == task1_key(checks.small_config(**bic))


def test_a_damaged_first_task_is_said_to_be(small_data: Dataset, tmp_path: Path) -> None:
    config: ExperimentConfig = checks.small_config()
    given = run(checks.small_config(labels="given"), small_data, tmp_path)
    (given.path / "task-01.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WhorlError, match=r"cannot read .*task-01\.safetensors"):
        run(config, small_data, tmp_path, first=Run.open(given.path))
