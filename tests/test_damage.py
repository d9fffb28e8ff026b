"""Damaged files: every file of a run, of a shared task 1 and of a stored model, damaged in every way.

Every command that reads the file ends with exit code 0, or with one line and exit code 2. Everything else stays as it
was, and a file that is damaged is never mistaken for an intact one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checks
from conftest import Call
from whorl import Whorl
from whorl.config import ExperimentConfig, write_toml
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.runs import files
from whorl.runs.run import Run

DONE = checks.small_config(labels="given", stream__tasks=2)
HALF = checks.small_config(stream__tasks=2)
TAKER = checks.small_config(stream__tasks=2, cluster__name="gmm")
ALWAYS = ("config.toml", "scores.json", "log.jsonl", "task-01.safetensors")
NEEDED = ("task-01.safetensors", "memory-01.safetensors")
"""What the stopped run cannot be resumed without, besides its scores."""
OF_DONE = (*ALWAYS, "task-02.safetensors", "memory-02.safetensors", "lock")
OF_HALF = (*ALWAYS, "memory-01.safetensors", "epoch.safetensors", "lock")


@pytest.fixture(scope="session")
def template(small_data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a run that was stopped in task 2, their configs, a stored model, and notes of the user."""
    root = tmp_path_factory.mktemp("template")
    run(DONE, small_data, root / "runs")
    with pytest.raises(InterruptedError):
        run(HALF, small_data, root / "runs", reporter=checks.StopsInTask2())
    for name, config in (("done", DONE), ("half", HALF)):
        (root / f"{name}.toml").write_text(write_toml(config))
        (root / "runs" / config.title / "notes.txt").write_text("of the user")
    (root / "runs" / DONE.title / "figures").mkdir()
    (root / "runs" / DONE.title / "figures" / "mine.png").write_text("of the user")
    vectors = np.repeat(np.eye(3, dtype=np.float32), 8, axis=0)
    options = {"train.first_epochs": 1, "memory.quota": 4}
    Whorl("joint", options=options, verbose=0).learn(vectors, np.arange(24) // 8).save(root / "model")
    return root


@pytest.fixture
def copy(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garbled(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes() or b" ")
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


def _of_wrong_type(path: Path) -> None:
    """A file that is well formed, with a valid checksum, and says something impossible."""
    if path.suffix == ".safetensors":
        tensors, about = files.read_tensors(path)
        files.write_tensors(path, {name: tensor.to(torch.int16)[None] for name, tensor in tensors.items()}, about)
    elif path.suffix == ".json":
        files.write_json(path, {"format": 2, "finished": True, "steps": {"task": [1]}})
    elif path.suffix == ".toml":
        path.write_text('seed = "one"\n')
    else:
        path.write_text('{"task": "one"}\n')


def _nested(path: Path) -> None:
    deep = "[" * 50_000
    if path.suffix == ".safetensors":
        content = f'{{"__metadata__": {deep}'.encode()
        path.write_bytes(len(content).to_bytes(8, "little") + content)
    else:
        path.write_text(f"seed = {deep}" if path.suffix == ".toml" else f'{{"format": {deep}')


def _with_huge_numbers(path: Path) -> None:
    digits = "9" * 5000
    if path.suffix == ".safetensors":
        tensors, about = files.read_tensors(path)
        files.write_tensors(path, tensors, {**about, "format": 10**400, "task": 10**400})
    elif path.suffix == ".toml":
        path.write_text(path.read_text().replace("seed = 0", f"seed = {digits}"))
    else:
        path.write_text(f'{{"format": 2, "task": {digits}, "finished": false, "steps": []}}\n')


def _deleted(path: Path) -> None:
    path.unlink()


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


Damage = Callable[[Path], None]
DAMAGES: list[Damage] = [
    _truncated, _garbled, _flipped, _of_wrong_type, _nested, _with_huge_numbers, _deleted, _a_folder, _a_pipe,
    _a_link_to_itself, _empty,
]  # fmt: skip
each_damage = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


def snapshot(root: Path) -> dict[str, object]:
    """Everything below ``root`` except locks: the content of files, the targets of links, and folders."""
    found: dict[str, object] = {}
    for folder, names, others in os.walk(root):
        for path in (Path(folder) / name for name in (*names, *others)):
            if path.name not in ("lock", "owner"):
                content = path.read_bytes() if path.is_file() else path.is_dir()
                found[str(path.relative_to(root))] = os.readlink(path) if path.is_symlink() else content
    return found


def checked_call(call: Call, *words: str, code: int, apart_from: str = "report") -> str:
    """The stderr of a command that must leave everything as it is, except below one folder and its own output."""
    before = snapshot(Path())
    _, err = call(*words, code=code)
    changes = snapshot(Path()).items() ^ before.items()
    allowed = apart_from if code == 0 else "\0"
    made = (allowed, "compare.svg", ".whorl-files.json") if words[0] == "compare" else allowed
    assert not [path for path, _ in changes if not path.startswith(made)]
    if code == 2:
        assert len(err.splitlines()) == 1
    return err


def refused(config: ExperimentConfig, name: str, damage: Damage) -> bool:
    """Whether ``whorl run`` must end with exit code 2. A finished run needs its config and its scores only."""
    if name == "scores.json":
        return True
    if damage in (_a_folder, _a_pipe):
        return config is HALF or name == "config.toml"
    if name == "config.toml" or config is DONE:
        return False
    return name in NEEDED or (damage is _a_link_to_itself and name in ("log.jsonl", "lock"))


def shown_as_damaged(name: str, damage: Damage) -> bool:
    """Whether ``whorl show`` must name the file. A run may have no epoch file, and the lock stores nothing."""
    return name != "lock" and (name != "epoch.safetensors" or damage is not _deleted)


CASES = [(config, name) for config, names in ((DONE, OF_DONE), (HALF, OF_HALF)) for name in names]
NAMED = {DONE.title: "done.toml", HALF.title: "half.toml"}


@each_damage
@pytest.mark.parametrize(("config", "name"), CASES, ids=[f"{NAMED[c.title]}-{name}" for c, name in CASES])
def test_every_command_survives_a_damaged_run(
    config: ExperimentConfig, name: str, damage: Damage, copy: Path, call: Call
) -> None:
    folder = Path("runs") / config.title
    damage(folder / name)
    shown = name in ("config.toml", "scores.json")
    lost = name == "config.toml" or (shown and damage is not _deleted)
    assert (str(folder) in checked_call(call, "list", code=0)) == lost
    err = checked_call(call, "show", str(folder), code=2 if shown_as_damaged(name, damage) else 0)
    assert err.startswith("whorl: ") == (name in err) == (str(folder) in err) == shown_as_damaged(name, damage)
    assert (name == "epoch.safetensors" and err != "") == ("or resume the run without it" in err)
    if shown:
        other = f"runs/{(HALF if config is DONE else DONE).title}"
        checked_call(call, "compare", str(folder), other, "--plot", "compare.svg", code=2)
        assert (str(folder) in checked_call(call, "report", code=0)) == lost
    else:
        checked_call(call, "compare", f"runs/{DONE.title}", f"runs/{HALF.title}", "--plot", "compare.svg", code=0)
    code = 2 if refused(config, name, damage) else 0
    err = checked_call(call, "run", "--config", NAMED[config.title], "--quiet", code=code, apart_from=str(folder))
    assert (folder / "notes.txt").read_text() == "of the user"
    if code == 2:
        kinds: dict[Damage, str] = {_a_folder: " is a folder", _a_pipe: " is a pipe"}
        assert f"{folder / name}{kinds.get(damage, '')}" in err
    elif name == "epoch.safetensors" and config is HALF and damage is not _deleted:
        assert err.startswith(f"{folder / name} is not used (")
        assert err.endswith("; task 2 starts again\n")
        assert "start over" not in err
    elif name == "config.toml":
        was = "missing" if damage is _deleted else "damaged"
        assert err == f"{folder / name} was {was} and has been written again\n"
    else:
        assert err == ""


def test_the_result_after_a_damaged_epoch_is_that_of_a_whole_run(
    copy: Path, call: Call, small_data: Dataset, tmp_path: Path
) -> None:
    whole = run(HALF, small_data, tmp_path / "whole")
    _flipped(copy / "runs" / HALF.title / "epoch.safetensors")
    call("run", "--config", "half.toml", "--quiet")
    assert checks.same(checks.stored(copy / "runs" / HALF.title), checks.stored(whole.path))


def test_a_notice_names_flags(copy: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise WhorlError("lower `memory.quota`")

    monkeypatch.setattr(Run, "load_epoch", damaged)
    _, err = call("run", "--config", "half.toml", "--quiet")
    assert "is not used (lower --quota)" in err


@each_damage
@pytest.mark.parametrize("name", ["config.toml", "scores.json", "task-01.safetensors"])
def test_a_damaged_shared_task_1_is_refused(name: str, damage: Damage, copy: Path, small_data: Dataset) -> None:
    folder = copy / "runs" / DONE.title
    damage(folder / name)
    before = snapshot(copy)
    missing = damage is _deleted and name == "scores.json"
    with pytest.raises(WhorlError, match="has not finished task 1" if missing else re.escape(name)):
        run(TAKER, small_data, copy / "runs", task1=Run.open(folder))
    after = {path: what for path, what in snapshot(copy).items() if TAKER.title not in path}
    assert after == before


@each_damage
def test_a_damaged_model_is_refused(damage: Damage, copy: Path) -> None:
    damage(copy / "model" / "model.safetensors")
    before = snapshot(copy)
    with pytest.raises(WhorlError, match=r"model(\.safetensors)?"):
        Whorl.load(copy / "model", verbose=0)
    assert snapshot(copy) == before


quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@quick
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255), number=st.integers(0, 3))
def test_a_flipped_byte_is_noticed(template: Path, place: float, value: int, number: int) -> None:
    """In the four kinds of tensor files; each is read through its schema."""
    names = "task-01.safetensors", "memory-01.safetensors", "epoch.safetensors", "model.safetensors"
    source = template / "model" if number == 3 else template / "runs" / HALF.title
    folder = template / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    content = bytearray((folder / names[number]).read_bytes())
    content[int(place * len(content))] ^= value
    (folder / names[number]).write_bytes(content)
    store = Run(folder, HALF)
    readers: list[Callable[[], object]] = [
        lambda: store.labels(1), lambda: store.load_task(1, None), lambda: store.load_epoch(2),  # type: ignore[arg-type]
        lambda: Whorl.load(folder, verbose=0),
    ]  # fmt: skip
    with pytest.raises(WhorlError, match=re.escape(names[number])):
        readers[number]()


@quick
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255))
def test_a_flipped_byte_in_the_scores_changes_no_number(template: Path, place: float, value: int) -> None:
    store = Run(template / "runs" / HALF.title, HALF)
    content = (store.path / "scores.json").read_bytes()
    damaged = bytearray(content)
    damaged[int(place * len(damaged))] ^= value
    folder = template / "scores"
    folder.mkdir(exist_ok=True)
    (folder / "scores.json").write_bytes(damaged)
    with suppress(WhorlError):
        assert Run(folder, HALF).scores() == store.scores()  # another blank between two values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
STEP = st.dictionaries(st.sampled_from(["task", "classes", "acc", "per_task", "method", "images", "mapping"]), JSON)


@quick
@given(
    steps=st.lists(STEP | JSON, max_size=3) | JSON,
    finished=st.booleans() | JSON,
    more=st.dictionaries(st.sampled_from(["provenance", "avg", "format", "x", "checksum"]), JSON),
)
def test_no_content_of_the_scores_is_a_traceback(template: Path, steps: Any, finished: Any, more: Any) -> None:
    folder = template / "anything"
    folder.mkdir(exist_ok=True)
    document = {"format": 2, "finished": finished, "steps": steps, **more}
    (folder / "scores.json").write_text(json.dumps(document))
    with suppress(WhorlError):
        found = Run(folder, HALF).scores()
        json.dumps(found.summary.model_dump(), allow_nan=False)
