"""Image files in class folders: lists them and builds a data set from the lists."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whorl.data.check import gather
from whorl.data.formats import is_image, suffix, unreadable
from whorl.data.inputs import Inputs
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import Part, assemble, digest, same_classes
from whorl.data.source import Dataset, FileSource
from whorl.data.trouble import reason
from whorl.errors import WhorlError, count, printable
from whorl.types import IntArray


@dataclass(frozen=True, eq=False)
class Listing:
    """The image files of one part of a data set, sorted by class; names are relative to ``root``."""

    root: Path
    classes: tuple[str, ...]
    names: list[str]
    labels: IntArray
    sizes: IntArray
    times: IntArray

    def lines(self, times: bool = False) -> Iterator[str]:
        """Name and size of each file, with ``times`` also when it was modified."""
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
    return sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and os.path.isdir(entry))


def part_folder(root: Path, part: str) -> str | None:
    """The name of the folder ``part`` (train, test or val) in ``root``, in any case: ``Train`` is found as well."""
    there = {entry.name for entry in os.scandir(root) if entry.name.lower() == part and os.path.isdir(entry)}
    if len(there) > 1:
        raise WhorlError(f"{root} has {' and '.join(sorted(there))}; merge them, or move one away")
    return min(there, default=None)


def loose_images(folder: Path) -> int:
    """Number of images directly in ``folder``."""
    return sum(is_image(entry.name) and os.path.isfile(entry) for entry in os.scandir(folder))


def scan(root: Path, part: str, notify: Notify, classes: Sequence[str] | None = None) -> Listing:
    """List the images in the class folders of ``root/part``, or only in those of ``classes``."""
    folder = root / part
    chosen = class_folders(folder) if classes is None else list(classes)
    loose = loose_images(folder)
    if not chosen:
        why = f"has {count(loose, 'image')} but no class folders" if loose else "has no class folders"
        raise WhorlError(f"{folder} {why}; put the images of each class in a separate folder")
    if loose:
        notify(f"skipped: {count(loose, 'image')} in {printable(str(folder))} outside the class folders")
    return _listed(root, part, chosen, notify)


def scan_all(root: Path, notify: Notify) -> Listing:
    """List all images below ``root``, in whatever folders they are, as one class without a name."""
    return _listed(root.absolute(), "", [""], notify)


def _listed(root: Path, part: str, chosen: Sequence[str], notify: Notify) -> Listing:
    folder = root / part
    names: list[str] = []
    stats: list[tuple[int, int, int]] = []
    other: Counter[str] = Counter()
    for label, name in enumerate(chosen):
        start = len(os.path.join(folder / name, "")) - len(os.path.join(part, name, ""))  # faster than relative_to
        entries = sorted(_files(folder / name, notify), key=lambda entry: entry.path)
        images = [entry for entry in entries if is_image(entry.name)]
        others = Counter(suffix(entry.name) for entry in entries if not is_image(entry.name))
        other += others
        if not images:
            kind = "class folder" if name else "folder"
            why = f"no images that can be read ({unreadable(others)})" if others else "no images"
            raise WhorlError(f"{kind} {printable(str(folder / name))} has {why}; add some or remove it")
        for entry in images:
            stat = entry.stat(follow_symlinks=not entry.is_symlink() or os.path.exists(entry))
            names.append(entry.path[start:].replace(os.sep, "/"))
            stats.append((label, stat.st_size, stat.st_mtime_ns))
    if other:
        notify(f"skipped in {printable(str(folder))}: {unreadable(other)}")
    labels, sizes, times = np.ascontiguousarray(np.array(stats, np.int64).T)
    return Listing(root, tuple(chosen), names, labels, sizes, times)


def _files(folder: Path, notify: Notify) -> Iterator[os.DirEntry[str]]:
    """All files below ``folder`` except hidden ones, also broken links and pipes, which count as broken images.

    Links to folders are not followed, since they may form a cycle. A folder that cannot be read is reported.
    """
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError as error:
        notify(f"skipped: folder {printable(str(folder))} cannot be read ({error.strerror or reason(error)})")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), notify)
        elif not (entry.is_symlink() and os.path.isdir(entry)):
            yield entry


def read_listings(
    name: str, listings: Sequence[Listing], size: int, resident: bool, options: DataOptions, notify: Notify
) -> Dataset:
    """The data set of two listings (training and test images), or of one, which is split."""
    classes = listings[0].classes
    same_classes(classes, listings[-1].classes)
    parts = [read_listing(listing, size, resident, options, notify) for listing in listings]
    return assemble(name, parts, classes, Inputs.images(size), notify)


def read_listing(listing: Listing, size: int, resident: bool, options: DataOptions, notify: Notify) -> Part:
    """The images of a listing, without those that cannot be read."""
    source, key = FileSource(listing.root, listing.names, size), digest(listing.lines(times=True))
    keep, held, hashes = gather(source, listing.labels, listing.classes, size, resident, key, options, notify)
    if keep.all():
        names, earlier = listing.names, tuple(listing.lines())
    else:
        names, earlier = _chosen(listing.names, keep), tuple(_chosen(list(listing.lines()), keep))
        source = FileSource(listing.root, names, size)
    return Part(
        images=source if held is None else held,
        labels=listing.labels[keep],
        skipped=tuple(_chosen(listing.names, ~keep)),
        content=tuple(f"{name}\0{code.tobytes().hex()}" for name, code in zip(names, hashes, strict=True)),
        names=names,
        hashes=hashes,
        earlier=earlier,
    )


def _chosen(names: Sequence[str], mask: npt.NDArray[np.bool_]) -> list[str]:
    return [name for name, chosen in zip(names, mask, strict=True) if chosen]
