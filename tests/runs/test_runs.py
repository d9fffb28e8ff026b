"""Run folders: their content, and that kills, full disks and damaged files cannot corrupt them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

import checks
from whorl import __version__
from whorl.config import ExperimentConfig, checked, write_toml
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs import files
from whorl.runs import run as store
from whorl.runs.run import Run
from whorl.scores import plain
from whorl.tree import read_toml


@pytest.fixture
def config() -> ExperimentConfig:
    return checks.small_config()


def test_a_folder_holds_everything(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    result = run(config, small_data, tmp_path)
    names = sorted(path.name for path in result.path.iterdir() if path.name != "lock")
    tasks = [f"task-{n:02}.safetensors" for n in (1, 2, 3)]
    assert names == ["config.toml", "log.jsonl", "memory-03.safetensors", "scores.json", *tasks]
    assert result.path.name.endswith(config.hash)
    assert checked(ExperimentConfig, read_toml(result.path / "config.toml")) == config
    log = Run.open(result.path).log()
    assert [(r["task"], r["epoch"]) for r in log] == [(t, e) for t in (1, 2, 3) for e in (1, 2)]
    assert [r["images"] for r in log] == [40, 40, 48, 48, 56, 56]  # 40 new ones, 4 of each old class
    scores = json.loads((result.path / "scores.json").read_text())
    assert scores["finished"]
    assert scores["last"] == result.steps[-1].acc
    assert scores["steps"] == [plain(step) for step in result.steps]
    (session,) = scores["provenance"]
    assert session["tasks"] == [1, 2, 3]


def test_finished_runs_are_read_and_fresh_ones_made_again(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    first = run(config, small_data, tmp_path)
    when = (first.path / "task-03.safetensors").stat().st_mtime_ns
    again = run(config, small_data, tmp_path)
    assert again.steps == first.steps
    assert (first.path / "task-03.safetensors").stat().st_mtime_ns == when
    run(config, small_data, tmp_path, fresh=True)
    assert (first.path / "task-03.safetensors").stat().st_mtime_ns != when


def test_the_hash_depends_on_every_value(config: ExperimentConfig) -> None:
    assert config.hash == checks.small_config().hash
    changed = [
        checks.small_config(seed=1),
        checks.small_config(labels="given"),
        checks.small_config(optim__lr=0.05),
        checks.small_config(memory__quota=5),
        checks.small_config(method__temperature=3.0),
        checks.small_config(data__fingerprint="x"),
    ]
    assert len({config.hash, *(other.hash for other in changed)}) == 7


def test_toml_keeps_every_value(config: ExperimentConfig, tmp_path: Path) -> None:
    odd = checks.small_config(stream__order=[5, 4, 3, 2, 1, 0], optim__lr=1 / 3)
    for each in (config, odd):
        (tmp_path / "c.toml").write_text(write_toml(each))
        back = checked(ExperimentConfig, read_toml(tmp_path / "c.toml"))
        assert back == each
        assert back.hash == each.hash


def test_a_second_process_is_refused(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    mine = Run.at(tmp_path, config)
    mine.lock()
    with pytest.raises(WhorlError, match=f"another process \\(process {os.getpid()}\\) is working on"):
        run(config, small_data, tmp_path)
    mine.release()
    assert run(config, small_data, tmp_path).summary.last


@pytest.mark.parametrize("name", ["lock", "owner"])
def test_a_pipe_or_a_link_in_place_of_the_lock_is_refused(
    name: str, config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    path = Run.at(tmp_path, config).path
    path.mkdir()
    for what, make in (("a pipe", os.mkfifo), ("a link", lambda file: file.symlink_to(tmp_path / "other"))):
        make(path / name)
        with pytest.raises(WhorlError, match=f"{name} is {what}, and whorl writes a file of that name; move it away"):
            run(config, small_data, tmp_path)
        (path / name).unlink()
    assert not (tmp_path / "other").exists()


def test_a_newer_format_is_left_alone(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    path = Run.at(tmp_path, config).path
    path.mkdir(parents=True)
    (path / "scores.json").write_text('{"format": 99, "finished": true, "steps": []}')
    with pytest.raises(WhorlError, match="has format 99, made by a newer whorl"):
        run(config, small_data, tmp_path)
    assert json.loads((path / "scores.json").read_text())["format"] == 99


def test_fresh_does_not_touch_a_newer_format(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    path = Run.at(tmp_path, config).path
    path.mkdir(parents=True)
    (path / "scores.json").write_text('{"format": 99}')
    (path / "task-01.safetensors").write_text("theirs")
    with pytest.raises(WhorlError, match="has format 99"):
        run(config, small_data, tmp_path, fresh=True)
    assert (path / "task-01.safetensors").read_text() == "theirs"


def test_fresh_removes_only_files_of_the_run(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    first = run(config, small_data, tmp_path / "runs")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    mine = [
        "notes.txt", "draft.tmp", "scores.json.tmp", "memory-notes.safetensors", "task-99.safetensors",
        "memory-99.safetensors",
        "task-04.safetensors", "task-00.safetensors", "task-001.safetensors", "task-99.safetensors.tmp",
    ]  # fmt: skip
    for name in mine:
        (first.path / name).write_text("mine")
    (first.path / "figures").mkdir()
    (first.path / "figures" / "a.png").write_text("mine")
    (first.path / "linked").symlink_to(elsewhere)
    (first.path / "epoch.safetensors").symlink_to(elsewhere / "mine.txt")
    again = run(config, small_data, tmp_path / "runs", fresh=True)
    assert checks.numbers(again.steps) == checks.numbers(first.steps)
    for name in (*mine, "figures/a.png", "linked/mine.txt"):
        assert (first.path / name).read_text() == "mine"
    assert (first.path / "linked").is_symlink()
    assert not (first.path / "epoch.safetensors").exists()


def test_a_run_that_was_moved_and_linked(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    """It is read, and written, under the name of the link."""
    first = run(config, small_data, tmp_path / "runs")
    first.path.rename(tmp_path / "elsewhere")
    first.path.symlink_to(tmp_path / "elsewhere")
    assert Run.open(first.path).scores().finished
    assert checks.numbers(run(config, small_data, tmp_path / "runs").steps) == checks.numbers(first.steps)
    with pytest.raises(WhorlError, match="belongs to"):
        Run.open(tmp_path / "elsewhere")


def test_fresh_refuses_a_folder_in_place_of_a_file(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    path = run(config, small_data, tmp_path).path
    (path / "task-03.safetensors").unlink()
    (path / "task-03.safetensors").mkdir()
    before = checks.stored_bytes(path)
    with pytest.raises(WhorlError, match=r"task-03\.safetensors is a folder.*move it away"):
        run(config, small_data, tmp_path, fresh=True)
    assert checks.stored_bytes(path) == before


def test_a_finished_run_is_read_without_a_lock_or_a_write(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(config, small_data, tmp_path)
    (first.path / "lock").unlink()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for owner, name in ((FileLock, "acquire"), (Path, "mkdir"), (Path, "unlink"), (os, "replace")):
        monkeypatch.setattr(owner, name, refuse)
    before = checks.stored_bytes(first.path)
    assert run(config, small_data, tmp_path).steps == first.steps
    (first.path / "epoch.safetensors.whorl-tmp").write_bytes(b"left by a kill")
    assert run(config, small_data, tmp_path).steps == first.steps
    assert checks.stored_bytes(first.path) == {**before, "epoch.safetensors.whorl-tmp": b"left by a kill"}


@pytest.mark.parametrize("text", ['{"format": 1}', '{"format": 1, "steps": 3, "finished": true}', "[]", "not json"])
def test_invalid_scores(text: str, config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    path = Run.at(tmp_path, config).path
    path.mkdir(parents=True)
    (path / "scores.json").write_text(text)
    with pytest.raises(WhorlError, match=r"scores.json.*start over with `fresh`"):
        run(config, small_data, tmp_path)
    assert run(config, small_data, tmp_path, fresh=True).summary.last


def test_files_of_another_run_are_not_taken(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    path = Run.at(tmp_path, config).path
    kept = (path / "task-02.safetensors").read_bytes()
    (path / "task-02.safetensors").write_bytes((path / "memory-02.safetensors").read_bytes())
    with pytest.raises(WhorlError, match="does not belong here"):
        run(config, small_data, tmp_path)
    cosine = run(checks.small_config(net__head="linear-nobias"), small_data, tmp_path)
    checks.unbind(cosine.path)
    (path / "task-02.safetensors").write_bytes((cosine.path / "task-02.safetensors").read_bytes())
    with pytest.raises(WhorlError, match=r"the stored weights do not fit this network .*start over with `fresh`"):
        run(config, small_data, tmp_path)
    (path / "task-02.safetensors").write_bytes(kept)
    assert run(config, small_data, tmp_path).summary.last


@pytest.mark.parametrize("name", ["scores.json", "task-01.safetensors", "task-02.safetensors", "memory-02.safetensors"])
def test_files_of_another_seed_are_refused(
    name: str, config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    """Their checksums are valid and everything in them fits; files without the hash of a run are read."""
    other = checks.small_config(seed=1)
    for each in (config, other):
        with pytest.raises(checks.Killed):
            run(each, small_data, tmp_path, reporter=checks.KillAfter(5))
    mine, theirs = Run.at(tmp_path, config).path / name, Run.at(tmp_path, other).path / name
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(WhorlError, match=f"^{mine} belongs to another run .*{other.hash}, not {config.hash}"):
        run(config, small_data, tmp_path)
    left_out = store.stored(tmp_path)[1]
    assert [str(mine) in line for line in left_out] == ([True] if name == "scores.json" else [])
    assert Run.at(tmp_path, config).has_task1() is (name in ("task-02.safetensors", "memory-02.safetensors"))
    checks.unbind(theirs.parent)
    mine.write_bytes(theirs.read_bytes())
    assert run(config, small_data, tmp_path).summary.last


def test_an_epoch_of_another_seed_costs_that_task(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    whole, other = run(config, small_data, tmp_path / "whole"), checks.small_config(seed=1)
    for each in (config, other):
        with pytest.raises(checks.Killed):
            run(each, small_data, tmp_path, reporter=checks.KillAfter(5))
    mine, theirs = (Run.at(tmp_path, each).path / "epoch.safetensors" for each in (config, other))
    mine.write_bytes(theirs.read_bytes())
    notes = checks.Notes()
    again = run(config, small_data, tmp_path, reporter=notes)
    (line,) = notes.lines
    assert line.startswith(f"{mine} is not used ({mine} belongs to another run (")
    assert line.endswith("; task 3 starts again")
    assert checks.same(checks.stored(again.path), checks.stored(whole.path))


def test_a_run_without_hashes_in_its_files_is_resumed(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path
) -> None:
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    checks.unbind(Run.at(tmp_path, config).path)
    notes = checks.Notes()
    again = run(config, small_data, tmp_path, reporter=notes)
    assert notes.lines == []
    assert checks.same(checks.stored(again.path), checks.stored(whole.path))


def test_a_copy_of_a_folder_is_not_another_run(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    original = run(config, small_data, tmp_path).path
    renamed = tmp_path / config.title.replace("seed0", "seed7")
    shutil.copytree(original, renamed)
    (tmp_path / "a-link").symlink_to(original)
    found, left_out = store.stored(tmp_path)
    assert [each.path for each, _ in found] == [original]
    (wrong_name, copy) = left_out
    assert wrong_name.startswith(f"config.toml of run {renamed} belongs to {config.title}: ")
    assert copy == f"{tmp_path / 'a-link'} is a copy of {original} or a link to it; remove one of the two"


def test_a_folder_named_by_an_earlier_version_is_a_run(tmp_path: Path) -> None:
    """They did not shorten the name of the data set. Beside a folder with the present name, it is a copy."""
    config = checks.small_config(data__name="hub:./" + "long/" * 10)
    rest = f"-ours-pseudo-step2-seed0-{config.hash}"
    assert config.title == "hub--" + "-long" * 7 + rest
    assert config.earlier_title == "hub--" + "-long" * 10 + "-" + rest
    for each in (config.earlier_title, config.title):
        (tmp_path / each).mkdir()
        (tmp_path / each / "config.toml").write_text(write_toml(config))
        assert [run.path.name for run, _ in store.stored(tmp_path)[0]] == [each]
    assert len(store.stored(tmp_path)[1]) == 1


class Counter:
    """Counts calls and raises ``Killed`` instead of a given one."""

    def __init__(self, kill: int) -> None:
        self.left = kill

    def around(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise checks.Killed
            return real(*args, **kwargs)

        patch.setattr(owner, name, counted)


def test_killed_before_any_write(small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before each write or removal of a file in turn: the folder ends up the same."""
    config = checks.small_config(stream__tasks=2)
    whole = run(config, small_data, tmp_path / "whole")
    for kill in range(1, 60):
        try:
            with monkeypatch.context() as patch:
                counter = Counter(kill)
                for owner, name in ((os, "replace"), (store, "append_line"), (Path, "unlink")):
                    counter.around(patch, owner, name)
                run(config, small_data, tmp_path / str(kill))
            break  # no write is left to kill before
        except checks.Killed:
            pass
        again = run(config, small_data, tmp_path / str(kill))
        assert checks.same(checks.stored(whole.path), checks.stored(again.path)), kill
        assert checks.numbers(whole.steps) == checks.numbers(again.steps)
        names = {path.name for path in again.path.iterdir()}
        assert names == {path.name for path in whole.path.iterdir()}, kill
        assert len(Run.open(again.path).log()) == 4
    assert kill > 18


