"""Samples in the forms that users have them in, as sources: arrays, files, folders, tables of Hugging Face."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from whorl.data.check import SIZE as CHECK_SIZE
from whorl.data.check import failures
from whorl.data.decode import Pixels, decode
from whorl.data.files import read_listing, scan, scan_all
from whorl.data.folder import SIZE
from whorl.data.hub import HubSource, image_column, label_classes, label_column, label_values, undecoded
from whorl.data.inputs import Inputs
from whorl.data.memory import require_side
from whorl.data.options import DataOptions
from whorl.data.parts import fits
from whorl.data.shape import resized
from whorl.data.source import ArraySource, FileSource, VectorSource
from whorl.data.vectors import root_mean_square
from whorl.errors import WhorlError
from whorl.types import ImageSource

FOLDERS = "folders"
"""The value of ``labels`` for "the name of the folder that an image is in"."""
THREADS = 2
LARGEST = int(np.iinfo(np.int64).max)


@runtime_checkable
class HubTable(Protocol):
    """A data set of Hugging Face's ``datasets`` library."""

    @property
    def features(self) -> Any:
        """The columns and their types."""
        ...

    @property
    def column_names(self) -> Any:
        """The names of the columns."""
        ...

    def select_columns(self, column_names: Any) -> Any:
        """The table with some of its columns."""
        ...

    def __len__(self) -> int: ...


Where = str | os.PathLike[str]
SamplesLike = ImageSource | npt.NDArray[Any] | Tensor | Sequence[Where] | Where | HubTable
"""uint8 images [n, height, width, 3], float vectors [n, d], paths of images, a folder, a table, or a source."""
LabelsLike = Sequence[int] | Sequence[str] | npt.NDArray[Any] | Tensor | str
"""One integer or string per sample; ``"folders"`` for a folder; the name of the label column for a table."""


@dataclass(frozen=True, eq=False)
class Adapted:
    """Samples as a source, and the label of each if they have any."""

    images: ImageSource
    labels: npt.NDArray[Any] | None
    """Integers or strings."""
    files: tuple[str, ...] = ()
    """The path of each sample, if they come from files."""

    def inputs(self) -> Inputs:
        """The preparation that suits the samples: ImageNet's mean for images, the root mean square for vectors."""
        if self.images.read(np.arange(1)).ndim == 2:
            return Inputs.vectors(self.images.size, root_mean_square(self.images))
        return Inputs.images(self.images.size)


def adapt(
    given: SamplesLike,
    labels: LabelsLike | None = None,
    size: int | None = None,
    labelled: bool = False,
    strict: bool = False,
) -> Adapted:
    """Samples and labels of any supported form.

    Parameters
    ----------
    given : SamplesLike
        The samples.
    labels : LabelsLike, optional
        The labels.
    size : int, optional
        The side that images are resized to. By default, arrays keep theirs and files are resized to 32.
    labelled : bool
        Whether a folder or a table without ``labels`` is labelled by its subfolders or its label column.
    strict : bool
        Whether a broken image in a folder raises an error instead of being skipped with a warning; labels are not read.
    """
    if size is not None:
        require_side(size)
    if isinstance(given, str | os.PathLike):
        return _folder(Path(given), labels, size, labelled, strict)
    if isinstance(given, HubTable):
        return _table(given, labels, size, labelled)
    if isinstance(labels, str):
        raise WhorlError("`labels` must be one label per sample; a name is for folders and tables")
    files = _paths(given)
    images = _files(files, size or SIZE) if files else _source(given, size)
    if not len(images):
        raise WhorlError("there are no samples")
    return Adapted(images, None if labels is None else label_array(labels, len(images)), tuple(map(str, files)))


def label_array(labels: Any, count: int) -> npt.NDArray[Any]:
    """The labels as an array of integers or strings; raises an error unless there are ``count`` of them."""
    values = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    if values.dtype.kind == "U" and not isinstance(labels, np.ndarray) and not all(isinstance(v, str) for v in labels):
        raise WhorlError("`labels` must be all integers or all strings, not both")
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    if values.dtype.kind not in "iuU" or values.ndim != 1:
        raise WhorlError(f"`labels` must be integers or strings, one per sample, not {values.dtype} {values.shape}")
    if values.dtype.kind == "u" and len(values) and values.max() > LARGEST:
        raise WhorlError(f"`labels` must not exceed {LARGEST}, found {values.max()}")
    if len(values) != count:
        raise WhorlError(f"there are {count} samples but {len(values)} labels")
    return values


def _paths(given: Any) -> list[Path]:
    """The paths, if ``given`` is a list or an array of paths."""
    if isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "UO":
        given = given.tolist()
    if not isinstance(given, Sequence) or not all(isinstance(each, str | os.PathLike) for each in given):
        return []
    return [Path(each) for each in given]


