import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from whorl.data import DataOptions, FileSource, Subset, load, parts, source
from whorl.data.decode import Pixels, decode
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tinyimagenet100"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


def fill(folder: Path, count: int, red: int = 0, blue: int = 0) -> None:
    """``count`` images of 10 × 6 that differ in green."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.new("RGB", (10, 6), (red, i, blue)).save(folder / f"{i:03d}.png")


@pytest.fixture
def parted(tmp_path: Path) -> Path:
    root = tmp_path / "pets"
    for red, name in enumerate(("cat", "dog")):
        fill(root / "train" / name, 6, red)
        fill(root / "val" / name, 2, red, blue=1)
    return root


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = tmp_path / "plain"
    for red, name in enumerate(("ant", "bee", "cow")):
        fill(root / name, 10, red)
    return root


def test_two_parts(parted: Path) -> None:
    data = load("folder", parted)
    assert (data.class_names, data.skipped) == (("cat", "dog"), ())
    assert (data.train.size, data.train.resident) == (32, True)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert data.inputs == Inputs("images", 32, mean, std, "crop_flip", mirrors=True)
    assert data.train_labels.tolist() == [0] * 6 + [1] * 6
    assert data.test_labels.tolist() == [0, 0, 1, 1]
    assert data.train.read(np.arange(12))[:, 9, 9].tolist() == [[red, i, 0] for red in (0, 1) for i in range(6)]


def test_one_part_is_split(plain: Path) -> None:
    data = load("folder", plain, DataOptions(resize=4))
    assert np.bincount(data.train_labels).tolist() == [8, 8, 8]
    assert np.bincount(data.test_labels).tolist() == [2, 2, 2]
    pixels = [data.train.read(np.arange(24))[:, 0, 0], data.test.read(np.arange(6))[:, 0, 0]]
    for seen, labels in zip(pixels, (data.train_labels, data.test_labels), strict=True):
        assert seen[:, 0].tolist() == labels.tolist()
    everything = sorted(map(tuple, torch.cat(pixels).tolist()))
    assert everything == [(red, i, 0) for red in range(3) for i in range(10)]


def test_too_large_for_memory_gives_the_same_images(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resident = load("folder", plain, DataOptions(resize=8))
    monkeypatch.setattr(parts, "RESIDENT_BYTES", 100)
    on_disk = load("folder", plain, DataOptions(resize=8))
    assert isinstance(on_disk.train, Subset)
    assert isinstance(on_disk.train.source, FileSource)
    assert (resident.train.resident, on_disk.train.resident) == (True, False)
    assert resident.fingerprint == on_disk.fingerprint
    everything = np.arange(24)
    assert torch.equal(resident.train.read(everything), on_disk.train.read(everything))


def test_fingerprint_depends_on_the_content_not_on_the_path(parted: Path, tmp_path: Path) -> None:
    before = load("folder", parted).fingerprint
    moved = tmp_path / "elsewhere"
    shutil.copytree(parted, moved)
    assert load("folder", moved).fingerprint == before != ""
    (moved / "train" / "cat" / "000.png").rename(moved / "train" / "cat" / "zzz.png")
    assert load("folder", moved).fingerprint != before


def test_other_files_are_skipped(parted: Path) -> None:
    before = load("folder", parted).fingerprint
    said: list[str] = []
    (parted / "train" / "cat" / ".hidden.png").write_text("x")
    (parted / "train" / "cat" / "notes.txt").write_text("x")
    (parted / "train" / ".cache").mkdir()
    fill(parted / "train" / "dog" / "more", 1)
    data = load("folder", parted, notify=said.append)
    assert len(data.train) == 13  # subfolders of a class folder count
    assert data.fingerprint != before
    assert said[0] == f"skipped in {parted / 'train'}: 1 .txt file"


@pytest.mark.parametrize("resident", [True, False])
def test_broken_images(parted: Path, monkeypatch: pytest.MonkeyPatch, resident: bool) -> None:
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    before = load("folder", parted)
    (parted / "train" / "dog" / "002.png").write_text("no image")
    said: list[str] = []
    data = load("folder", parted, notify=said.append)
    assert data.train.resident is resident
    assert data.skipped == ("train/dog/002.png",)
    assert said == ["skipped: train/dog/002.png: cannot be read as an image (not an image, or in an unknown format)"]
    assert data.train.read(np.arange(6, 11))[:, 3, 3, 1].tolist() == [0, 1, 3, 4, 5]
    assert np.bincount(data.train_labels).tolist() == [6, 5]
    (parted / "train" / "dog" / "002.png").unlink()
    assert before.fingerprint != data.fingerprint == load("folder", parted).fingerprint


def test_file_names_of_any_bytes_and_broken_links(parted: Path) -> None:
    folder = os.fsencode(parted / "train" / "cat")
    shutil.copy(folder + b"/001.png", folder + b"/caf\xe9.png")
    with open(folder + b"/br\xe9k\n.png", "wb") as file:
        file.write(b"no image")
    os.symlink("/nowhere/to/be/found.png", folder + b"/link.png")
    said: list[str] = []
    data = load("folder", parted, notify=said.append)
    assert np.bincount(data.train_labels).tolist() == [7, 6]
    assert said == [
        "skipped: train/cat/br\\udce9k\\n.png: cannot be read as an image (not an image, or in an unknown format)",
        "skipped: train/cat/link.png: cannot be read as an image (no such file or directory)",
    ]


def test_strict_raises_at_the_first_broken_image(parted: Path) -> None:
    for name in ("cat/004.png", "dog/001.png"):
        (parted / "train" / name).write_text("no image")
    with pytest.raises(WhorlError, match=r"^train/cat/004\.png: cannot be read.*, or leave `strict` out to skip it$"):
        load("folder", parted, DataOptions(strict=True))


def test_checks_are_cached(parted: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    (parted / "val" / "cat" / "001.png").write_text("no image")
    before = load("folder", parted)
    kept = sorted(own_cache.rglob("checked/*.json"))
    assert len(kept) == 2
    assert any(json.loads(path.read_text())["broken"] for path in kept)
    tried: list[str] = []

    def counted(path: Path, size: int, name: str) -> Pixels:
        tried.append(name)
        return decode(path, size, name)

    with monkeypatch.context() as patch:
        patch.setattr(source, "decode", counted)
        assert load("folder", parted).skipped == before.skipped == ("val/cat/001.png",)
    assert tried == ["val/cat/001.png"]  # only the broken image is decoded again
    for useless in ("{", "[]", '{"broken": 7}', '{"broken": [999]}', '{"broken": {"1": "x"}}'):
        for path in kept:
            path.write_text(useless)
        assert load("folder", parted).skipped == before.skipped


def test_an_unwritable_cache_is_ignored(parted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(load("folder", parted).train) == 12


def test_unsuitable_folders(tmp_path: Path, parted: Path, plain: Path) -> None:
    with pytest.raises(WhorlError, match="folder needs a folder with images; set `data_dir`"):
        load("folder", None)
    with pytest.raises(WhorlError, match="nowhere does not exist; check `data_dir`"):
        load("folder", tmp_path / "nowhere")
    with pytest.raises(WhorlError, match="is not a folder"):
        load("folder", plain / "ant" / "000.png")
    with pytest.raises(WhorlError, match="has 10 images but no class folders"):
        load("folder", plain / "ant")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WhorlError, match="has no class folders"):
        load("folder", tmp_path / "empty")
    shutil.rmtree(parted / "val")
    with pytest.raises(WhorlError, match="neither test/ nor val/"):
        load("folder", parted)


def test_unsuitable_classes(parted: Path, plain: Path) -> None:
    fill(parted / "train" / "eel", 2)
    with pytest.raises(WhorlError, match=r"1 class.* have training samples but no test samples: eel"):
        load("folder", parted)
    fill(parted / "val" / "eel", 1)
    fill(parted / "val" / "fox", 1)
    with pytest.raises(WhorlError, match="test samples but no training samples: fox"):
        load("folder", parted)
    (plain / "dodo").mkdir()
    with pytest.raises(WhorlError, match="dodo has no images"):
        load("folder", plain)
    fill(plain / "dodo", 1)
    with pytest.raises(WhorlError, match="class 'dodo' has 1 sample"):
        load("folder", plain)
    (plain / "dodo" / "000.png").write_text("broken")
    with pytest.raises(WhorlError, match="class 'dodo' has no image that can be read"):
        load("folder", plain)


def test_images_outside_class_folders_are_reported(plain: Path) -> None:
    said: list[str] = []
    Image.new("L", (4, 4)).save(plain / "cover.png")
    assert len(load("folder", plain, notify=said.append).train) == 24
    assert said == [f"skipped: 1 image in {plain} outside the class folders"]


@pytest.mark.skipif(not SHARED.exists(), reason="Tiny ImageNet is not at ../shared/data/tinyimagenet100")
def test_real_images() -> None:
    data = load("folder", SHARED, DataOptions(classes=20))
    assert (len(data.train), len(data.test), data.skipped) == (800, 200, ())
    pixels = data.train.read(np.arange(800)).float()
    grey = (pixels[..., 0] == pixels[..., 2]).flatten(1).all(1)
    assert 0 < grey.sum() < 80


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for name in ("plane", "train"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / name / f"{number}.png")
    data = load("folder", tmp_path, DataOptions(resize=8))
    assert data.class_names == ("plane", "train")
    assert (len(data.train), len(data.test)) == (8, 2)
