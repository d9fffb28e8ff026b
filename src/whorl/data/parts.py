"""Data sets that users supply: puts one or two parts together, and computes the fingerprint of their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from whorl.data.inputs import Inputs
from whorl.data.memory import available
from whorl.data.options import Notify
from whorl.data.source import Dataset, Subset
from whorl.data.split import split
from whorl.errors import WhorlError, count, printable
from whorl.types import ImageSource, IntArray

HASH = 16
"""Number of bytes in the hash of an image."""
Hashes = npt.NDArray[np.uint8]
"""One hash per image, [n, HASH]."""
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
    names: Sequence[str] = ()
    """The name of each image, if the images can be compared."""
    hashes: Hashes | None = None
    """The hash of each image, if the images can be compared."""
    earlier: tuple[str, ...] = ()
    """The lines that identified the content in earlier versions."""

    def keep(self, rows: IntArray) -> Part:
        """The part with the samples at ``rows`` only; what identifies its content stays."""
        names = [self.names[i] for i in rows] if self.names else ()
        hashes = None if self.hashes is None else self.hashes[rows]
        return replace(self, images=Subset(self.images, rows), labels=self.labels[rows], names=names, hashes=hashes)


def assemble(
    name: str, parts: Sequence[Part], class_names: tuple[str, ...], inputs: Inputs, notify: Notify = lambda line: None
) -> Dataset:
    """The data set of a training and a test part, or of a single part, of which a fifth per class is for testing.

    Images that occur in several classes, or both for training and for testing, are reported.
    """
    train, test = parts[0], parts[-1]
    if len(parts) == 1:
        rows = split(train.labels, class_names)
        train, test = train.keep(rows[0]), train.keep(rows[1])
    for line in _copies(train, test):
        notify(line)
    earlier = [line for part in parts for line in part.earlier]
    return Dataset(
        name=name,
        train=train.images,
        test=test.images,
        train_labels=train.labels,
        test_labels=test.labels,
        class_names=class_names,
        fingerprint=digest(line for part in parts for line in part.content),
        inputs=inputs,
        skipped=tuple(broken for part in parts for broken in part.skipped),
        earlier_fingerprint=digest(earlier) if earlier else "",
    )


def _copies(train: Part, test: Part) -> Iterator[str]:
    """One line about images that are in more than one class, and one about images for both training and testing."""
    if train.hashes is None or test.hashes is None:
        return
    names, labels = [*train.names, *test.names], np.concatenate([train.labels, test.labels])
    tested = np.arange(len(names)) >= len(train.names)
    codes = np.ascontiguousarray(np.concatenate([train.hashes, test.hashes])[:, :8]).view(np.uint64)[:, 0]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=~codes[order[:1]]))  # of each group of equal images
    for values, where in ((labels, "in more than one class"), (tested, "both in the training and in the test set")):
        low, high = np.minimum.reduceat(values[order], starts), np.maximum.reduceat(values[order], starts)
        mixed = np.flatnonzero(low != high)
        if len(mixed):
            same = order[starts[mixed[0]] : np.append(starts, len(order))[mixed[0] + 1]]
            pair = printable(names[same[0]]), printable(names[same[values[same] != values[same[0]]][0]])
            yield f"copies: {count(len(mixed), 'image')} {where}, for instance {pair[0]} and {pair[1]}"


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
    """Whether ``count`` images of side ``size`` are kept in memory: up to 2 GiB or half of what is free."""
    return count * size * size * 3 < min(RESIDENT_BYTES, available() // 2)