def _source(given: Any, size: int | None) -> ImageSource:
    if isinstance(given, ImageSource):
        return given
    if isinstance(given, Tensor):
        return _array(given.detach().cpu(), size)
    if isinstance(given, Sequence) and not len(given):
        raise WhorlError("there are no samples")
    if isinstance(given, Sequence) and isinstance(given[0], Image.Image):
        raise WhorlError("cannot use images of Pillow as samples; pass arrays of the same shape, or paths")
    try:
        values = np.asarray(given)
    except ValueError:
        raise WhorlError("the samples differ in length; all of them must have the same shape") from None
    if values.dtype.kind not in "iufb":
        raise WhorlError(
            f"cannot use {type(given).__name__} as samples; pass images, vectors, paths, a folder or an ImageSource"
        )
    return _array(torch.from_numpy(np.require(values, requirements=["C", "W"])), size)


def _array(values: Tensor, size: int | None) -> ImageSource:
    if values.ndim == 2 and values.shape[1] and values.dtype != torch.bool:
        vectors = values.float().contiguous()
        if not torch.isfinite(vectors).all():
            raise WhorlError("some vectors are not finite in float32; remove or replace them")
        return VectorSource(vectors)
    form = f"{str(values.dtype).removeprefix('torch.')} {tuple(values.shape)}"
    if values.ndim != 4 or values.shape[3] != 3 or not min(values.shape[1:]):
        hint = "; move the channels to the end" if values.ndim == 4 and values.shape[1] == 3 else ""
        raise WhorlError(
            f"samples must be uint8 images [n, height, width, 3] or vectors of numbers [n, d], not {form}{hint}"
        )
    if values.dtype != torch.uint8:
        raise WhorlError(f"images must be uint8 in 0..255, not {form}")
    height, width = values.shape[1:3]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = ArraySource(values[:, top : top + side, left : left + side].contiguous())
    return square if size in (None, side) else resized(square, size or side, fits(len(square), size or side))


def _files(paths: list[Path], size: int) -> ImageSource:
    """Image files. They are decoded into memory if they fit."""
    names = [str(path.absolute()) for path in paths]
    held = _decoded(lambda i, side: decode(paths[i], side), len(paths), size)
    return FileSource(Path("/"), names, size) if held is None else held


def _decoded(image: Callable[[int, int], Pixels], count: int, size: int) -> ArraySource | None:
    """All images in memory, or None if they do not fit. Raises an error if one of them is broken."""
    resident = fits(count, size)
    pixels = np.empty((count if resident else 0, size, size, 3), np.uint8)

    def attempt(i: int) -> None:
        if resident:
            pixels[i] = image(i, size)
        else:
            image(i, CHECK_SIZE)

    broken = failures(range(count), attempt, THREADS)
    if broken:
        raise WhorlError(f"{broken[min(broken)]}; repair or remove it")
    return ArraySource(torch.from_numpy(pixels)) if resident else None


def _folder(path: Path, labels: Any, size: int | None, labelled: bool, strict: bool) -> Adapted:
    if labels is not None and not (isinstance(labels, str) and labels == FOLDERS):
        raise WhorlError(
            f"a folder is labelled by its subfolders (labels={FOLDERS!r}), or not at all; pass a list of paths instead"
        )
    if not path.is_dir():
        raise WhorlError(f"{path} is not a folder; pass single files as a list of paths")
    named = labels is not None or labelled
    listing = scan(path, "", warn) if named else scan_all(path, warn)
    side = size or SIZE
    if strict:
        return Adapted(_files([path / name for name in listing.names], side), None)
    part = read_listing(listing, side, fits(len(listing.names), side), DataOptions(), warn)
    skipped = set(part.skipped)
    files = tuple(str(path / name) for name in listing.names if name not in skipped)
    return Adapted(part.images, np.array(listing.classes)[part.labels] if named else None, files)


def _table(rows: Any, labels: Any, size: int | None, labelled: bool) -> Adapted:
    name = "the data set"
    column, side = image_column(rows, name), size or SIZE
    source = HubSource(undecoded(rows, column), column, "row ", side)
    held = _decoded(source.image, len(source), side)
    images: ImageSource = source if held is None else held
    if labels is None and labelled:
        labels = label_column(rows, name)
    if not isinstance(labels, str):
        return Adapted(images, None if labels is None else label_array(labels, len(source)))
    values = label_values(rows, labels)
    if values is None:
        raise WhorlError(f"{name} has no column {labels!r} with a label for each image")
    present, names = label_classes(rows.features[labels], [values])
    return Adapted(images, np.array(names)[np.searchsorted(present, values)])


def warn(line: str) -> None:
    """Issue a line for the user as a warning."""
    warnings.warn(line, stacklevel=2)
