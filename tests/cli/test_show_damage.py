"""``whorl show`` checks every file of a run, names each damaged one, and shows the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import checks
from conftest import Call
from whorl.config import write_toml
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run

CONFIG = checks.small_config(labels="given", stream__tasks=2)
FOLDER = Path("runs") / CONFIG.title


@pytest.fixture
def folder(small_data: Dataset, tmp_path: Path) -> Path:
    """The folder of a finished run with two tasks."""
    return run(CONFIG, small_data, tmp_path / "runs").path


def flip(path: Path, place: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def test_every_damaged_file_is_named_and_the_rest_is_shown(folder: Path, call: Call) -> None:
    whole, err = call("show", str(FOLDER))
    assert err == ""
    document = call("show", str(FOLDER), "--json")[0]
    damaged = "log.jsonl", "task-01.safetensors", "memory-02.safetensors"
    for name in damaged:
        flip(folder / name)
    out, err = call("show", str(FOLDER), code=2)
    assert out == whole
    for name, line in zip(damaged, err.splitlines(), strict=True):
        assert line.startswith("whorl: ")
        assert str(FOLDER / name) in line
    assert call("show", str(FOLDER), "--json", code=2) == (document, err)


def test_without_scores_the_config_is_shown_and_the_other_files_are_checked(folder: Path, call: Call) -> None:
    about = call("show", str(FOLDER))[0].splitlines()[:2]
    for name in ("scores.json", "task-02.safetensors"):
        flip(folder / name)
    out, err = call("show", str(FOLDER), code=2)
    assert out.splitlines()[:2] == about
    assert "Last" not in out
    scores, task = err.splitlines()
    assert f"{FOLDER / 'scores.json'} is damaged" in scores
    assert str(FOLDER / "task-02.safetensors") in task
    assert "start over with --fresh" in task
    document = json.loads(call("show", str(FOLDER), "--json", code=2)[0])
    assert document == {"run": str(FOLDER), "config": CONFIG.tree()}


@pytest.mark.parametrize("name", ["task-02.safetensors", "memory-02.safetensors"])
def test_a_file_of_another_run_is_named(name: str, folder: Path, call: Call) -> None:
    tensors, about = read_tensors(folder / name)
    write_tensors(folder / name, tensors, {**about, "run": "0123456789"})
    _, err = call("show", str(FOLDER), code=2)
    assert err.startswith(f"whorl: {FOLDER / name} belongs to another run (its config has the hash 0123456789, not ")


def test_a_file_of_another_task_is_named(folder: Path, call: Call) -> None:
    shutil.copy(folder / "task-02.safetensors", folder / "task-01.safetensors")
    _, err = call("show", str(FOLDER), code=2)
    assert err.startswith(f"whorl: {FOLDER / 'task-01.safetensors'} does not belong here (it is of task 2); ")
    assert err.count("\n") == 1


def test_scores_that_are_older_than_the_log_are_named(folder: Path, call: Call) -> None:
    (folder / "scores.json").unlink()
    _, err = call("show", str(FOLDER), code=2)
    assert err == (
        f"whorl: {FOLDER / 'scores.json'} is missing or too old (log.jsonl has epochs of task 2, and the scores end "
        "with task 0); put back a copy of the file, or repeat the command that made the run\n"
    )


@pytest.mark.usefixtures("folder")
def test_damage_that_is_found_only_once_is_not_reported(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may write between two reads."""
    reads, read = list[Run](), Run.log

    def log(self: Run) -> list[dict[str, object]]:
        reads.append(self)
        if len(reads) == 1:
            raise WhorlError("half a line")
        return read(self)

    monkeypatch.setattr(Run, "log", log)
    assert call("show", str(FOLDER))[1] == ""
    assert len(reads) == 2


def test_a_finished_run_of_which_only_the_results_were_kept_is_not_damaged(folder: Path, call: Call) -> None:
    whole = call("show", str(FOLDER))
    for file in [*folder.glob("*.safetensors"), folder / "log.jsonl"]:
        file.unlink()
    assert call("show", str(FOLDER)) == whole


def test_a_config_with_other_blanks_is_not_called_damaged(small_data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InterruptedError):
        run(CONFIG, small_data, tmp_path, reporter=checks.StopsInTask2())
    file = tmp_path / CONFIG.title / "config.toml"
    file.write_text(f"\n{file.read_text()}")
    notes = checks.Notes()
    run(CONFIG, small_data, tmp_path, reporter=notes)
    assert notes.lines == []
    assert file.read_text() == write_toml(CONFIG)
