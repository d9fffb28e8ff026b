"""Fixtures for all tests: small data, seeded draws, and processes that end with the test."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import torch

from terminal import Process, Watch
from whorl.data import DataOptions, load
from whorl.data.source import Dataset

# The nets of the tests are so small that a second thread only slows them down, and several test processes share the
# cores.
torch.set_num_threads(1)

os.environ.pop("COLUMNS", None)  # tests set the width that they need
os.environ["WHORL_FEATURES"] = "off"  # the user's cache is not for tests

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def small_data() -> Dataset:
    """Six classes of 8×8 images that can be learned, with 20 training images per class."""
    return load("synthetic", None, DataOptions(resize=8, per_class=20, classes=6))


@pytest.fixture
def draws() -> torch.Generator:
    return torch.Generator().manual_seed(0)


class Start(Protocol):
    def __call__(self, *words: str, cwd: Path, halt: str | None = None) -> Process: ...


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts commands that run beside the test. After the test, none of their processes is left."""
    started: list[Process] = []

    def call(*words: str, cwd: Path, halt: str | None = None) -> Process:
        started.append(Process(words, cwd, tmp_path_factory.mktemp("process"), halt))
        return started[-1]

    yield call
    for process in started:
        process.end()


class Call(Protocol):
    def __call__(self, *words: str, code: int = 0) -> tuple[str, str]: ...


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in this process and an empty folder; returns what it prints on stdout and on stderr."""
    from whorl.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # the command replaces it

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["whorl", *words])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        assert (end.value.code or 0) == code, printed.err
        assert "Traceback" not in printed.err
        return printed.out, printed.err

    return run


@pytest.fixture
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Follows processes that the tested code starts. After the test, none of them is left."""
    made = Watch(tmp_path_factory.mktemp("watch"))
    yield made
    made.end()


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of photos, and ``zoo``, which knows 0 to 3 by labels and has put 4 to 6 into five clusters.

    ``start`` is the same model folder before that.
    """
    from albums import SETTINGS, digits
    from whorl.photos import Zoo

    home = tmp_path_factory.mktemp("learned")
    digits(home / "labelled", range(4), 0, 30, labelled=True)
    digits(home / "may", range(4, 7), 0, 30)
    with Zoo.new(home / "zoo", verbose=0) as zoo:
        zoo.learn(home / "labelled", settings=SETTINGS)
    shutil.copytree(home / "zoo", home / "start")
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.learn(home / "may", new=5, all_new=True)
    return home


@pytest.fixture
def home(learned: Path, tmp_path: Path) -> Path:
    """A copy of all of it; the stored paths are those of the original."""
    return Path(shutil.copytree(learned, tmp_path / "home"))
