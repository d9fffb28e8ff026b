"""A run on changed data says which stored run it does not continue; runs of earlier versions are continued."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import checks
from conftest import Call
from whorl.config import ExperimentConfig, write_toml
from whorl.data import load
from whorl.runs.run import Run
from whorl.sections import DataConfig
from whorl.tree import read_toml

WORDS = ("run", "--data", "folder", "--data-dir", "photos", "--step", "1", "--resize", "8", "--net", "tiny",
         "--recipe", "demo", "--epochs", "1", "--quota", "2")  # fmt: skip


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    draws = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            pixels = draws.integers(0, 256, (8, 8, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.bmp")
    return tmp_path / "photos"


def runs(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_one_more_photo_is_announced(photos: Path, tmp_path: Path, call: Call) -> None:
    assert "changed" not in call(*WORDS)[1]
    (stored,) = runs(tmp_path / "runs")
    more = photos / "cat" / "more.bmp"
    Image.new("RGB", (8, 8), (1, 2, 3)).save(more)
    err = call(*WORDS)[1]
    assert (
        f"{Path('runs') / stored.name} has the same settings but other data: now 17 training samples, then 16; this"
        in err
    )
    assert "moving new images elsewhere" in err
    assert len(runs(tmp_path / "runs")) == 2
    assert "changed" not in call(*WORDS)[1]  # that run is stored now
    more.unlink()
    assert "changed" not in call(*WORDS)[1]
    assert "changed" not in call(*WORDS, "--seed", "1")[1]  # differs in more than the data
    assert len(runs(tmp_path / "runs")) == 3


def test_other_contents_of_as_many_photos_are_announced(photos: Path, tmp_path: Path, call: Call) -> None:
    call(*WORDS)
    (stored,) = runs(tmp_path / "runs")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(photos / "cat" / "0.bmp")
    err = call(*WORDS)[1]
    assert (
        f"{Path('runs') / stored.name} has the same settings but other data: as many training samples as before, but "
        "the contents differ; this is a new run from task 1; to go on with the stored one, use its data again, for "
        "instance by putting back the earlier files" in err
    )
    assert "16" not in err.split("other data")[1].splitlines()[0]


def test_damaged_folders_are_passed_over(photos: Path, tmp_path: Path, call: Call) -> None:
    call(*WORDS)
    (stored,) = runs(tmp_path / "runs")
    for damage, known in (("scores.json", True), ("config.toml", False)):
        (stored / damage).write_text("[[[")
        Image.new("RGB", (8, 8), (1, 2, 3)).save(photos / "cat" / "more.bmp")
        err = call(*WORDS)[1]
        assert ("the same settings but other data" in err) is known
        assert ", then" not in err
        shutil.rmtree(next(path for path in runs(tmp_path / "runs") if path != stored))


@pytest.mark.usefixtures("photos")
def test_a_run_of_an_earlier_version_is_continued(tmp_path: Path, call: Call) -> None:
    call(*WORDS)
    (stored,) = runs(tmp_path / "runs")
    config = ExperimentConfig.model_validate(read_toml(stored / "config.toml"))
    data = load("folder", tmp_path / "photos")
    section: DataConfig = config.data.model_copy(update={"fingerprint": data.earlier_fingerprint})
    before = Run.at(tmp_path / "runs", config.model_copy(update={"data": section}))
    shutil.copytree(stored, before.path)
    shutil.rmtree(stored)
    checks.unbind(before.path)
    (before.path / "config.toml").write_text(write_toml(before.config))
    out, err = call(*WORDS)
    assert runs(tmp_path / "runs") == [before.path]
    assert "changed" not in err
    assert before.config.hash in out
