"""The commands of docs/photos.md, as a reader types them, on digits and with a small network."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from albums import digit_of, digits
from conftest import Call
from whorl.photos.zoo import Zoo

PAGE = Path(__file__).parents[2] / "docs" / "photos.md"
BLOCKS = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
SMALL = ("--net", "tiny", "--recipe", "demo", "--resize", "8", "--set", "train.augment=shift")
"""Added to the commands that make a model."""


def typed() -> list[list[str]]:
    """The commands in the blocks of the page."""
    lines = [line for block in BLOCKS.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]
    assert all(line.startswith("whorl ") for line in lines)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """The folders and the table that the page is about."""
    home = tmp_path / "photos"
    digits(home / "labelled", range(4), 0, 30, labelled=True)
    digits(home / "2026-05", range(4, 7), 0, 30)
    digits(home / "2026-05", [0, 2], 50, 10)
    digits(home / "2026-06", [5, 7, 8], 60, 20)
    digits(home / "new", range(4), 100, 5)
    day = digits(home / "day", [3, 4], 100, 10)
    rows = [f"{path.name},{digit_of(path)}" for path in day]
    (tmp_path / "labels.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    return home


def test_the_commands_of_the_page_run(photos: Path, call: Call) -> None:
    said, commands = dict[str, str](), typed()
    for words in commands:
        begins = "learn" in words and not Path(words[words.index("--into") + 1]).exists()
        said[shlex.join(words)] = call(*words, *(SMALL if begins else ()))[0]
    assert {words[0] for words in commands} == {
        "learn", "predict", "sort", "clusters", "history", "name", "merge", "split", "junk", "undo", "redo",
    }  # fmt: skip
    mixed = said["learn photos/2026-05 --into zoo"]
    assert re.search(r"^known: \d+ photos of clusters ", mixed, re.MULTILINE)
    assert re.search(r"^new: \d+ photos of clusters 5, ", mixed, re.MULTILINE)
    assert re.search(r"^\d+ new classes.*: the silhouette of held-out samples is highest", mixed, re.MULTILINE)
    assert "\n3 new classes: the number was given\n" in said["learn photos/2026-06 --into zoo --new 3"]
    assert said["learn --into zoo"].startswith("learned corrections from ")
    with Zoo.open("zoo", verbose=0) as zoo:
        assert "sea otter" in {one.name for one in zoo.catalog.shown.values()}
        assert zoo.catalog.clusters[7].junk
    answers = Path("answers.csv").read_text().splitlines()[1:]
    assert len(answers) == len(list(photos.joinpath("new").iterdir())) == 20
    assert len(list(Path("sorted").rglob("*.png"))) == 20
