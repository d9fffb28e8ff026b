"""Sources of samples without labels, samples with labels, and data sets with a training and a test source."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from whorl.data.decode import Pixels, decode, file_hash
from whorl.data.inputs import Inputs
from whorl.data.trouble import reason
from whorl.errors import WhorlError
from whorl.types import ImageSource, IntArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples, their labels in natural class order, and how a network sees them."""

    name: str
    train: ImageSource
    test: ImageSource
    train_labels: IntArray
    test_labels: IntArray
    class_names: tuple[str, ...]
    fingerprint: str
    """Identifies the content of a user's own data; empty where the name and the options determine the content."""
    inputs: Inputs
    skipped: tuple[str, ...] = ()
    """Broken images that were left out."""
    earlier_fingerprint: str = ""
    """The fingerprint that earlier versions computed from names and sizes; their runs are still found by it."""


class ArraySource:
    """Images in memory, as one uint8 tensor [n, size, size, 3]."""

    resident = True

    def __init__(self, images: Tensor) -> None:
        if (
            images.dtype != torch.uint8
            or images.ndim != 4
            or images.shape[1] != images.shape[2]
            or images.shape[3] != 3
        ):
            raise ValueError(f"expected uint8 [n, size, size, 3], got {images.dtype} {tuple(images.shape)}")
        self.images = images

    @property
    def size(self) -> int:
        """Side of the images."""
        return int(self.images.shape[1])

    def __len__(self) -> int:
        return len(self.images)

    def read(self, indices: IntArray) -> Tensor:
        """The images at ``indices``."""
        return _rows(self.images, indices)


class VectorSource:
    """Vectors in memory, as one float32 tensor [n, size]."""

    resident = True

    def __init__(self, vectors: Tensor) -> None:
        if vectors.dtype != torch.float32 or vectors.ndim != 2:
            raise ValueError(f"expected float32 [n, size], got {vectors.dtype} {tuple(vectors.shape)}")
        self.vectors = vectors

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.vectors)

    def read(self, indices: IntArray) -> Tensor:
        """The vectors at ``indices``."""
        return _rows(self.vectors, indices)


class Turned:
    """The images of another source, each mirrored if ``mirror`` and then turned by ``turns`` times 90 degrees."""

    def __init__(self, images: ImageSource, turns: int, mirror: bool) -> None:
        self._images, self._turns, self._mirror = images, turns, mirror

    @property
    def size(self) -> int:
        """Side of the images."""
        return self._images.size

    @property
    def resident(self) -> bool:
        """Whether the images are in memory."""
        return self._images.resident

    def __len__(self) -> int:
        return len(self._images)

    def read(self, indices: IntArray) -> Tensor:
        """The changed images at ``indices``."""
        images = self._images.read(indices)
        return torch.rot90(images.flip(2) if self._mirror else images, self._turns, (1, 2))


def in_memory(samples: Tensor) -> ArraySource | VectorSource:
    """The source for a tensor of images or vectors."""
    return VectorSource(samples) if samples.ndim == 2 else ArraySource(samples)


def _rows(samples: Tensor, indices: IntArray) -> Tensor:
    return samples.index_select(0, torch.as_tensor(indices, dtype=torch.int64, device=samples.device))


class FileSource:
    """Images that are decoded from files each time they are read."""

    resident = False

    def __init__(self, root: Path, names: Sequence[str], size: int) -> None:
        # One block of bytes and an array of ends instead of a list of strings: a million names take a few tens of
        # megabytes, and forked workers share the block, because reading it changes no reference counts.
        encoded = [os.fsencode(name) for name in names]
        self._names = np.frombuffer(b"".join(encoded), np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self.root = root
        self.size = size

    def __len__(self) -> int:
        return len(self._ends) - 1

    def path(self, index: int) -> Path:
        """The path of the image at ``index``."""
        name = self._names[self._ends[index] : self._ends[index + 1]].tobytes()
        return self.root / os.fsdecode(name)

    def image(self, index: int, size: int) -> Pixels:
        """The image at ``index``, decoded to side ``size``."""
        path = self.path(index)
        return decode(path, size, str(path.relative_to(self.root)))

    def content(self, index: int) -> bytes:
        """A hash of the file at ``index``."""
        return file_hash(self.path(index))

    def read(self, indices: IntArray) -> Tensor:
        """Decode the images at ``indices``."""
        return stack(lambda index, size: decode(self.path(index), size), indices, self.size)


def stack(image: Callable[[int, int], Pixels], indices: IntArray, size: int) -> Tensor:
    """The images at ``indices`` in one tensor, where ``image(index, size)`` decodes one."""
    images = np.empty((len(indices), size, size, 3), np.uint8)
    for row, index in enumerate(indices):
        images[row] = image(int(index), size)
    return torch.from_numpy(images)


class Subset:
    """Some samples of another source, in the order of ``indices``. A subset of a subset keeps a single index."""

    def __init__(self, source: ImageSource, indices: IntArray) -> None:
        indices = np.asarray(indices, np.int64)
        if isinstance(source, Subset):
            indices, source = source.indices[indices], source.source
        self.source: ImageSource = source
        self.indices: IntArray = indices

    @property
    def size(self) -> int:
        """Side of the images, or length of the vectors."""
        return self.source.size

    @property
    def resident(self) -> bool:
        """Whether the underlying source is in memory."""
        return self.source.resident

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, indices: IntArray) -> Tensor:
        """The samples at ``indices`` of this subset."""
        return self.source.read(self.indices[indices])

    def within(self, other: ImageSource) -> IntArray | None:
        """Where the samples of this subset are in another source; None unless all of them are part of it."""
        if other is self.source:
            return self.indices
        if not isinstance(other, Subset) or other.source is not self.source or not len(other):
            return None
        order = np.argsort(other.indices, kind="stable")
        places = order[np.searchsorted(other.indices, self.indices, sorter=order).clip(max=len(other) - 1)]
        return places if np.array_equal(other.indices[places], self.indices) else None


