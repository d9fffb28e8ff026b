"""Data sets that users supply: puts one or two parts together, and computes the fingerprint of their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whorl.data.inputs import Inputs
from whorl.data.source import Dataset, Subset
from whorl.data.split import split
from whorl.data.trouble import printable
from whorl.errors import WhorlError
from whorl.types import ImageSource, IntArray

RESIDENT_BYTES = 2 * 1024**3
"""Images that take less memory than this when decoded are kept in memory."""


@dataclass(frozen=True, eq=False)
class Part:
    """The readable samples of one part (training, test or all) and their labels."""

    images: ImageSource
    labels: IntArray
    skipped: tuple[str, ...]
    """Names of the images that cannot be read."""
    content: tuple[str, ...]
    """Lines that identify the content; the fingerprint is made of them."""


def assemble(name: str, parts: Sequence[Part], class_names: tuple[str, ...], inputs: Inputs) -> Dataset:
    """The data set of a training and a test part, or of a single part, of which a fifth per class is for testing."""
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
        inputs=inputs,
        skipped=tuple(broken for part in parts for broken in part.skipped),
    )


def digest(lines: Iterable[str]) -> str:
    """A hash of the lines that does not depend on their order."""
    total = hashlib.blake2b(digest_size=16)
    for line in sorted(lines):
        total.update(os.fsencode(line) + b"\n")
    return total.hexdigest()


def same_classes(train: Sequence[str], test: Sequence[str]) -> None:
    """Raise an error unless the training and the test set have the same classes."""
    for one, other, have, lack in ((train, test, "training", "test"), (test, train, "test", "training")):
        alone = sorted(set(one) - set(other))
        if alone:
            raise WhorlError(f"{len(alone)} class(es) have {have} samples but no {lack} samples: {few(alone)}")


def few(names: Sequence[str]) -> str:
    """Up to three of the names, for a message."""
    return ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")


def fits(count: int, size: int) -> bool:
    """Whether ``count`` images of side ``size`` are kept in memory."""
    return count * size * size * 3 < RESIDENT_BYTES
