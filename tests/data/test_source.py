import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from whorl.data.shape import resized
from whorl.data.source import ArraySource, Concat, FileSource, Samples, Subset, VectorSource, batches, in_memory
from whorl.errors import WhorlError
from whorl.types import ImageSource, IntArray


def array(count: int, size: int = 4, seed: int = 0) -> ArraySource:
    generator = np.random.default_rng(seed)
    return ArraySource(torch.from_numpy(generator.integers(0, 256, (count, size, size, 3), np.uint8)))


def files(folder: Path, count: int, size: int = 4) -> FileSource:
    names = [f"bild-ü{i}.png" for i in range(count)]
    for i, name in enumerate(names):
        Image.new("RGB", (size, size), (i, 2 * i, 3 * i)).save(folder / name)
    return FileSource(folder, names, size)


def first_pixels(images: torch.Tensor) -> list[list[int]]:
    return images[:, 0, 0].tolist()


def ints(*values: int) -> IntArray:
    return np.array(values, np.int64)


def test_array_source() -> None:
    source = array(6)
    assert (len(source), source.size, source.resident) == (6, 4, True)
    assert torch.equal(source.read(ints(5, 0, 5)), source.images[[5, 0, 5]])
    assert source.read(ints()).shape == (0, 4, 4, 3)
    with pytest.raises(ValueError, match="uint8"):
        ArraySource(torch.zeros(2, 4, 4, 3))


def test_file_source_reads_by_name(tmp_path: Path) -> None:
    source = files(tmp_path, 5)
    assert (len(source), source.size, source.resident) == (5, 4, False)
    assert source.path(3) == tmp_path / "bild-ü3.png"
    assert first_pixels(source.read(ints(4, 1))) == [[4, 8, 12], [1, 2, 3]]
    assert source.read(ints()).shape == (0, 4, 4, 3)


def test_a_million_names_are_compact() -> None:
    source = FileSource(Path("root"), [f"train/n01440764/n01440764_{i}.JPEG" for i in range(100_000)], 8)
    assert source.path(99_999) == Path("root/train/n01440764/n01440764_99999.JPEG")
    assert source._names.nbytes + source._ends.nbytes < 100_000 * 50


def test_subset_of_subset_keeps_one_table() -> None:
    source = array(10)
    inner = Subset(Subset(source, ints(9, 7, 5, 3)), ints(3, 0))
    assert inner.source is source
    assert inner.indices.tolist() == [3, 9]
    assert (len(inner), inner.size, inner.resident) == (2, 4, True)
    assert torch.equal(inner.read(ints(1, 0)), source.images[[9, 3]])


def test_where_a_subset_is_within_another_source() -> None:
    source = array(10)
    some, part = Subset(source, ints(9, 2, 5, 3)), Subset(source, ints(3, 9))
    found = part.within(some)
    assert found is not None
    assert found.tolist() == [3, 0]
    assert np.array_equal(part.within(source), [3, 9])  # type: ignore[arg-type]
    for other in (Subset(source, ints(3, 8)), Subset(source, ints()), Subset(array(10), ints(3, 9)), array(10)):
        assert part.within(other) is None
    assert some.within(part) is None


def test_concat_keeps_the_requested_order(tmp_path: Path) -> None:
    one, two = array(3, seed=1), array(4, seed=2)
    both = Concat([one, two, array(0)])
    everything = torch.cat([one.images, two.images])
    assert (len(both), both.size, both.resident) == (7, 4, True)
    assert torch.equal(both.read(ints(6, 0, 3, 2, 6)), everything[[6, 0, 3, 2, 6]])
    assert both.read(ints()).shape == (0, 4, 4, 3)
    assert not Concat([one, files(tmp_path, 2)]).resident
    for bad in (7, -1):
        with pytest.raises(IndexError):
            both.read(ints(bad))
    with pytest.raises(ValueError, match="the same size"):
        Concat([one, array(2, size=5)])


