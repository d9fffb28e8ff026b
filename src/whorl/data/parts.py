"""Data that users bring along, as files or from the hub: one or two parts, put together to a data set."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whorl.data.source import Dataset, Subset
from whorl.data.split import split
from whorl.data.trouble import printable
from whorl.errors import WhorlError
from whorl.types import ImageSource, IntArray

RESIDENT_BYTES = 2 * 1024**3
"""Images that take less than this once decoded are kept in memory."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class Part:
    """Images that can be read, their labels, the names of those that cannot, and lines that stand for the content."""

    images: ImageSource
    labels: IntArray
    skipped: tuple[str, ...]
    content: tuple[str, ...]


def assemble(name: str, parts: Sequence[Part], class_names: tuple[str, ...], size: int) -> Dataset:
    """Training and test part as a data set; where there is only one part, a fifth of each class is for the test."""
    train, test = parts[0], parts[-1]
    sources, labels = (train.images, test.images), (train.labels, test.labels)
    if len(parts) == 1:
        rows = split(train.labels, class_names)
        sources = (Subset(train.images, rows[0]), Subset(train.images, rows[1]))
        labels = (train.labels[rows[0]], train.labels[rows[1]])
    return Dataset(
        name=name,
        train=sources[0],
        test=sources[1],
        train_labels=labels[0],
        test_labels=labels[1],
        class_names=class_names,
        fingerprint=digest(line for part in parts for line in part.content),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        augment="crop_flip",
        input_size=size,
        skipped=tuple(broken for part in parts for broken in part.skipped),
    )


def digest(lines: Iterable[str]) -> str:
    """One short hash of many lines, whatever their order."""
    total = hashlib.blake2b(digest_size=16)
    for line in sorted(lines):
        total.update(os.fsencode(line) + b"\n")
    return total.hexdigest()


def same_classes(train: Sequence[str], test: Sequence[str]) -> None:
    """Training and test images must be of the same classes."""
    for one, other, have, lack in ((train, test, "training", "test"), (test, train, "test", "training")):
        alone = sorted(set(one) - set(other))
        if alone:
            raise WhorlError(f"{len(alone)} class(es) have {have} images but no {lack} images: {few(alone)}")


def few(names: Sequence[str]) -> str:
    """The first names of a list that may be long, for a message."""
    return ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")


def fits(count: int, size: int) -> bool:
    """Whether ``count`` images of side ``size`` are kept in memory."""
    return count * size * size * 3 < RESIDENT_BYTES
