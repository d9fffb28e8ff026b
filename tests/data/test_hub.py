import re
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import checks
from whorl.data import DataOptions, load, parts
from whorl.data.configured import load_configured
from whorl.errors import WhorlError
from whorl.sections import DataConfig

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
    datasets.disable_progress_bars()


def png(red: int, green: int) -> bytes:
    file = BytesIO()
    Image.new("RGB", (9, 5), (red, green, 0)).save(file, "PNG")
    return file.getvalue()


def rows(labels: list[Any], kind: Any, label: str = "label", image: str = "img") -> Any:
    cells = [{"bytes": png(7, i), "path": None} for i in range(len(labels))]
    features = datasets.Features({"id": datasets.Value("int64"), image: datasets.Image(), label: kind})
    return datasets.Dataset.from_dict({"id": list(range(len(labels))), image: cells, label: labels}, features=features)


def stored(path: Path, **parts: Any) -> str:
    datasets.DatasetDict(parts).save_to_disk(str(path))
    return f"hub:{path}"


def greens(source: Any) -> list[int]:
    return source.read(np.arange(len(source)))[:, 2, 2, 1].tolist()  # type: ignore[no-any-return]


def test_class_labels_and_both_parts(tmp_path: Path) -> None:
    kind = datasets.ClassLabel(names=["zebra", "unused", "ape"])
    name = stored(tmp_path / "d", train=rows([2, 0, 2, 0], kind), test=rows([0, 2], kind))
    data = load(name, None, DataOptions(resize=6))
    assert (data.name, data.class_names) == (name, ("zebra", "ape"))  # the declared order, without the empty class
    assert data.train_labels.tolist() == [1, 0, 1, 0]
    assert data.test_labels.tolist() == [0, 1]
    assert (data.train.size, data.inputs.size, data.train.resident) == (6, 6, True)
    assert greens(data.train) == [0, 1, 2, 3]
    assert data.fingerprint


def test_strings_and_a_split(tmp_path: Path) -> None:
    whole = rows(["b", "a"] * 10, datasets.Value("string"), label="labels")
    whole.save_to_disk(str(tmp_path / "d"))
    data = load(f"hub:{tmp_path / 'd'}", None)
    assert data.class_names == ("a", "b")
    assert np.bincount(data.train_labels).tolist() == [8, 8]
    assert np.bincount(data.test_labels).tolist() == [2, 2]
    seen = np.array(greens(data.train) + greens(data.test))
    assert sorted(seen) == list(range(20))
    assert (1 - seen % 2).tolist() == [*data.train_labels, *data.test_labels]


def test_validation_part_replaces_an_unlabelled_test_part(tmp_path: Path) -> None:
    kind = datasets.ClassLabel(names=["x", "y"])
    fine = rows([0, 1, 1], kind, label="fine_label")
    name = stored(tmp_path / "d", train=fine, validation=fine, test=rows([-1, -1], kind, label="fine_label"))
    assert load(name, None).test_labels.tolist() == [0, 1, 1]


def test_fingerprint_depends_on_the_content(tmp_path: Path) -> None:
    kind = datasets.Value("int64")
    prints = [
        load(stored(tmp_path / str(i), train=rows([*labels, 0, 1], kind)), None).fingerprint
        for i, labels in enumerate(([0, 1], [0, 1], [1, 0]))
    ]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("resident", [True, False])
def test_the_fingerprint_is_computed_from_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resident: bool
) -> None:
    """The fingerprint that ``datasets`` stores with the table is not trusted."""
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    kind = datasets.ClassLabel(names=["x", "y"])
    one, other = (rows(labels, kind) for labels in ([0, 1] * 4, [1, 0] * 4))
    for number, table in enumerate((one, other)):
        table._fingerprint = "0123456789abcdef"
        table.save_to_disk(str(tmp_path / str(number)))
    prints = [load(f"hub:{tmp_path / str(number)}", None).fingerprint for number in (0, 1)]
    assert prints[0] != prints[1]
    renamed = rows([0, 1] * 4, datasets.ClassLabel(names=["x", "z"]))
    renamed.save_to_disk(str(tmp_path / "2"))
    assert load(f"hub:{tmp_path / '2'}", None).fingerprint not in prints


