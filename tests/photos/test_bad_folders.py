"""Input that cannot be learned: one clear line, and the model is as it was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from albums import SETTINGS, digits
from whorl.data.decode import decode
from whorl.errors import WhorlError
from whorl.photos import intake
from whorl.photos.files import FILES
from whorl.photos.labels import listed, read_labels
from whorl.photos.zoo import Zoo


def _empty(folder: Path) -> None:
    folder.mkdir()


def _no_images(folder: Path) -> None:
    _empty(folder)
    (folder / "notes.txt").write_text("nothing")


def _broken(folder: Path) -> None:
    _empty(folder)
    (folder / "a.png").write_bytes(b"no image")


def _one_class(folder: Path) -> None:
    digits(folder, [3], 0, 5, labelled=True)


def _one_readable_class(folder: Path) -> None:
    _one_class(folder)
    (folder / "4").mkdir()
    Image.new("RGB", (100, 1)).save(folder / "4" / "thin.png")


def _same_names(folder: Path) -> None:
    digits(folder / "Cat", [3], 0, 5)
    digits(folder / "cat", [4], 0, 5)


def _loose(folder: Path) -> None:
    digits(folder, [3, 4], 0, 5)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda folder: None, "does not exist; pass a folder of photos"),
        (_empty, "has no class folders"),
        (_loose, "has 10 images but no class folders"),
        (_one_class, "has only one class; a model needs at least two"),
        (_one_readable_class, "only one class of .* has photos that can be read"),
        (_same_names, "the folders 'Cat' and 'cat' have the same name"),
    ],
)
def test_a_first_delivery_that_cannot_be_learned(make: Callable[[Path], None], line: str, tmp_path: Path) -> None:
    make(tmp_path / "photos")
    with Zoo.new(tmp_path / "zoo", verbose=0) as zoo, pytest.raises(WhorlError, match=line):
        zoo.learn(tmp_path / "photos", settings=SETTINGS)
    assert not (tmp_path / "zoo").exists()


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (_empty, "folder .* has no images; add some or remove it"),
        (_no_images, "has no images that can be read"),
        (_broken, "has no photo that can be learned; add some"),
    ],
)
def test_a_later_delivery_that_cannot_be_learned(make: Callable[[Path], None], line: str, home: Path) -> None:
    make(home / "june")
    before = (home / "zoo" / "model.sqlite").read_bytes()
    with Zoo.open(home / "zoo", verbose=0) as zoo, pytest.raises(WhorlError, match=line):
        zoo.learn(home / "june", new=2)
    assert (home / "zoo" / "model.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"new": 4}, "cannot find 4 new classes in 3 samples; `new` must be 0 to 3"),
        ({"new": 4, "all_new": True}, "needs `new`, their number, between 1 and 3"),
        ({"all_new": True}, "the number of classes is not estimated with `all_new`; state it with `new`"),
        ({"labels": "folders", "new": 2}, "`new` is about photos without labels, and these have some; leave it out"),
        ({"labels": "folders", "all_new": True}, "`all_new` is about photos without labels"),
    ],
)
def test_numbers_of_new_classes_that_cannot_be(asked: dict[str, Any], line: str, home: Path) -> None:
    digits(home / "june", [7], 0, 3)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        with pytest.raises(WhorlError, match=line):
            zoo.learn(home / "june", **asked)
        assert len(zoo.history()) == 2


def test_a_folder_that_changes_while_it_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = digits(home / "june", [7], 0, 2)

    def slow(path: Path, side: int, name: str) -> object:
        found = decode(path, side, name)
        if path == first:
            os.utime(first, ns=(1, 1))
        return found

    monkeypatch.setattr(intake, "decode", slow)
    with (
        Zoo.open(home / "zoo", verbose=0) as zoo,
        pytest.raises(WhorlError, match=rf"june changes while .*\({first.name}\)"),
    ):
        zoo.learn(home / "june", new=1)

    def removed(path: Path, side: int, name: str) -> object:
        second.unlink(missing_ok=True)
        return decode(path, side, name)

    monkeypatch.setattr(intake, "decode", removed)
    with (
        Zoo.open(home / "zoo", verbose=0) as zoo,
        pytest.raises(WhorlError, match=f"june changes while .*{second.name}"),
    ):
        zoo.learn(home / "june", new=1)


def test_a_damaged_or_missing_file_of_the_model(home: Path) -> None:
    digits(home / "june", [7], 0, 4)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        ((name,),) = zoo._store.rows("SELECT name FROM file WHERE kind = 'model'")
        path = home / "zoo" / FILES / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        for act in (lambda: zoo.predict(home / "june"), lambda: zoo.learn(home / "june", new=1)):
            with pytest.raises(WhorlError, match=r"model-\w+.safetensors is damaged .*; put back a copy of the file"):
                act()
        path.unlink()
        with pytest.raises(WhorlError, match=r"model-\w+.safetensors is missing; put back a copy of the file"):
            zoo.predict(home / "june")
        path.write_bytes(whole)
        ((name,),) = zoo._store.rows("SELECT features FROM delivery WHERE number = 1")
        shutil.copy(path, home / "zoo" / FILES / name)
        with pytest.raises(WhorlError, match=r"features-\w+.safetensors is damaged"):
            zoo.split(1, into=2)
        assert zoo.predict(home / "june")


def test_files_that_cannot_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(home / "june", [7], 0, 4)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Zoo.open(home / "zoo", verbose=0) as zoo:
        before = zoo.catalog
        monkeypatch.setattr("whorl.photos.files.os.replace", full)
        with pytest.raises(WhorlError, match="No space left on device; free some space"):
            zoo.learn(home / "june", new=1)
        monkeypatch.undo()
        assert zoo.catalog == before
        assert zoo.learn(home / "june", new=1, all_new=True).images == 4


def _table(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_labels_from_a_table(tmp_path: Path) -> None:
    digits(tmp_path / "photos" / "day", [3, 4], 0, 2)
    names = sorted(path.name for path in (tmp_path / "photos" / "day").iterdir())
    lines: list[str] = []
    table = _table(
        tmp_path / "labels.csv", f"label,file\nThree,day/{names[0]}\nfour,photos/day/{names[1]}\nthree,day/{names[2]}\n"
    )
    found = listed(tmp_path / "photos", table, lines.append)
    assert found.names == tuple(f"day/{name}" for name in names[:3])
    assert found.labels == ("Three", "four", "Three")
    assert lines == [f"1 photo without a label in {table}, left out: day/{names[3]}"]
    assert read_labels(Path(_table(tmp_path / "two.csv", "a.jpg,x\nb.jpg,y\n"))) == {"a.jpg": "x", "b.jpg": "y"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("file,label\nx.png,three\n", "names 1 file that .*photos does not have: x.png"),
        ("file,label\n3/A,4\n4/B,3\n", "says '4' for 3/A, and its folder says '3'; correct one of them"),
        ("3/A,three\n3/A,four\n", "gives 3/A two labels, 'three' and 'four'"),
        ("3/A,three\nphotos/3/A,four\n", "gives 3/A two labels, 'three' and 'four'"),
        ("file,label\n", "holds no labels"),
        ("", "holds no labels"),
        ("3/A\n", "has no file and label in row 1"),
        ("3/A, \n", "a name cannot be empty"),
    ],
)
def test_tables_that_cannot_be_used(text: str, line: str, tmp_path: Path) -> None:
    one, other = (path.relative_to(tmp_path / "photos") for path in digits(tmp_path / "photos", [3, 4], 0, 1, True))
    text = text.replace("3/A", one.as_posix()).replace("4/B", other.as_posix())
    table = _table(tmp_path / "labels.csv", text)
    with pytest.raises(WhorlError, match=line.replace("3/A", one.as_posix())):
        listed(tmp_path / "photos", table, lambda line: None)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    digits(tmp_path / "photos", [3], 0, 1)
    with pytest.raises(WhorlError, match=r"cannot read .*none.csv: No such file"):
        listed(tmp_path / "photos", str(tmp_path / "none.csv"), lambda line: None)
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WhorlError, match="it is not a table in UTF-8"):
        listed(tmp_path / "photos", str(tmp_path / "bad.csv"), lambda line: None)