@pytest.mark.parametrize("name", ["task-02.safetensors", "memory-02.safetensors", "scores.json"])
def test_a_damaged_file_is_named(name: str, config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    path = Run.at(tmp_path, config).path / name
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(WhorlError, match=name):
        run(config, small_data, tmp_path)
    assert run(config, small_data, tmp_path, fresh=True).summary.last


def test_a_full_disk_ends_in_one_line_and_harms_nothing(
    config: ExperimentConfig, small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(config, small_data, tmp_path / "whole")
    real, calls = files._write, 0

    def full(path: Path, payload: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls > 8:
            path.write_bytes(payload[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, payload)

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(WhorlError, match="No space left on device; free some space, then repeat the command to resume"):
        run(config, small_data, tmp_path / "full")
    monkeypatch.setattr(files, "_write", real)
    path = Run.at(tmp_path / "full", config).path
    assert not list(path.glob("*tmp"))
    again = run(config, small_data, tmp_path / "full")
    assert checks.same(checks.stored(whole.path), checks.stored(again.path))


def test_a_log_line_without_its_state_is_dropped(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    """Killed after writing the line and before the state, in the middle of a task and at its start."""
    for epochs in (3, 4):
        out = tmp_path / str(epochs)
        with pytest.raises(checks.Killed):
            run(config, small_data, out, reporter=checks.KillAfter(epochs))
        with open(Run.at(out, config).path / "log.jsonl", "a") as log:
            log.write('{"task": 3, "epoch": 1}\n{"task": 3, "ep')
        result = run(config, small_data, out)
        log_lines = [(r["task"], r["epoch"]) for r in Run.open(result.path).log()]
        assert log_lines == [(t, e) for t in (1, 2, 3) for e in (1, 2)]


def test_divergence_is_reported_and_the_last_good_epoch_kept(small_data: Dataset, tmp_path: Path) -> None:
    wild = checks.small_config(optim__lr=1e12, optim__schedule="constant", train__first_epochs=6)
    with pytest.raises(WhorlError, match=r"the loss is not finite in phase 'train', epoch .*`optim.lr="):
        run(wild, small_data, tmp_path)
    epochs = tmp_path.rglob("epoch.safetensors")
    assert all(torch.isfinite(t).all() for p in epochs for t in files.read_tensors(p)[0].values())


def test_atomic_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.txt"
    files.write_text(target, "whole")

    def fail(path: Path, payload: bytes) -> None:
        path.write_bytes(payload[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write", fail)
    with pytest.raises(WhorlError):
        files.write_text(target, "another")
    assert target.read_text() == "whole"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_a_link_with_the_name_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    precious, target = tmp_path / "precious", tmp_path / "x.txt"
    precious.write_text("mine")
    (tmp_path / "x.txt.whorl-tmp").symlink_to(precious)
    files.write_text(target, "whole")
    assert (precious.read_text(), target.read_text(), target.is_symlink()) == ("mine", "whole", False)
    assert (tmp_path / "x.txt.whorl-tmp").is_symlink()


def test_tensor_files_need_no_pickle(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {"a": torch.arange(3), "b.c": torch.randn(2, 2)}
    files.write_tensors(tmp_path / "t", tensors, {"epoch": 3})
    back, about = files.read_tensors(tmp_path / "t")
    assert checks.same(back, tensors)
    assert about == {"epoch": 3}
    assert b"pickle" not in (tmp_path / "t").read_bytes()


def test_other_write_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WhorlError, match=r"cannot write .*: Not a directory; make it writable"):
        files.write_text(tmp_path / "file" / "inside", "text")


def test_names_of_runs_do_not_change() -> None:
    """Hashes of configs are those of whorl 0.1, so that its runs are found."""
    assert checks.small_config().hash == "52f7b0166d"
    assert checks.small_config(method__name="icarl", labels="given").hash == "52059d2651"
    assert checks.small_config(optim__name="adamw").hash != "52f7b0166d"


def test_every_session_leaves_its_provenance(config: ExperimentConfig, small_data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(checks.Killed):
        run(config, small_data, tmp_path, reporter=checks.KillAfter(5))
    run(config, small_data, tmp_path)
    sessions = Run.at(tmp_path, config).scores().provenance
    assert [session.tasks for session in sessions] == [(1, 2), (3,)]
    for session in sessions:
        assert session.started <= session.finished
        assert (session.whorl, session.torch, session.device, session.threads) == (
            __version__,
            torch.__version__,
            "cpu",
            1,
        )