def test_different_paths_are_one_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also copies elsewhere; a long path makes no long name of a run, and the stored config loads the data again."""
    long = tmp_path / ("a" * 200) / ("b" * 200) / "d"
    rows([0, 1] * 4, datasets.ClassLabel(names=["x", "y"])).save_to_disk(str(tmp_path / "d"))
    shutil.copytree(tmp_path / "d", long)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    given: list[tuple[str, Path | None]] = [
        ("hub:d", None), ("hub:./d/", None), (f"hub:{tmp_path}/d", None), ("hub:~/d", None), (f"hub:{long}", None),
        ("hub:", Path("d")), ("hub:", long),
    ]  # fmt: skip
    found = {load_configured(DataConfig(name=name), where, False, 0, print)[0] for name, where in given}
    assert len(found) == 1
    (section,) = found
    assert section.name == "hub:"
    config = checks.small_config().model_copy(update={"data": section})
    assert re.fullmatch(r"hub-[a-z]+-pseudo-step\d+-seed0-[0-9a-f]{10}", config.title)
    with pytest.raises(WhorlError, match=r"hub: needs a name, .*, or a folder; set `data_dir` to it"):
        load("hub:", None)


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("cifar100", "cifar100-"),
        ("hub:uoft-cs/cifar10", "hub-uoft-cs-cifar10-"),
        ("hub:" + "x" * 3000, "hub-" + "x" * 36 + "-"),
        ("hub:" + "ü" * 3000, "hub-" + "ü" * 36 + "-"),
    ],
    ids=["ordinary", "hub", "long", "not ASCII"],
)
def test_names_of_runs_are_short(name: str, begins: str) -> None:
    config = checks.small_config(data__name=name)
    assert config.title.startswith(begins)
    assert len(config.title.encode()) < 200


@pytest.mark.parametrize("reference", ["x" * 5000, "~nobody-of-this-name/d", "a\0b", "../" * 2000, "\udce9"])
def test_names_that_are_no_paths_give_one_line(reference: str, tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match="cannot be loaded") as caught:
        load_configured(DataConfig(name=f"hub:{reference}"), tmp_path, False, 0, print)
    assert "\n" not in str(caught.value)


def test_scripts_of_data_sets_are_not_run(tmp_path: Path) -> None:
    place = tmp_path / "evil"
    place.mkdir()
    (place / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    with pytest.raises(WhorlError, match=r"hub:.*evil cannot be loaded") as caught:
        load(f"hub:{place}", tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "executed").exists()


def test_remote_code_is_refused_explicitly(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def load_dataset(name: str, **options: Any) -> Any:
        given.update(options)
        return rows([0, 1] * 4, datasets.ClassLabel(names=["x", "y"]))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    load("hub:someone/something", None)
    assert given["trust_remote_code"] is False


@pytest.mark.parametrize("resident", [True, False])
def test_broken_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resident: bool) -> None:
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    cells: list[Any] = [{"bytes": png(7, i), "path": None} for i in range(6)]
    cells[1], cells[4] = {"bytes": b"broken", "path": None}, None
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    train = datasets.Dataset.from_dict({"image": cells, "label": [0, 0, 0, 1, 1, 1]}, features=features)
    name = stored(tmp_path / "d", train=train, test=rows([0, 1], datasets.Value("int64"), image="image"))
    said: list[str] = []
    data = load(name, None, notify=said.append)
    assert data.train.resident is resident
    assert data.skipped == ("train[1]", "train[4]")
    assert said[1] == "skipped: train[4]: has no image"
    assert greens(data.train) == [0, 2, 3, 5]
    assert data.train_labels.tolist() == [0, 0, 1, 1]
    assert torch.equal(data.train.read(np.array([3])), data.train.read(np.array([0, 3]))[1:])
    with pytest.raises(WhorlError, match=r"^train\[1\]: cannot be read"):
        load(name, None, DataOptions(strict=True))


def test_unsuitable_columns(tmp_path: Path) -> None:
    kind = datasets.Value("string")
    with pytest.raises(WhorlError, match=r"has no column named label or .* its columns are id, img, breed"):
        load(stored(tmp_path / "a", train=rows(["x"], kind, label="breed")), None)
    bare = datasets.Dataset.from_dict({"label": [0, 1]})
    with pytest.raises(WhorlError, match="has no image column; its columns are label"):
        load(stored(tmp_path / "b", train=bare), None)
    with pytest.raises(WhorlError, match="column 'label' of part 'train' has images without a label"):
        load(stored(tmp_path / "c", train=rows(["x", None], kind)), None)
    with pytest.raises(WhorlError, match="test samples but no training samples: y"):
        load(stored(tmp_path / "d", train=rows(["x"], kind), test=rows(["x", "y"], kind)), None)


def test_unknown_name_and_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WhorlError, match=r"hub:no/such-thing cannot be loaded \(.*\); check the name"):
        load("hub:no/such-thing", tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(WhorlError, match=r'pip install "whorl\[hub\]"'):
        load("hub:anything", None)
