"""Networks for pseudo labels are trained once for all runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import checks
from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.experiment import run
from whorl.reporter import EpochRecord
from whorl.runs.networks import networks_key, trained_networks


def config_with(**changes: Any) -> ExperimentConfig:
    several = {"pseudo__features": "networks", "pseudo__networks": 2}
    return checks.small_config(**{**several, "stream__tasks": 2, **changes})


class Watching(checks.Notes):
    """Remembers lines for the user and the phases that were trained."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: set[str] = set()

    def epoch(self, record: EpochRecord) -> None:
        self.phases.add(record.phase)


def test_another_method_uses_the_same_networks(small_data: Dataset, tmp_path: Path) -> None:
    other = config_with(method__name="wa", net__arch="tiny")
    alone = run(other, small_data, tmp_path / "alone")
    first = run(config_with(net__arch="tiny"), small_data, tmp_path / "shared")
    seen = Watching()
    shared = run(other, small_data, tmp_path / "shared", reporter=seen)
    assert seen.phases == {"train"}
    assert seen.lines == [f"the networks for pseudo labels are those of {first.path.name}"]
    assert checks.same(checks.stored(alone.path), checks.stored(shared.path))
    assert [step.acc for step in alone.steps] == [step.acc for step in shared.steps]
    assert alone.steps[0].images == 3 * shared.steps[0].images
    assert [step.networks_from for step in shared.steps] == [first.path.name, None]
    assert alone.steps[0].networks_from is None


def test_fewer_networks_are_the_first_ones(small_data: Dataset, tmp_path: Path) -> None:
    two = run(config_with(), small_data, tmp_path)
    seen = Watching()
    one = run(config_with(pseudo__networks=1), small_data, tmp_path, reporter=seen)
    assert seen.phases == {"train"}
    stored, alone = checks.stored(two.path), checks.stored(one.path)
    names = [name for name in alone if ":network.0." in name]
    assert names
    assert all((stored[name] == alone[name]).all() for name in names)
    assert not any(":network.1." in name for name in alone)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"pseudo__networks": 3},
        {"train__first_epochs": 1},
        {"pseudo__arch": "resnet32"},
        {"data__per_class": 19},
        {"stream__step": 3},
        {"stream__order": (5, 4, 3, 2, 1, 0)},
        {"precision": "bf16"},
        {"train__augment": "none"},
        {"train__sizes": (0.5, 1)},
        {"pseudo__networks": 0, "pseudo__features": "current"},
    ],
)
def test_others_are_not_used(changes: dict[str, Any], small_data: Dataset, tmp_path: Path) -> None:
    run(config_with(), small_data, tmp_path)
    assert trained_networks(tmp_path, config_with(**changes)) is None
    assert trained_networks(tmp_path, config_with()) is None  # its own run
    assert trained_networks(tmp_path, config_with(method__name="wa")) is not None


def test_what_they_do_not_depend_on() -> None:
    changes: list[dict[str, Any]] = [
        {"method__name": "icarl"},
        {"train__epochs": 5},
        {"cluster__name": "gmm"},
        {"memory__quota": 3},
        {"optim__lr": 0.01},
        {"pseudo__networks": 3},
    ]
    assert {networks_key(config_with(**each)) for each in changes} == {networks_key(config_with())}


def test_the_network_of_the_model_counts() -> None:
    """It may bring its own preparation of the inputs, which these networks use as well."""
    keys = {networks_key(config_with(net__arch=arch, pseudo__arch="tiny")) for arch in ("resnet32", "tiny")}
    assert len(keys) == 2


def test_a_run_that_is_killed_after_taking_them_resumes(small_data: Dataset, tmp_path: Path) -> None:
    other = config_with(method__name="wa", pseudo__whiten=True)
    run(config_with(), small_data, tmp_path / "shared")
    alone = run(other, small_data, tmp_path / "alone")
    with pytest.raises(checks.Killed):
        run(other, small_data, tmp_path / "shared", reporter=checks.KillAfter(1))
    seen = Watching()
    shared = run(other, small_data, tmp_path / "shared", reporter=seen)
    assert seen.phases == {"train"}
    assert shared.steps[0].networks_from
    assert checks.same(checks.stored(alone.path), checks.stored(shared.path))


def test_a_damaged_run_is_passed_over(small_data: Dataset, tmp_path: Path) -> None:
    first = run(config_with(), small_data, tmp_path)
    path = first.path / "task-01.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    seen = Watching()
    run(config_with(cluster__name="gmm"), small_data, tmp_path, reporter=seen)
    assert seen.phases == {"network 1", "network 2", "train"}
    assert seen.lines == []
