"""CIFAR-100 in its official binary version: from a folder, from the archive, or downloaded."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from gzip import BadGzipFile
from pathlib import Path

import numpy as np
import torch

from whorl.data.download import cache, fetch
from whorl.data.inputs import Inputs
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import digest
from whorl.data.shape import shape
from whorl.data.source import ArraySource, Dataset
from whorl.data.traits import Traits, declares
from whorl.data.trouble import file_errors, reason
from whorl.errors import WhorlError
from whorl.types import IntArray

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
MD5 = "03b5dce01913d631647c71ecec9e9cb8"
ARCHIVE = "cifar-100-binary.tar.gz"
FOLDER = "cifar-100-binary"

CONTENT = "fbb7378ecee42b35ea41b165e50a2997"
"""The fingerprint of the official images, fine labels and class names."""

COUNTS = {"train.bin": 50_000, "test.bin": 10_000}
_NAMES = "fine_label_names.txt"
_RECORD = 2 + 3 * 32 * 32  # coarse label, fine label, then the red, green and blue plane
_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree
wolf woman worm"""


@declares(Traits(32, classes=100, usual={"stream": {"step": 10, "order": "A"}}))
def load_cifar100(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """CIFAR-100 from a folder or an archive. Without ``directory``: from the user's cache, downloaded if necessary."""
    place = fetch_cifar100(None) if directory is None else _locate(directory)
    read = _from_folder(place) if place.is_dir() else _from_archive(place)
    train, train_labels = _parse(read["train.bin"], "train.bin", place)
    test, test_labels = _parse(read["test.bin"], "test.bin", place)
    names = tuple(read[_NAMES].decode("utf-8", "replace").split() if _NAMES in read else _CLASSES.split())
    if len(names) != 100:
        raise WhorlError(f"{_NAMES} in {place} has {len(names)} class names, not 100; download it again from {URL}")
    found = _content(read, names)
    if found != CONTENT and not place.is_dir():
        raise WhorlError(f"{place} is not the official archive, or damaged; move it away and fetch it again from {URL}")
    if found != CONTENT:
        notify(f"{place} is not the official CIFAR-100 (images, labels or class names differ); its runs are kept apart")
    return _dataset(train, test, train_labels, test_labels, names, "" if found == CONTENT else found)


def blank_cifar100(options: DataOptions) -> Dataset:
    """CIFAR-100 with blank images, as many per class as the official one has: enough for planning runs."""
    size = options.resize or 32
    blank = torch.zeros(1, size, size, 3, dtype=torch.uint8)
    train, test = (ArraySource(blank.expand(number, -1, -1, -1)) for number in COUNTS.values())
    labels = [np.arange(number) % 100 for number in COUNTS.values()]
    return shape(_dataset(train, test, labels[0], labels[1], tuple(_CLASSES.split()), "", size), options)


def _dataset(
    train: ArraySource,
    test: ArraySource,
    train_labels: IntArray,
    test_labels: IntArray,
    names: tuple[str, ...],
    fingerprint: str,
    size: int = 32,
) -> Dataset:
    return Dataset(
        name="cifar100",
        train=train,
        test=test,
        train_labels=train_labels,
        test_labels=test_labels,
        class_names=names,
        fingerprint=fingerprint,
        inputs=Inputs(
            kind="images",
            size=size,
            mean=(0.5071, 0.4867, 0.4408),
            std=(0.2675, 0.2565, 0.2761),
            view="crop_flip",
            mirrors=True,
        ),
    )


def fetch_cifar100(directory: Path | None) -> Path:
    """The path of CIFAR-100 in ``directory`` or in the user's cache, downloaded if it is missing.

    Files in ``directory`` are not checked here but by ``load``.
    """
    if directory is None:
        return fetch(URL, MD5, cache() / ARCHIVE)
    with file_errors("cifar100"):
        found = directory if directory.is_file() else _in_folder(directory)
    return found or fetch(URL, MD5, directory / ARCHIVE)


def _content(read: dict[str, bytes], names: tuple[str, ...]) -> str:
    """A fingerprint of the labelled images and the class names.

    It depends neither on the order of the records, which differs between copies of the data set, nor on the coarse
    labels, which are not used.
    """
    lines = ["\n".join(names)]
    for name in COUNTS:
        records = memoryview(read[name])
        codes = [_hash(records[start + 1 : start + _RECORD]) for start in range(0, len(records), _RECORD)]
        lines.append(f"{name} {_hash(b''.join(sorted(codes))).hex()}")
    return digest(lines)


def _hash(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _in_folder(directory: Path) -> Path | None:
    """The folder with the two files, or else the archive; None if ``directory`` has neither."""
    for place in (directory, directory / FOLDER):
        if any((place / name).is_file() for name in COUNTS):
            return place
    return directory / ARCHIVE if (directory / ARCHIVE).is_file() else None


def _locate(directory: Path) -> Path:
    if directory.is_file():
        return directory
    if not directory.exists():
        raise WhorlError(f"{directory} does not exist; check `data_dir`, or leave it out to download CIFAR-100")
    place = _in_folder(directory)
    if place is None and any((directory / name).exists() for name in ("cifar-100-python", "meta")):
        raise WhorlError(f"{directory} has the Python version of CIFAR-100; the binary version is needed: {URL}")
    if place is None:
        raise WhorlError(
            f"{directory} has neither train.bin and test.bin nor {ARCHIVE}; download it with whorl data cifar100"
        )
    return place


def _from_folder(folder: Path) -> dict[str, bytes]:
    read = {}
    for name in (*COUNTS, _NAMES):
        path = folder / name
        if path.is_file():
            _check_size(name, path.stat().st_size, folder)
            read[name] = path.read_bytes()
    return _complete(read, folder)


def _from_archive(path: Path) -> dict[str, bytes]:
    """The contents of the files, by file name without folders. They are read into memory; nothing is extracted."""
    read: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                if member.isfile() and name in (*COUNTS, _NAMES):
                    _check_size(name, member.size, path)
                    stream = archive.extractfile(member)
                    read[name] = b"" if stream is None else stream.read()
    except (tarfile.TarError, zlib.error, EOFError, BadGzipFile) as error:
        why = f"{path} is damaged or incomplete ({reason(error)})"
        raise WhorlError(f"{why}; download it again from {URL}") from error
    return _complete(read, path)


def _complete(read: dict[str, bytes], place: Path) -> dict[str, bytes]:
    for name in COUNTS:
        if name not in read:
            raise WhorlError(f"{place} has no {name}; download the binary version of CIFAR-100 again from {URL}")
    return read


def _check_size(name: str, size: int, place: Path) -> None:
    """Check the size before reading, because an archive may claim any size."""
    if name in COUNTS:
        official = COUNTS[name] * _RECORD
        if size != official:
            raise WhorlError(f"{name} in {place} has {size:,} bytes, not {official:,}; download it again from {URL}")
    elif size > 1 << 20:
        raise WhorlError(f"{name} in {place} is too long for a list of class names; download it again from {URL}")


def _parse(data: bytes, name: str, place: Path) -> tuple[ArraySource, IntArray]:
    records = np.frombuffer(data, np.uint8).reshape(COUNTS[name], _RECORD)
    labels = records[:, 1].astype(np.int64)
    if labels.max() > 99:
        raise WhorlError(
            f"{name} in {place} has class {labels.max()}, but CIFAR-100 ends at 99; download it again from {URL}"
        )
    images = records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return ArraySource(torch.from_numpy(np.ascontiguousarray(images))), labels
