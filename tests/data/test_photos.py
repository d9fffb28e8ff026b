"""Folders as users have them: odd formats and modes, damaged files, links, pipes, copies."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from conftest import Call
from whorl.data import DataOptions, Dataset, formats, load, parts
from whorl.data.decode import decode
from whorl.errors import WhorlError


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def noise(seed: int, mode: str = "RGB", size: tuple[int, int] = (12, 9)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Two classes of five images, which differ."""
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(5):
            noise(10 * label + i).save(tmp_path / "pets" / name / f"{i}.png")
    return tmp_path / "pets"


def loaded(root: Path, **options: Any) -> tuple[Dataset, list[str]]:
    said: list[str] = []
    return load("folder", root, DataOptions(resize=8, **options), said.append), said


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rotated(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(noise(1), "JPEG", exif=exif)


def animated(kind: str) -> bytes:
    return encoded(noise(1, "P" if kind == "GIF" else "RGB"), kind, save_all=True, append_images=[noise(2), noise(3)])


GOOD: dict[str, Callable[[], bytes]] = {
    "cmyk.jpg": lambda: encoded(noise(1, "CMYK"), "JPEG"),
    "deep.png": lambda: encoded(Image.fromarray(np.arange(108, dtype=np.uint16).reshape(9, 12) * 600), "PNG"),
    "float.tif": lambda: encoded(noise(1, "F"), "TIFF"),
    "palette.png": lambda: encoded(noise(1, "P"), "PNG", transparency=3),
    "alpha.webp": lambda: encoded(noise(1, "RGBA"), "WEBP", lossless=True),
    "moving.gif": lambda: animated("GIF"),
    "moving.webp": lambda: animated("WEBP"),
    "moving.apng": lambda: animated("PNG"),
    "dot.png": lambda: encoded(noise(1, size=(1, 1)), "PNG"),
    "line.png": lambda: encoded(noise(1, size=(1, 10_000)), "PNG"),
    "row.jpg": lambda: encoded(noise(1, size=(10_000, 1)), "JPEG"),
    "turned.jpg": lambda: rotated(6),
    "no such turn.jpg": lambda: rotated(77),
    "UPPER.JPG": lambda: encoded(noise(1), "JPEG"),
    "wrong suffix.png": lambda: encoded(noise(1), "JPEG"),
    "two.dots.jpe": lambda: encoded(noise(1), "JPEG"),
    "old.jp2": lambda: encoded(noise(1), "JPEG2000"),
    "targa.tga": lambda: encoded(noise(1), "TGA"),
    "line\nbreak \x1b[31m\t.png": lambda: encoded(noise(77), "PNG"),
    "bytes \udce9\udcff.png": lambda: encoded(noise(77), "PNG"),
    "[red]markup[red] *?.png": lambda: encoded(noise(77), "PNG"),
}
if features.check("avif"):
    GOOD["new.avif"] = lambda: encoded(noise(1), "AVIF")

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%Page: 1 1\nshowpage\n%%EOF\n"
BAD: dict[str, Callable[[], bytes]] = {
    "empty.jpg": lambda: b"",
    "text.jpg": lambda: b"this is not an image",
    "half.jpg": lambda: encoded(noise(1, size=(90, 90)), "JPEG")[:900],
    "half.png": lambda: encoded(noise(1, size=(90, 90)), "PNG")[:900],
    "header.png": lambda: encoded(noise(1), "PNG")[:30],
    "header.gif": lambda: b"GIF89a",
    "zip.jpg": lambda: b"PK\x03\x04" + bytes(60),
    "script.jpg": lambda: POSTSCRIPT,  # Pillow would start Ghostscript
    "bomb.png": lambda: encoded(Image.new("1", (20_000, 20_000)), "PNG"),
    "zeros.bmp": lambda: bytes(4096),
    "json.ppm": lambda: b'{"P6": 1}',
    "huge.ppm": lambda: b"P6 999999999 999999999 255\n",
    "empty\n.jpg": lambda: b"",
}


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("name", [*GOOD, *BAD], ids=ascii)
def test_one_odd_file_in_a_class(pets: Path, monkeypatch: pytest.MonkeyPatch, name: str, resident: bool) -> None:
    """An image is used; anything else is skipped with one line that can be printed."""
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    (pets / "cat" / name).write_bytes((GOOD | BAD)[name]())
    data, said = loaded(pets)
    assert len(data.train) + len(data.test) == 10 + (name in GOOD)
    assert len(data.skipped) == len(said) == (name in BAD)
    assert data.train.read(np.arange(len(data.train))).shape == (len(data.train), 8, 8, 3)
    for line in said:
        assert line.startswith("skipped: cat/")
        assert line.isprintable()


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow cannot read AVIF")
def test_avif_and_jpeg_2000_keep_their_colours() -> None:
    for kind, options in (("AVIF", {"quality": 100}), ("JPEG2000", {})):
        pixels = decode(BytesIO(encoded(Image.new("RGB", (32, 32), (200, 100, 50)), kind, **options)), 8)
        assert np.abs(pixels.astype(int) - (200, 100, 50)).max() <= 3


@pytest.mark.parametrize("suffix", [".heic", ".HEIF", ".hif"])
def test_heic(pets: Path, suffix: str) -> None:
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed (extra heic)")
    file = heif.from_pillow(Image.new("RGB", (64, 48), (200, 100, 50)))
    file.save(pets / "cat" / "phone.heic", quality=100)
    (pets / "cat" / "phone.heic").rename(pets / "cat" / f"phone{suffix}")
    data, said = loaded(pets)
    assert (len(data.train) + len(data.test), said) == (11, [])
    assert np.abs(decode(pets / "cat" / f"phone{suffix}", 8).astype(int) - (200, 100, 50)).max() <= 4


@pytest.fixture
def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {end: kind for end, kind in formats.readable().items() if kind != "HEIF"}
    monkeypatch.setattr(formats, "readable", lambda: known)


@pytest.mark.usefixtures("without_heif")
def test_files_that_cannot_be_read_say_why(pets: Path) -> None:
    for i in range(12):
        (pets / "cat" / f"{i}.HEIC").write_bytes(b"x")
    for name in ("a.txt", "b.txt", "noted", "clip.mp4"):
        (pets / "dog" / name).write_bytes(b"x")
    data, said = loaded(pets)
    assert len(data.train) + len(data.test) == 10
    kinds = '12 .heic files: pip install "whorl[heic]"; 2 .txt files; 1 file without a suffix; 1 .mp4 file'
    assert said == [f"skipped in {pets}: {kinds}"]
    (pets / "eel").mkdir()
    (pets / "eel" / "1.heic").write_bytes(b"x")
    why = r'eel has no images that can be read \(1 \.heic file: pip install "whorl\[heic\]"\); add some or remove it'
    with pytest.raises(WhorlError, match=why):
        loaded(pets)


def test_suffixes() -> None:
    """All of Pillow's that hold pictures; none that start another program, and no documents."""
    known = set(formats.readable())
    assert known >= {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".jp2", ".mpo", ".psd"}
    assert not known & {".pdf", ".eps", ".ps", ".mpg", ".mpeg", ".wmf", ".emf", ".h5", ".grib", ".txt", ".mp4", ".svg"}
    assert not {"EPS", "WMF", "MPEG"} & set(formats.formats())
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert not [end for end in known if f"`{end}`" not in page]


@pytest.mark.parametrize("resident", [True, False])
def test_links_pipes_and_sockets_are_broken_files(pets: Path, monkeypatch: pytest.MonkeyPatch, resident: bool) -> None:
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    (pets / "cat" / "itself.jpg").symlink_to("itself.jpg")
    (pets / "cat" / "ping.jpg").symlink_to("pong.jpg")
    (pets / "cat" / "pong.jpg").symlink_to("ping.jpg")
    (pets / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    os.mkfifo(pets / "cat" / "pipe.jpg")
    (pets / "cat" / "device.jpg").symlink_to("/dev/zero")
    (pets / "loop").symlink_to("loop")
    (pets / "cat" / "up").symlink_to(pets)
    (pets / "cat" / "folder.jpg").mkdir()
    monkeypatch.chdir(pets / "cat")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jpg")
        data, said = loaded(pets)
    assert len(data.train) + len(data.test) == 10
    assert data.class_names == ("cat", "dog")
    assert [line.partition(": ")[2] for line in said] == [
        "cat/device.jpg: cannot be read as an image (not a regular file)",
        "cat/gone.jpg: cannot be read as an image (no such file or directory)",
        "cat/itself.jpg: cannot be read as an image (too many levels of symbolic links)",
        "cat/ping.jpg: cannot be read as an image (too many levels of symbolic links)",
        "cat/pipe.jpg: cannot be read as an image (not a regular file)",
        "cat/pong.jpg: cannot be read as an image (too many levels of symbolic links)",
        "cat/socket.jpg: cannot be read as an image (not a regular file)",
    ]


def test_a_folder_that_cannot_be_read_is_skipped(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pets / "cat" / "secret").mkdir()
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    data, said = loaded(pets)
    assert len(data.train) + len(data.test) == 10
    assert said == [f"skipped: folder {pets / 'cat' / 'secret'} cannot be read (Permission denied)"]


@pytest.mark.parametrize(("train", "test"), [("Train", "TEST"), ("TRAIN", "Val"), ("train", "test"), ("train", "VAL")])
def test_parts_in_any_case(tmp_path: Path, train: str, test: str) -> None:
    for number, part in enumerate((train, test)):
        for label, name in enumerate(("cat", "dog")):
            (tmp_path / part / name).mkdir(parents=True)
            noise(2 * number + label).save(tmp_path / part / name / "1.png")
    data, said = loaded(tmp_path)
    assert (data.class_names, len(data.train), len(data.test), said) == (("cat", "dog"), 2, 2, [])


def test_copies_are_reported(pets: Path, tmp_path: Path) -> None:
    (pets / "dog" / "9.png").write_bytes((pets / "cat" / "0.png").read_bytes())
    _, said = loaded(pets)
    assert said[0] in (
        "copies: 1 image in more than one class, for instance cat/0.png and dog/9.png",
        "copies: 1 image in more than one class, for instance dog/9.png and cat/0.png",
    )
    parted = tmp_path / "parted"
    for part, seeds in (("train", (1, 2, 3)), ("val", (2, 3, 4))):
        for name, more in (("cat", 0), ("dog", 50)):
            (parted / part / name).mkdir(parents=True)
            for seed in seeds:
                noise(seed + more).save(parted / part / name / f"{part}{seed}.png")
    for _ in range(2):  # the second time from the cache
        said = loaded(parted)[1]
        assert [line.partition(",")[0] for line in said] == [
            "copies: 4 images both in the training and in the test set"
        ]


def test_the_same_image_in_one_class_is_reported_only_across_the_split(pets: Path) -> None:
    """A fifth per class is for testing: copies within a class matter if one of them is in it."""
    assert loaded(pets)[1] == []
    for i in range(5, 10):
        (pets / "cat" / f"{i}.png").write_bytes((pets / "cat" / f"{i - 5}.png").read_bytes())
    said = loaded(pets)[1]
    assert all("both in the training and in the test set" in line for line in said)


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("kind", ["pixels", "labels", "names"])
def test_the_fingerprint_covers_content_of_the_same_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, resident: bool
) -> None:
    if not resident:
        monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for i in range(3):
            noise(10 * label + i).save(tmp_path / name / f"{i}.bmp")
    before = loaded(tmp_path)[0]
    one, other = tmp_path / "cat" / "0.bmp", tmp_path / "dog" / "0.bmp"
    if kind == "pixels":
        noise(99).save(one)
    elif kind == "labels":
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        (tmp_path / "dog").rename(tmp_path / "eel")
    after = loaded(tmp_path)[0]
    assert before.fingerprint != after.fingerprint
    assert (before.earlier_fingerprint == after.earlier_fingerprint) is (kind != "names")


@pytest.mark.parametrize(
    "damage", ["broken", "content", "check", "{", "[" * 100_000, "1", "null"], ids=lambda text: text[:9]
)
def test_a_damaged_cache_does_not_change_the_fingerprint(
    pets: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(parts, "RESIDENT_BYTES", 1)
    before = loaded(pets)[0].fingerprint
    (path,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("*.json")
    text = path.read_text()
    if damage in json.loads(text):
        at = text.index(f'"{damage}": ') + len(damage) + 5
        damage = text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :]
    path.write_text(damage)
    assert loaded(pets)[0].fingerprint == before


def test_whorl_data_names_the_classes(pets: Path, call: Call) -> None:
    for words in (("data", "folder", "--data-dir", str(pets)), ("data", str(pets))):
        out, _ = call(*words)
        assert "folder: 2 classes, 4 training samples per class\nclasses: cat 4, dog 4\n" in out


def test_whorl_data_shortens_a_long_list_of_classes(tmp_path: Path, call: Call) -> None:
    for i in range(30):
        (tmp_path / "many" / f"class\n{i:02}").mkdir(parents=True)
        for j in range(2):
            noise(2 * i + j).save(tmp_path / "many" / f"class\n{i:02}" / f"{j}.png")
    out, _ = call("data", str(tmp_path / "many"), "--resize", "8")
    (line,) = [line for line in out.splitlines() if line.startswith("classes: ")]
    assert line.startswith("classes: class\\n00 1, class\\n01 1, ")
    assert line.endswith("class\\n17 1, … (11 more), class\\n29 1")


def test_two_folders_for_one_part_are_refused(tmp_path: Path) -> None:
    for part in ("Train", "train", "test"):
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / part / name / "0.png")
    if len(list(tmp_path.iterdir())) < 3:
        pytest.skip("this file system does not tell Train from train")
    with pytest.raises(WhorlError, match="has Train and train; merge them, or move one away"):
        load("folder", tmp_path, DataOptions())
