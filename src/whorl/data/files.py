"""Image files in class folders: lists them and builds a data set from the lists."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whorl.data.check import gather
from whorl.data.decode import Pixels, decode
from whorl.data.inputs import Inputs
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import Part, assemble, digest, same_classes
from whorl.data.source import Dataset, FileSource
from whorl.errors import WhorlError
from whorl.types import IntArray

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")


@dataclass(frozen=True, eq=False)
class Listing:
    """The image files of one part of a data set, sorted by class; names are relative to ``root``."""

    root: Path
    classes: tuple[str, ...]
    names: list[str]
    labels: IntArray
    sizes: IntArray
    times: IntArray

    def keep(self, mask: npt.NDArray[np.bool_]) -> Listing:
        """The listing without the files whose ``mask`` is false."""
        names = [name for name, kept in zip(self.names, mask, strict=True) if kept]
        return Listing(self.root, self.classes, names, self.labels[mask], self.sizes[mask], self.times[mask])

    def lines(self, times: bool = False) -> Iterator[str]:
        """Lines that identify the content: name and size of each file, with ``times`` also when it was modified."""
        for name, size, time in zip(self.names, self.sizes.tolist(), self.times.tolist(), strict=True):
            yield f"{name}\0{size}\0{time}" if times else f"{name}\0{size}"


def existing(directory: Path | None, name: str) -> Path:
    """The folder of data set ``name``; raises an error if it is not given or is not a folder."""
    if directory is None:
        raise WhorlError(f"{name} needs a folder with images; set `data_dir`")
    if not directory.is_dir():
        raise WhorlError(
            f"{directory} {'is not a folder' if directory.exists() else 'does not exist'}; check `data_dir`"
        )
    return directory


def class_folders(folder: Path) -> list[str]:
    """Sorted names of the folders in ``folder``: the natural order of the classes."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def is_image(name: str) -> bool:
    """Whether a file name has the suffix of an image. Hidden files do not count as images."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def loose_images(folder: Path) -> int:
    """Number of images directly in ``folder``."""
    return sum(is_image(entry.name) and entry.is_file() for entry in os.scandir(folder))


def scan(root: Path, part: str, notify: Notify, classes: Sequence[str] | None = None) -> Listing:
    """List the images in the class folders of ``root/part``, or only in those of ``classes``."""
    folder = root / part
    chosen = class_folders(folder) if classes is None else list(classes)
    loose = loose_images(folder)
    if not chosen:
        why = f"has {loose} images but no class folders" if loose else "has no class folders"
        raise WhorlError(f"{folder} {why}; put the images of each class in a separate folder")
    if loose:
        notify(f"skipped: {loose} images in {folder} that are not in a class folder")
    return _listed(root, part, chosen, notify)


def scan_all(root: Path, notify: Notify) -> Listing:
    """List all images below ``root``, in whatever folders they are, as one class without a name."""
    return _listed(root.absolute(), "", [""], notify)


def _listed(root: Path, part: str, chosen: Sequence[str], notify: Notify) -> Listing:
    folder = root / part
    names: list[str] = []
    stats: list[tuple[int, int, int]] = []
    other = 0
    for label, name in enumerate(chosen):
        start = len(os.path.join(folder / name, "")) - len(os.path.join(part, name, ""))  # faster than relative_to
        entries = sorted(_files(folder / name), key=lambda entry: entry.path)
        images = [entry for entry in entries if is_image(entry.name)]
        other += len(entries) - len(images)
        if not images:
            kind = "class folder" if name else "folder"
            raise WhorlError(f"{kind} {folder / name} has no images; add some or remove it")
        for entry in images:
            stat = entry.stat(follow_symlinks=entry.is_file())
            names.append(entry.path[start:].replace(os.sep, "/"))
            stats.append((label, stat.st_size, stat.st_mtime_ns))
    if other:
        notify(f"skipped: {other} files in {folder} without the suffix of an image")
    labels, sizes, times = np.ascontiguousarray(np.array(stats, np.int64).T)
    return Listing(root, tuple(chosen), names, labels, sizes, times)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All files below ``folder`` except hidden ones. Links to folders are not followed, since they may form a cycle."""
    for entry in os.scandir(folder):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file() or not os.path.exists(entry):  # a broken link counts as a broken image
            yield entry


def read_listings(
    name: str, listings: Sequence[Listing], size: int, resident: bool, options: DataOptions, notify: Notify
) -> Dataset:
    """The data set of two listings (training and test images), or of one, which is split."""
    classes = listings[0].classes
    same_classes(classes, listings[-1].classes)
    parts = [read_listing(listing, size, resident, options, notify) for listing in listings]
    return assemble(name, parts, classes, Inputs.images(size))


def read_listing(listing: Listing, size: int, resident: bool, options: DataOptions, notify: Notify) -> Part:
    """The images of a listing, without those that cannot be read."""

    def image(i: int, side: int) -> Pixels:
        return decode(listing.root / listing.names[i], side, listing.names[i])

    key = digest(listing.lines(times=True))
    keep, held = gather(image, listing.labels, listing.classes, size, resident, key, options, notify)
    skipped = tuple(name for name, kept in zip(listing.names, keep, strict=True) if not kept)
    kept = listing.keep(keep) if skipped else listing
    images = FileSource(listing.root, kept.names, size) if held is None else held
    return Part(images, kept.labels, skipped, tuple(kept.lines()))
