"""The provenance of a run against what the machine and git report."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

import whorl
from whorl import provenance
from whorl.runtime import Runtime
from whorl.scores import RunScores, TaskScores, from_json, to_json


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    provenance.commit.cache_clear()
    yield
    provenance.commit.cache_clear()


def git(folder: Path, *words: str) -> str:
    about = "-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"
    done = subprocess.run(["git", *about, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout with ``src/whorl/provenance.py`` that the module believes to be its own."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    source = tmp_path / "project" / "src" / "whorl"
    source.mkdir(parents=True)
    (source / "provenance.py").write_text("# here\n")
    monkeypatch.setattr(provenance, "__file__", str(source / "provenance.py"))
    git(tmp_path / "project", "init", "-q")
    return tmp_path / "project"


def test_the_record_is_that_of_this_process() -> None:
    before = provenance.now()
    found = provenance.provenance(Runtime(), before, (2, 3))
    assert (found.whorl, found.torch, found.python) == (whorl.__version__, torch.__version__, platform.python_version())
    assert (found.device, found.threads, found.tasks) == ("cpu", torch.get_num_threads(), (2, 3))
    started, finished = datetime.fromisoformat(found.started), datetime.fromisoformat(found.finished)
    assert started.tzinfo == finished.tzinfo == UTC
    assert started <= finished
    stored = from_json(to_json(RunScores(provenance=(found,))), "x")
    assert stored.provenance == (found,)
    assert stored.versions == (found.version,)


def test_the_commit_and_whether_the_source_was_changed(checkout: Path) -> None:
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "one")
    head = git(checkout, "rev-parse", "HEAD")[:10]
    assert provenance.commit() == head
    (checkout / "notes.txt").write_text("beside the source\n")
    provenance.commit.cache_clear()
    assert provenance.commit() == head
    (checkout / "src" / "whorl" / "provenance.py").write_text("# changed\n")
    provenance.commit.cache_clear()
    assert provenance.commit() == head + "+"


def test_an_installed_package_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is installed inside the checkout of another project."""
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "one")
    site = checkout / "venv" / "lib" / "site-packages" / "whorl"
    site.mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(site / "provenance.py"))
    assert provenance.commit() is None


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance.commit() is None  # a repository without a commit
    provenance.commit.cache_clear()
    monkeypatch.setenv("PATH", str(checkout))
    assert provenance.commit() is None


def test_versions_are_listed_once() -> None:
    one = provenance.provenance(Runtime(), provenance.now(), (1,))
    other = one.model_copy(update={"whorl": "9.9", "commit": None})
    scores = RunScores(provenance=(one, other, one))
    assert scores.versions == (one.version, "9.9")
    assert RunScores().versions == ()
    assert RunScores(steps=(TaskScores(task=1, classes=2, seconds=1.0),)).versions == ("not recorded",)