def test_concat_reads_parts_on_different_devices() -> None:
    """A delivery may be on the device while the exemplars are not; batches are then read on the device."""
    here, there = array(3), ArraySource(torch.empty(4, 4, 4, 3, dtype=torch.uint8, device="meta"))
    for parts in ([here, there], [there, here]):
        found = Concat(parts).read(ints(6, 0, 3))
        assert (found.device.type, tuple(found.shape)) == ("meta", (3, 4, 4, 3))


def test_vector_source() -> None:
    vectors = torch.arange(12.0).reshape(4, 3)
    source = in_memory(vectors)
    assert isinstance(source, VectorSource)
    assert (len(source), source.size, source.resident) == (4, 3, True)
    assert source.read(ints(2, 0)).tolist() == [[6, 7, 8], [0, 1, 2]]
    assert Concat([source, Subset(source, ints(3))]).read(ints(4, 1)).tolist() == [[9, 10, 11], [3, 4, 5]]
    assert isinstance(in_memory(array(2).images), ArraySource)
    for bad in (vectors.double(), vectors[0]):
        with pytest.raises(ValueError, match=r"expected float32 \[n, size\]"):
            VectorSource(bad)


def test_samples() -> None:
    one, two = Samples(array(3, seed=1), ints(0, 1, 2)), Samples(array(2, seed=2), ints(5, 6))
    both, nothing = one + two, Samples(array(0), ints())
    assert both.labels.tolist() == [0, 1, 2, 5, 6]
    assert torch.equal(
        both.images.read(np.arange(5)), torch.cat([s.images.read(np.arange(len(s))) for s in (one, two)])
    )
    assert one + nothing is one
    assert nothing + two is two
    assert both[ints(4, 0)].labels.tolist() == [6, 0]
    assert torch.equal(both[ints(4, 0)].images.read(ints(0)), two.images.read(ints(1)))
    assert both.without(ints(1, 3)).labels.tolist() == [0, 2, 6]
    assert both.without(ints()) is both


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_by_workers_equal_direct_reading(tmp_path: Path, workers: int) -> None:
    source: ImageSource = Subset(files(tmp_path, 12), np.arange(12)[::-1])
    wanted = [ints(0, 3), ints(11), ints(5, 4, 6), ints(7, 7), ints(1, 2)]
    got = list(batches(source, wanted, workers))
    assert len(got) == len(wanted)
    assert all(torch.equal(batch, source.read(indices)) for batch, indices in zip(got, wanted, strict=True))


def test_batches_of_resident_and_of_nothing(tmp_path: Path) -> None:
    source = array(5)
    assert torch.equal(next(iter(batches(source, [ints(2, 1)], workers=2))), source.images[[2, 1]])
    assert list(batches(files(tmp_path, 1), [], workers=2)) == []


@pytest.mark.parametrize("workers", [0, 8])
def test_a_file_that_went_bad_is_one_clear_line(tmp_path: Path, workers: int) -> None:
    source = files(tmp_path, 3)
    (tmp_path / "bild-ü1.png").write_bytes(b"gone")
    with pytest.raises(WhorlError, match=r"bild-ü1.png: cannot be read as an image") as caught:
        list(batches(source, [ints(0), ints(1), ints(2)], workers))
    assert "\n" not in str(caught.value)


class Deadly:
    """Stands for images so large that the system kills the process that reads them."""

    size, resident = 4, False

    def __len__(self) -> int:
        return 1

    def read(self, indices: IntArray) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_killed_worker_is_one_clear_line() -> None:
    with pytest.raises(
        WhorlError, match=r"^reading images failed \(.*\); set `workers` to a smaller number, or 0$"
    ) as caught:
        list(batches(Deadly(), [ints(0)], workers=1))
    assert "\n" not in str(caught.value)


def test_resized_agrees_with_pillow() -> None:
    source = array(5, size=16)
    small = resized(source, 8, held=True)
    for image, expected in zip(small.read(np.arange(5)), source.images, strict=True):
        reference = Image.fromarray(expected.numpy()).resize((8, 8), Image.Resampling.BILINEAR)
        assert np.abs(image.numpy().astype(int) - np.asarray(reference).astype(int)).max() <= 1
