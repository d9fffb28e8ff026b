"""Requests that do not fit in memory are refused in one line, before anything is allocated."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from conftest import Call
from whorl.data import ArraySource, DataOptions, Dataset, batches, load, memory, parts
from whorl.data.adapt import adapt
from whorl.data.inputs import Inputs
from whorl.data.shape import Resized, resized, shape
from whorl.errors import WhorlError

GB = 10**9


@pytest.fixture
def nine_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, parts):
        monkeypatch.setattr(module, "available", lambda: 9 * GB)


def small(count: int, size: int = 16) -> ArraySource:
    draws = torch.Generator().manual_seed(0)
    return ArraySource(torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=draws))


@pytest.mark.usefixtures("nine_gigabytes")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--data", "digits", "--resize", "100000"], "--resize must be at most 16384, not 100000"),
        (["--data", "digits", "--resize", "16000"], "a batch of 32 images of 16000×16000 would need 98.3 GB"),
        (["--data", "synthetic", "--resize", "16000"], "lower --resize"),
        (["--data", "synthetic", "--per-class", "1000000000"], "lower --per-class or --classes"),
        (
            ["--data", "synthetic", "--classes", "100000", "--per-class", "1000"],
            "but 9.0 GB are free; lower --per-class or --classes",
        ),
        (["--data", "synthetic", "--per-class", str(10**30)], "--per-class must be at most"),
        (["--data", "cifar100", "--resize", "16000"], "lower --resize"),
        (["--data", "folder", "--step", "1", "--data-dir", ".", "--resize", "16000"], "lower --resize"),
    ],
)
def test_too_much(call: Call, words: list[str], line: str) -> None:
    _, err = call("run", *words, code=2)
    assert line in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("nine_gigabytes")
def test_upscaled_images_that_do_not_fit_are_resized_on_demand() -> None:
    """60,000 images of 224×224 are 9 GB; here their number is claimed and only the batches are computed."""

    class Many(ArraySource):
        def __len__(self) -> int:
            return 30_000

        def read(self, indices: Any) -> torch.Tensor:
            return super().read(indices % 7)

    pixels, labels = Many(small(7).images), np.arange(30_000) % 100
    names = tuple(map(str, range(100)))
    data = Dataset("many", pixels, pixels, labels, labels, names, "", Inputs.images(16))
    large = shape(data, DataOptions(resize=224))
    assert isinstance(large.train, Resized)
    assert (large.train.resident, large.train.size, len(large.train), large.inputs.size) == (False, 224, 30_000, 224)
    held = resized(small(7), 224, held=True)
    assert held.resident
    rows = np.array([29_999, 3, 3, 12_345])
    assert torch.equal(large.train.read(rows), held.read(rows % 7))
    for workers in (0, 2):
        (batch,) = batches(large.train, [rows], workers)
        assert torch.equal(batch, held.read(rows % 7))
    assert shape(data, DataOptions(resize=20)).train.resident


@pytest.mark.parametrize("size", [3, 16, 17, 50])
def test_on_demand_gives_the_same_bits(size: int) -> None:
    source = small(300)
    held = resized(source, size, held=True).read(np.arange(300))
    rows = np.random.default_rng(0).permutation(300)
    assert torch.equal(resized(source, size, held=False).read(rows), held[torch.from_numpy(rows)])


def test_little_memory_means_reading_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for label in range(2):
        (tmp_path / "data" / str(label)).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (9, 9), (label, i, 0)).save(tmp_path / "data" / str(label) / f"{i}.png")
    assert load("folder", tmp_path / "data").train.resident
    monkeypatch.setattr(parts, "available", lambda: 40_000)
    assert not load("folder", tmp_path / "data").train.resident


@pytest.mark.usefixtures("nine_gigabytes")
def test_the_estimator_refuses_as_well() -> None:
    with pytest.raises(WhorlError, match=r"a batch of 32 images of 100000×100000 would need .* lower `data.resize`"):
        adapt(np.zeros((2, 8, 8, 3), np.uint8), size=100_000)


def npz(path: Path, change: dict[str, bytes]) -> Path:
    """A file of vectors in which the bytes of some arrays are replaced."""
    arrays = {"train": np.eye(4, dtype=np.float32), "train_labels": np.array([0, 0, 1, 1])}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            plain = io.BytesIO()
            np.save(plain, values)
            archive.writestr(f"{name}.npy", change.get(name, plain.getvalue()))
    return path


def header(shape: str, dtype: str = "<f4", version: int = 1) -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10 + 2 * (version > 1)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("shape", ["(1000000000000, 8)", f"({10**30}, 8)", "(4, 3)", "(4, -4)", "(0, 4)", "(4, 4.5)"])
def test_vectors_with_a_false_shape(tmp_path: Path, shape: str, version: int) -> None:
    path = npz(tmp_path / "v.npz", {"train": header(shape, version=version) + bytes(64)})
    with pytest.raises(WhorlError, match=r"v\.npz: 'train' cannot be read \(.*\); write the file again") as caught:
        load("vectors", path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no array", header("(4, 4)", "|O"), header("(4,", "<f4")])
def test_vectors_without_an_array(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(WhorlError, match=r"v\.npz: 'train' (cannot be read|is an array of Python objects)"):
        load("vectors", npz(tmp_path / "v.npz", {"train": content}))


def test_vectors_that_unpack_to_more_than_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(tmp_path / "bomb.npz", {"train": header("(4, 1000000)") + bytes(16_000_000)})
    assert path.stat().st_size < 50_000
    monkeypatch.setattr(memory, "available", lambda: 20_000_000)
    with pytest.raises(WhorlError, match=r"reading .*bomb\.npz would need 48\.0 MB of memory, but 20\.0 MB are free"):
        load("vectors", path)


def test_a_memory_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(load.__globals__["LOADERS"], "digits", fail)
    with pytest.raises(WhorlError, match="digits does not fit in memory"):
        load("digits", None)


def test_available_memory_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest of what the machine has and what control groups of both versions leave; cached files are free."""
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    assert 0 < memory.available() <= memory._UNKNOWN
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    assert memory.available() == 8_192_000

    def group(folder: Path, limit: str, names: tuple[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text("3000000\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 400000\nactive_file 100000\n")

    group(tmp_path / "groups", "max", ("memory.max", "memory.current"))
    assert memory.available() == 8_192_000
    group(tmp_path / "groups", "7000000", ("memory.max", "memory.current"))
    assert memory.available() == 4_500_000
    (tmp_path / "cgroup").write_text("4:memory:/box/1\n0::/\n")
    group(tmp_path / "groups" / "memory" / "box" / "1", "6000000", ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    assert memory.available() == 3_500_000
    group(tmp_path / "groups", "1000000", ("memory.max", "memory.current"))
    assert memory.available() == 0
