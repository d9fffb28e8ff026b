"""Reading a folder of photos once: what is new in it, what the model knows already, and what cannot be learned."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy.spatial import cKDTree

from whorl.data.adapt import THREADS
from whorl.data.check import failures
from whorl.data.decode import Pixels, decode, file_hash
from whorl.data.formats import formats
from whorl.data.parts import few, fits
from whorl.data.source import ArraySource, FileSource
from whorl.errors import WhorlError, count, printable
from whorl.types import FloatArray, ImageSource

TINY = 4
"""A photo whose shorter side is smaller than the model's input by more than this factor is too small to learn."""
GREY = 8
NEAR = 1.5
"""Two photos are near-identical if 8×8 grey versions of them differ by less than this many of 255 levels (root mean
square)."""
_HUGE = "too many pixels"
_TAKEN, _EXIF = 0x9003, 0x8769


@dataclass(frozen=True)
class Photo:
    """A photo that can be learned."""

    path: str
    content: bytes
    """A hash of the file."""
    pixels: bytes
    """A hash of what the model sees of it."""
    bytes: int
    taken: str | None


@dataclass(frozen=True)
class Findings:
    """What is in a folder beside new photos; names are relative to it."""

    known: tuple[str, ...] = ()
    """Photos that the model has learned already, perhaps under another name."""
    repeated: tuple[str, ...] = ()
    """Photos whose content is in the folder twice."""
    near: tuple[str, ...] = ()
    """Photos that look the same as another one of the folder. They are learned."""
    broken: tuple[str, ...] = ()
    tiny: tuple[str, ...] = ()
    huge: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    """Why a broken or huge photo cannot be read."""

    def lines(self) -> list[str]:
        """One line for each kind that there is."""
        kinds = (
            (self.known, "learned already, not learned again"),
            (self.repeated, "in the folder twice, learned once"),
            (self.near, "near-identical to another one, learned as well"),
            (self.tiny, "too small, left out"),
            (self.huge, "too large to be safe, left out"),
        )
        lines = [f"{count(len(names), 'photo')} {what}: {few(names)}" for names, what in kinds if names]
        return lines + [f"skipped: {self.why[name]}" for name in self.broken]

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {kind: len(names) for kind, names in self.names().items()}

    def names(self) -> dict[str, list[str]]:
        """The names of each kind."""
        kinds = ("known", "repeated", "near", "broken", "tiny", "huge")
        return {kind: list(getattr(self, kind)) for kind in kinds}


@dataclass(frozen=True, eq=False)
class Intake:
    """The new photos of a folder, as a source of samples, and what else is there."""

    names: tuple[str, ...]
    """Of the new photos, relative to the folder."""
    photos: tuple[Photo, ...]
    images: ImageSource
    findings: Findings
    moved: Mapping[bytes, str]
    """Where the photos are that the model knows already, by content."""


def take_in(root: Path, names: Sequence[str], side: int, known: Collection[bytes]) -> Intake:
    """Read the files ``names`` in ``root`` at the side of the model's input. ``known`` is content learned before."""
    root, resident = root.absolute(), fits(len(names), side)
    pixels = np.empty((len(names) if resident else 0, side, side, 3), np.uint8)
    grey = np.zeros((len(names), GREY * GREY), np.float32)
    found: dict[int, Photo] = {}
    tiny: set[int] = set()
    changed: set[int] = set()

    def attempt(i: int) -> None:
        path = root / names[i]
        before = _stat(path)
        content = file_hash(path)
        if content in known:
            found[i] = Photo(str(path), content, b"", before.st_size, None)
            return
        seen = decode(path, side, names[i])
        shorter, taken = _about(path)
        after = _stat(path)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            changed.add(i)
        if shorter * TINY < side:
            tiny.add(i)
            return
        if resident:
            pixels[i] = seen
        grey[i] = _grey(seen)
        found[i] = Photo(str(path), content, hashed(seen), before.st_size, taken)

    failed = failures(range(len(names)), attempt, max(THREADS, os.cpu_count() or 1))
    changed.update(i for i in failed if not os.path.lexists(root / names[i]))
    if changed:
        raise WhorlError(f"{printable(str(root))} changes while it is read ({names[min(changed)]}); repeat it later")
    chosen, findings, moved = _sorted_out(names, found, known, failed, tiny)
    near = _near(grey[chosen], [found[i].pixels for i in chosen])
    findings = Findings(**{**vars(findings), "near": tuple(names[chosen[i]] for i in near)})
    kept = [names[i] for i in chosen]
    source = ArraySource(torch.from_numpy(pixels[chosen])) if resident else FileSource(root, kept, side)
    return Intake(tuple(kept), tuple(found[i] for i in chosen), source, findings, moved)


def hashed(seen: Pixels | FloatArray) -> bytes:
    """A hash of what the model learns of a photo."""
    return hashlib.blake2b(np.ascontiguousarray(seen).data, digest_size=16).digest()


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise WhorlError(f"{printable(path.name)}: cannot be read ({error.strerror})") from None


def _about(path: Path) -> tuple[int, str | None]:
    """The shorter side of a photo in pixels, and when it was taken."""
    with Image.open(path, formats=formats()) as image:
        taken = None
        with suppress(Exception):  # a damaged EXIF block does not make the pixels unusable
            taken = str(image.getexif().get_ifd(_EXIF).get(_TAKEN, "")).strip("\0 ")
        return min(image.size), taken or None


def _grey(seen: Pixels) -> npt.NDArray[np.float32]:
    """The photo as 8×8 grey pixels in one row."""
    small = Image.fromarray(seen).convert("L").resize((GREY, GREY), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32).ravel()


def _sorted_out(
    names: Sequence[str],
    found: Mapping[int, Photo],
    known: Collection[bytes],
    failed: Mapping[int, str],
    tiny: Collection[int],
) -> tuple[list[int], Findings, dict[bytes, str]]:
    """The positions of new photos, what else there is, and where known photos are."""
    chosen, again, repeated, seen = list[int](), list[int](), list[int](), set[bytes]()
    for i, photo in sorted(found.items()):
        (again if photo.content in known else repeated if photo.content in seen else chosen).append(i)
        seen.add(photo.content)
    huge = [i for i in sorted(failed) if _HUGE in failed[i]]
    broken = [i for i in sorted(failed) if _HUGE not in failed[i]]

    def called(rows: Collection[int]) -> tuple[str, ...]:
        return tuple(names[i] for i in sorted(rows))

    why = {names[i]: message for i, message in failed.items()}
    findings = Findings(called(again), called(repeated), (), called(broken), called(tiny), called(huge), why)
    return chosen, findings, {found[i].content: found[i].path for i in again}


def _near(grey: npt.NDArray[np.float32], pixels: Sequence[bytes]) -> list[int]:
    """The rows that look like an earlier one."""
    first: dict[bytes, int] = {}
    same = {i for i, code in enumerate(pixels) if first.setdefault(code, i) != i}
    rest = np.array([i for i in range(len(pixels)) if i not in same], dtype=np.int64)
    if len(rest) < 2:
        return sorted(same)
    pairs = cKDTree(grey[rest]).query_pairs(NEAR * GREY, output_type="ndarray")
    return sorted(same | set(rest[pairs.max(axis=1)].tolist())) if len(pairs) else sorted(same)
