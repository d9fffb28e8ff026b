"""Vectors from an npz file: embeddings of images, sounds or text that another program has computed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from whorl.data.inputs import Inputs
from whorl.data.memory import require
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import Part, assemble, same_classes
from whorl.data.source import Dataset, VectorSource
from whorl.data.traits import Traits, declares
from whorl.data.trouble import reason
from whorl.errors import WhorlError
from whorl.types import FloatArray, ImageSource, IntArray

_CHUNK = 4096
_ARRAYS = ("train", "train_labels", "test", "test_labels")


@declares(Traits(0, vectors=True))
def load_vectors(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """The vectors in the npz file ``directory``: arrays ``train``, ``train_labels``, ``test`` and ``test_labels``.

    ``train`` and ``test`` are [samples, dimensions]; labels are integers or strings. The class names are the sorted
    label values as text. Without ``test`` and ``test_labels``, a fifth of each class is for testing. Inputs are divided
    by the root mean square of all training values, so that the scale of the vectors does not matter.
    """
    path = _existing(directory)
    arrays = _read(path)
    vectors = {part: _vectors(arrays, part, path) for part in ("train", "test") if part in arrays}
    if len({array.shape[1] for array in vectors.values()}) > 1:
        shapes = " and ".join(f"{part!r} has {array.shape[1]}" for part, array in vectors.items())
        raise WhorlError(f"{path}: all vectors must have the same number of dimensions, but {shapes}")
    labels = {part: _labels(arrays, part, len(array), path) for part, array in vectors.items()}
    names = {part: tuple(str(value) for value in np.unique(values)) for part, values in labels.items()}
    same_classes(names["train"], names.get("test", names["train"]))
    ids = {name: number for number, name in enumerate(names["train"])}
    parts = [_part(part, vectors[part], labels[part], ids) for part in vectors]
    size = parts[0].images.size
    data = assemble("vectors", parts, names["train"], Inputs.vectors(size))
    return replace(data, inputs=Inputs.vectors(size, root_mean_square(data.train)))


def _existing(path: Path | None) -> Path:
    if path is None:
        raise WhorlError(f"vectors needs an npz file with the arrays {', '.join(_ARRAYS)}; set `data_dir` to its path")
    if not path.is_file():
        raise WhorlError(
            f"{path} {'is not a file' if path.exists() else 'does not exist'}; set `data_dir` to an npz file"
        )
    return path


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays that are used, by name: all four, or the two for training."""
    with path.open("rb") as file:  # opened here, because numpy.load leaves a damaged file open
        if file.read(6) == np.lib.format.MAGIC_PREFIX:  # not loaded, because its header may claim any size
            raise WhorlError(f"{path} has a single array; write an npz file with numpy.savez")
        file.seek(0)
        try:
            archive = np.lib.npyio.NpzFile(file, allow_pickle=False)
        except Exception as error:  # zipfile raises many kinds on damaged files
            raise WhorlError(f"{path} is not an npz file; write it with numpy.savez") from error
        wanted = _ARRAYS if {"test", "test_labels"} & set(archive) else _ARRAYS[:2]
        if missing := [name for name in wanted if name not in archive]:
            found = ", ".join(archive) or "none"
            raise WhorlError(f"{path} has no array {', '.join(map(repr, missing))}; it has {found}")
        needed = sum(_bytes(archive, name, path) for name in wanted)
        require(3 * needed, f"reading {path}", "store fewer vectors or dimensions")
        return {name: _array(archive, name, path) for name in wanted}


def _bytes(archive: Any, name: str, path: Path) -> int:
    """The size of an array in bytes. Raises an error if its header does not match the file, without reading it."""
    try:
        info = archive.zip.getinfo(f"{name}.npy")
        with archive.zip.open(info) as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
            needed, there = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
    except Exception as error:  # numpy and zipfile raise many kinds on damaged files
        raise WhorlError(f"{path}: {name!r} cannot be read ({reason(error)}); write the file again") from error
    if needed != there and not dtype.hasobject:
        why = f"its header announces {needed:,} bytes, but there are {there:,}"
        raise WhorlError(f"{path}: {name!r} cannot be read ({why}); write the file again")
    return needed


def _array(archive: Any, name: str, path: Path) -> npt.NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except MemoryError:
        raise
    except Exception as error:
        if "Object arrays" in str(error):
            raise WhorlError(f"{path}: {name!r} is an array of Python objects; store numbers or strings") from error
        raise WhorlError(f"{path}: {name!r} cannot be read ({reason(error)}); write the file again") from error


def _vectors(arrays: dict[str, npt.NDArray[Any]], name: str, path: Path) -> FloatArray:
    values = arrays[name]
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiu":
        raise WhorlError(
            f"{path}: {name!r} must be numbers in an array [samples, dimensions], not {values.dtype} {values.shape}"
        )
    if not len(values):
        raise WhorlError(f"{path}: {name!r} has no samples")
    with np.errstate(over="ignore"):  # values that overflow float32 are counted below
        vectors = np.ascontiguousarray(values, np.float32)
    if bad := sum(int((~np.isfinite(chunk)).any(axis=1).sum()) for chunk in _chunks(vectors)):
        raise WhorlError(f"{path}: {bad} of {len(vectors)} rows of {name!r} are not finite; remove or replace them")
    return vectors


def _labels(arrays: dict[str, npt.NDArray[Any]], part: str, count: int, path: Path) -> npt.NDArray[Any]:
    name = f"{part}_labels"
    labels = arrays[name]
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise WhorlError(f"{path}: {name!r} must be integers or strings [samples], not {labels.dtype} {labels.shape}")
    if len(labels) != count:
        raise WhorlError(f"{path}: {part!r} has {count} samples, but {name!r} has {len(labels)}")
    return labels


def _part(name: str, vectors: FloatArray, labels: npt.NDArray[Any], ids: dict[str, int]) -> Part:
    values, inverse = np.unique(labels, return_inverse=True)
    numbers = np.array([ids[str(value)] for value in values], np.int64)[inverse]
    # Labels enter the fingerprint as text, so that their data type does not matter.
    content = hashlib.blake2b("\0".join(map(str, labels.tolist())).encode(), digest_size=16)
    for chunk in _chunks(vectors):
        content.update(chunk.astype("<f4").tobytes())
    line = f"{name} {vectors.shape} {content.hexdigest()}"
    return Part(VectorSource(torch.from_numpy(vectors)), numbers, (), (line,))


def _chunks(vectors: FloatArray) -> list[FloatArray]:
    """Views of a few thousand rows each, so that no temporary array is as large as the vectors."""
    return [vectors[start : start + _CHUNK] for start in range(0, len(vectors), _CHUNK)]


def root_mean_square(source: ImageSource) -> float:
    """The root mean square of all values; 1 if all of them are 0."""
    total = 0.0
    for start in range(0, len(source), _CHUNK):
        rows: IntArray = np.arange(start, min(start + _CHUNK, len(source)))
        total += float(source.read(rows).double().square().sum())
    return float(np.sqrt(total / (len(source) * source.size))) or 1.0
