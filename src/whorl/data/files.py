"""Images in class folders: what lies where, and the images behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whorl.data.check import gather
from whorl.data.decode import Pixels, decode
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import Part, assemble, digest, same_classes
from whorl.data.source import Dataset, FileSource
from whorl.errors import WhorlError
from whorl.types import IntArray

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")


@dataclass(frozen=True, eq=False)
class Listing:
    """The image files of one part of a data set, class after class, by their names below ``root``."""

    root: Path
    classes: tuple[str, ...]
    names: list[str]
    labels: IntArray
    sizes: IntArray
    times: IntArray

    def keep(self, mask: npt.NDArray[np.bool_]) -> Listing:
        """The same without the files where ``mask`` is false."""
        names = [name for name, kept in zip(self.names, mask, strict=True) if kept]
        return Listing(self.root, self.classes, names, self.labels[mask], self.sizes[mask], self.times[mask])

    def lines(self, times: bool = False) -> Iterator[str]:
        """What stands for the content: name and size of each file, and when it changed where asked for."""
        for name, size, time in zip(self.names, self.sizes.tolist(), self.times.tolist(), strict=True):
            yield f"{name}\0{size}\0{time}" if times else f"{name}\0{size}"


def existing(directory: Path | None, name: str) -> Path:
    """The folder a user gave for data set ``name``, or an error that says which way it is wrong."""
    if directory is None:
        raise WhorlError(f"{name} needs to know where the images lie: give --data-dir DIR")
    if not directory.is_dir():
        raise WhorlError(f"{directory} is {'not a folder' if directory.exists() else 'not there'}; check --data-dir")
    return directory


def class_folders(folder: Path) -> list[str]:
    """Names of the folders in ``folder``, sorted: the natural order of classes."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def is_image(name: str) -> bool:
    """By its ending; hidden files are none."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def loose_images(folder: Path) -> int:
    """How many images lie in ``folder`` itself."""
    return sum(is_image(entry.name) and entry.is_file() for entry in os.scandir(folder))


def scan(root: Path, part: str, notify: Notify, classes: Sequence[str] | None = None) -> Listing:
    """The images in the class folders of ``root/part``: all of them, or those of ``classes``."""
    folder = root / part
    chosen = class_folders(folder) if classes is None else list(classes)
    loose = loose_images(folder)
    if not chosen:
        why = f"has {loose} images but no class folders" if loose else "has no class folders"
        raise WhorlError(f"{folder} {why}; put the images of each class in a folder of their own")
    if loose:
        notify(f"left out: {loose} images that lie in {folder} outside of any class folder")
    names: list[str] = []
    stats: list[tuple[int, int, int]] = []
    other = 0
    for label, name in enumerate(chosen):
        start = len(str(folder / name)) - len(str(Path(part, name)))  # cheaper than relative_to, a million times
        entries = sorted(_files(folder / name), key=lambda entry: entry.path)
        images = [entry for entry in entries if is_image(entry.name)]
        other += len(entries) - len(images)
        if not images:
            raise WhorlError(f"class folder {folder / name} holds no images; fill it or remove it")
        for entry in images:
            stat = entry.stat(follow_symlinks=entry.is_file())
            names.append(entry.path[start:].replace(os.sep, "/"))
            stats.append((label, stat.st_size, stat.st_mtime_ns))
    if other:
        notify(f"left out: {other} files in {folder} that are not images by their ending")
    labels, sizes, times = np.ascontiguousarray(np.array(stats, np.int64).T)
    return Listing(root, tuple(chosen), names, labels, sizes, times)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Files below ``folder``, hidden ones aside. Linked folders are not followed: they could lead round in a ring."""
    for entry in os.scandir(folder):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file() or not os.path.exists(entry):  # a link into the void is a broken image, not none
            yield entry


def read_listings(
    name: str, listings: Sequence[Listing], size: int, resident: bool, options: DataOptions, notify: Notify
) -> Dataset:
    """The data set of one listing, which is split, or of two: training and test images."""
    classes = listings[0].classes
    same_classes(classes, listings[-1].classes)
    parts = [_part(listing, size, resident, options, notify) for listing in listings]
    return assemble(name, parts, classes, size)


def _part(listing: Listing, size: int, resident: bool, options: DataOptions, notify: Notify) -> Part:
    def image(i: int, side: int) -> Pixels:
        return decode(listing.root / listing.names[i], side, listing.names[i])

    key = digest(listing.lines(times=True))
    keep, held = gather(image, listing.labels, listing.classes, size, resident, key, options, notify)
    skipped = tuple(name for name, kept in zip(listing.names, keep, strict=True) if not kept)
    kept = listing.keep(keep) if skipped else listing
    images = FileSource(listing.root, kept.names, size) if held is None else held
    return Part(images, kept.labels, skipped, tuple(kept.lines()))
