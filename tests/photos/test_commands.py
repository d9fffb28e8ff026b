"""The commands over a model folder, as they are typed."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from albums import deliver, digit_of, digits, fake_store
from conftest import Call

NET = ("--net", "tiny", "--recipe", "demo", "--resize", "8", "--set", "train.augment=shift", "--quiet")


@pytest.fixture
def zoo(tmp_path: Path, call: Call) -> Path:
    """A model folder with three clusters, one of them named, and no learner."""
    store = fake_store(tmp_path / "zoo")
    deliver(store, {1: 2, 2: 3, 3: 4}, {1: "cat"})
    store.close()
    return tmp_path / "zoo"


def test_from_photos_to_sorted_folders(home: Path, call: Call) -> None:
    shutil.rmtree(home / "zoo")
    digits(home / "test", range(4), 0, 5)
    lab, zoo, test = str(home / "labelled"), str(home / "zoo"), str(home / "test")
    out, _ = call("learn", lab, "--into", zoo, *NET)
    assert out == "delivery 1: learned 120 photos\nnew: clusters 1 0, 2 1, 3 2, 4 3\n"
    out, _ = call("learn", str(home / "may"), "--into", zoo, "--new", "2", "--quiet", "--json")
    report = json.loads(out)
    assert report["made"] == {"5": None, "6": None}
    assert (report["mixed"]["clusters"], report["mixed"]["reasons"]) == (2, ["the number was given"])
    assert report["images"] + len(report["found"]["junk"]) == 90
    answers = json.loads(call("predict", test, "--with", zoo, "--json")[0])
    assert [one["file"] for one in answers] == sorted(map(str, (home / "test").iterdir()))
    right = sum(one["answer"] == str(digit_of(one["file"])) for one in answers)
    assert right > 12
    call("predict", test, "--with", zoo, "--csv", str(home / "answers.csv"))
    with open(home / "answers.csv", newline="") as file:
        assert [(row["file"], row["answer"]) for row in csv.DictReader(file)] == [
            (one["file"], one["answer"]) for one in answers
        ]
    out, _ = call("sort", test, "--with", zoo, "--to", str(home / "sorted"))
    assert out.endswith(f"copied 20 photos to {home / 'sorted'}\n")
    there = Counter(path.parent.name for path in (home / "sorted").rglob("*.png"))
    assert there == Counter(one["answer"] for one in answers)
    out, _ = call("sort", test, "--with", zoo, "--to", str(home / "sorted"), "--move")
    assert out.endswith("; 20 were there already\n")
    assert len(list((home / "test").iterdir())) == 20  # nothing was moved onto a copy


def test_clusters_and_edits(zoo: Path, call: Call) -> None:
    assert call("clusters", "zoo")[0].splitlines() == [
        "cluster  name  images  delivery  sure",
        "      1  cat        2         1  50 %",
        "      2  –          3         1  50 %",
        "      3  –          4         1  50 %",
    ]
    assert call("name", "zoo", "2", "sea  otter")[0] == "named 2 'sea otter'\n"
    assert call("merge", "zoo", "3", "2", "1")[0] == "merged 3, 2 and 1 into 4\n"
    assert call("undo", "zoo")[0] == "took back event 3: merged 3, 2 and 1 into 4\n"
    assert call("redo", "zoo")[0] == "made again event 3: merged 3, 2 and 1 into 4\n"
    assert call("split", "zoo", "4", "1.png", "/photos/2.png")[0] == "put 2 images of 4 into 5\n"
    assert call("move", "zoo", "4", "3.png", "--to", "5")[0] == "moved 1 image of 4 to 5\n"
    assert call("junk", "zoo", "5", "3.png")[0] == "called 1 image of 5 junk\n"
    assert json.loads(call("junk", "zoo", "5", "--json")[0]) == {
        "event": 9, "kind": "junk", "clusters": [5], "made": [],
    }  # fmt: skip
    found = json.loads(call("clusters", "zoo", "--json")[0])
    assert [(one["id"], one["name"], one["images"], one["junk"]) for one in found] == [
        (4, "sea otter", 6, False), (5, None, 2, True), (6, None, 1, True),
    ]  # fmt: skip
    lines = call("history", "zoo")[0].splitlines()
    assert len(lines) == 10
    assert lines[1].endswith("learned 9 photos of /photos: new clusters 1 to 3")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("merge", "zoo", "1", "9"), "there is no cluster 9; `whorl clusters` lists those there are"),
        (("merge", "zoo", "1"), "merging needs at least two clusters"),
        (("name", "zoo", "2", "CAT"), "cluster 1 is called 'cat' already"),
        (("name", "zoo", "2", "unknown"), "'unknown' is an answer that every model has"),
        (("undo", "zoo"), "there is nothing to undo"),
        (("redo", "zoo"), "there is nothing to redo"),
        (("split", "zoo", "1"), "split a cluster either --into a number of parts, or by a list of images"),
        (("split", "zoo", "1", "9.png"), "cluster 1 has no image '9.png'"),
        (("move", "zoo", "1", "1.png", "--to", "7"), "there is no cluster 7"),
        (("clusters", "."), ". is not a model folder; `whorl learn` makes one from labelled photos"),
        (("clusters", "nowhere"), "nowhere does not exist"),
        (("learn", "--into", "nowhere"), "nowhere does not exist"),
        (
            ("learn", "--into", "zoo", "--new", "3"),
            "--labels, --new and --all-new are about a folder of photos",
        ),
        (("learn", "x", "--into", "zoo", "--all-new"), "the number of classes is not estimated with --all-new; state"),
        (("learn", "x", "--into", "y", "--new", "2"), "--new is about photos without labels, and these have some"),
        (
            ("learn", "x", "--into", "y", "--net", "hf:x", "--tune", "some"),
            "unknown net.tune value 'some'; known: all, last, none",
        ),
        (("learn", "x", "--into", "y", "--weights", "w"), "--weights is for networks of timm and transformers"),
        (("learn", "x", "--into", "y", "--method", "oours"), "unknown method 'oours'; did you mean 'ours'?"),
        (("learn", "x", "--into", "y", "--set", "train.epoch=3"), "unknown config key 'train.epoch'"),
        (("sort", "x", "--with", "zoo", "--to", "y", "--link", "--move"), "choose one of --copy, --link and --move"),
    ],
)
def test_wrong_commands_are_answered_in_one_line(words: tuple[str, ...], line: str, zoo: Path, call: Call) -> None:
    before = (zoo / "model.sqlite").read_bytes()
    out, err = call(*words, code=2)
    assert out == ""
    assert err.startswith(f"whorl: {line}")
    assert err.count("\n") == 1
    assert (zoo / "model.sqlite").read_bytes() == before


def test_a_typo_is_refused_without_a_terminal(zoo: Path, call: Call) -> None:
    call("name", "zoo", "2", "otter")
    _, err = call("name", "zoo", "3", "oter", code=2)
    assert err == "whorl: 'oter' is one letter away from 'otter'; pass --yes if it is another class\n"
    assert call("name", "zoo", "3", "oter", "--yes")[0] == "named 3 'oter'\n"
