"""A model folder that has learned digits, made once; each test gets a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from albums import SETTINGS, digits
from whorl.photos.zoo import Zoo


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of photos and ``zoo``, which knows 0 to 3 by labels and has put 4 to 6 into five clusters."""
    home = tmp_path_factory.mktemp("learned")
    digits(home / "labelled", range(4), 0, 30, labelled=True)
    digits(home / "may", range(4, 7), 0, 30)
    with Zoo.new(home / "zoo") as zoo:
        zoo.learn(home / "labelled", settings=SETTINGS, verbose=0)
        zoo.learn(home / "may", new=5, verbose=0)
    return home


@pytest.fixture
def home(learned: Path, tmp_path: Path) -> Path:
    """A copy of all of it; the stored paths are those of the original."""
    return Path(shutil.copytree(learned, tmp_path / "home"))
