"""Whole runs on real images; skipped where there are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SHARED

TINY, CIFAR = SHARED / "tinyimagenet100", SHARED / "cifar100"


def whorl(*words: str, tmp: Path, threads: int = 1) -> dict[str, object]:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp / "cache"), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "whorl", "run", *words, "--json", "--out", str(tmp / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


@pytest.mark.skipif(not TINY.is_dir(), reason=f"needs the images in {TINY.name}")
@pytest.mark.parametrize("data", ["imagenet", "folder"])
def test_real_jpegs_decoded_on_demand_and_in_memory(data: str, tmp_path: Path) -> None:
    words = f"--data {data} --data-dir {TINY} --classes 6 --resize 16 --net tiny --step 2 --epochs 3 --recipe fast"
    document = whorl(*words.split(), tmp=tmp_path)
    steps = document["steps"]
    assert isinstance(steps, list)
    assert [step["classes"] for step in steps] == [2, 4, 6]
    assert steps[0]["acc"] > 0.5
    assert 0.5 <= steps[1]["label_acc"] <= 1
    assert steps[2]["acc"] > 1 / 6


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not CIFAR.is_dir(), reason=f"needs the images in {CIFAR.name}")
def test_the_fast_recipe_on_the_first_ten_classes_of_cifar100(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SHARED / "unpack"), str(tmp_path)], check=True, capture_output=True)
    words = f"--data cifar100 --data-dir {tmp_path} --method ours --step 10 --tasks 1 --recipe fast"
    document = whorl(*words.split(), tmp=tmp_path, threads=os.cpu_count() or 1)
    assert isinstance(document["last"], float)
    assert document["last"] >= 0.87