class Concat:
    """Several sources of the same sample size, one after another."""

    def __init__(self, sources: Sequence[ImageSource]) -> None:
        if len({source.size for source in sources}) != 1:
            raise ValueError(f"sources must have the same size, got {[source.size for source in sources]}")
        self.sources: tuple[ImageSource, ...] = tuple(sources)
        self._starts = np.cumsum([0, *map(len, self.sources)])

    @property
    def size(self) -> int:
        """Side of the images, or length of the vectors."""
        return self.sources[0].size

    @property
    def resident(self) -> bool:
        """Whether every part is in memory."""
        return all(source.resident for source in self.sources)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, indices: IntArray) -> Tensor:
        """The samples at ``indices``; each part is read once."""
        indices = np.asarray(indices, np.int64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"index out of range for {len(self)} samples")
        owner = np.searchsorted(self._starts, indices, side="right") - 1
        parts = [(np.flatnonzero(owner == i), source) for i, source in enumerate(self.sources)]
        pieces = [
            source.read(indices[rows] - start) for (rows, source), start in zip(parts, self._starts, strict=False)
        ]
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        # The parts may be stored on different devices.
        device = next((piece.device for piece in pieces if piece.device.type != "cpu"), pieces[0].device)
        return _rows(torch.cat([piece.to(device) for piece in pieces]), order)


@dataclass(frozen=True)
class Samples:
    """Samples and the class ids to learn them with: true labels where they were given, else pseudo labels."""

    images: ImageSource
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __add__(self, other: Samples) -> Samples:
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        return Samples(Concat([self.images, other.images]), np.concatenate([self.labels, other.labels]))

    def __getitem__(self, indices: IntArray) -> Samples:
        """The samples at ``indices``, in that order."""
        return Samples(Subset(self.images, indices), self.labels[indices])

    def without(self, indices: IntArray) -> Samples:
        """All samples except those at ``indices``."""
        return self[np.setdiff1d(np.arange(len(self)), indices)] if len(indices) else self


class _Batches(torch.utils.data.Dataset[Tensor | str]):
    """What a worker process holds: the source and the indices of every batch."""

    def __init__(self, source: ImageSource, index_batches: Sequence[IntArray]) -> None:
        self.source, self.index_batches = source, index_batches

    def __len__(self) -> int:
        return len(self.index_batches)

    def __getitem__(self, i: int) -> Tensor | str:
        try:
            return self.source.read(self.index_batches[i])
        except WhorlError as error:  # as a value: torch would wrap a worker's exception in its traceback
            return str(error)


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C while workers are forked: inside Python's own fork hooks it would be lost."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def batches(source: ImageSource, index_batches: Sequence[IntArray], workers: int) -> Iterator[Tensor]:
    """The samples in batches, in the given order.

    Samples in memory are read directly, others by ``workers`` processes that read ahead (0: in this process).
    """
    if source.resident or workers == 0:
        yield from map(source.read, index_batches)
        return
    with warnings.catch_warnings():
        # torch warns when there are more workers than cores, which is the user's choice, and Python warns about forking
        # a process with threads. Forked workers only decode; they start in milliseconds, and they start every epoch.
        warnings.simplefilter("ignore")
        with _interrupts_delayed():
            iterator = iter(
                DataLoader(
                    _Batches(source, index_batches),
                    batch_size=None,
                    num_workers=min(workers, max(len(index_batches), 1)),
                    multiprocessing_context="fork" if sys.platform == "linux" else None,
                )
            )
    try:
        for batch in iterator:
            if isinstance(batch, str):
                raise WhorlError(batch)
            yield batch
    except RuntimeError as error:  # a worker was killed, most likely because memory ran out
        raise WhorlError(f"reading images failed ({reason(error)}); set `workers` to a smaller number, or 0") from error
