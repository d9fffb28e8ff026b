"""Labelled image data sets of Hugging Face's ``datasets`` library, from a folder or by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from whorl.data.check import gather
from whorl.data.decode import Pixels, decode, file_hash
from whorl.data.inputs import Inputs
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import HASH, Part, assemble, digest, fits, same_classes
from whorl.data.source import Dataset, Subset, stack
from whorl.data.traits import Traits, declares
from whorl.data.trouble import reason
from whorl.errors import WhorlError
from whorl.types import IntArray

PREFIX = "hub:"
"""How the names of these data sets begin."""
SIZE = 32
_LABEL_COLUMNS = ("label", "fine_label", "labels")
_TEST_PARTS = ("test", "validation", "valid", "val")


class HubSource:
    """Images of one column of a table, decoded each time they are read."""

    resident = False

    def __init__(self, rows: Any, column: str, part: str, size: int) -> None:
        self.rows: Any = rows
        self.column: str = column
        self.part: str = part
        self.size: int = size

    def __len__(self) -> int:
        return len(self.rows)

    def image(self, index: int, size: int) -> Pixels:
        """The image at ``index``, decoded to side ``size``."""
        cell = self._cell(index)
        return decode(BytesIO(cell["bytes"]) if cell["bytes"] else cell["path"], size, self.name(index))

    def content(self, index: int) -> bytes:
        """A hash of the encoded image at ``index``."""
        cell = self._cell(index)
        return hashlib.blake2b(cell["bytes"], digest_size=HASH).digest() if cell["bytes"] else file_hash(cell["path"])

    def name(self, index: int) -> str:
        """What messages call the image at ``index``."""
        return f"{self.part}[{index}]"

    def _cell(self, index: int) -> Any:
        cell = self.rows[index][self.column]
        if cell is None or not (cell["bytes"] or cell["path"]):
            raise WhorlError(f"{self.name(index)}: has no image")
        return cell

    def read(self, indices: IntArray) -> Tensor:
        """Decode the images at ``indices``."""
        return stack(self.image, indices, self.size)


@declares(Traits(SIZE, files=True))
def load_hub(reference: str, directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """The data set ``reference``: a folder written by ``save_to_disk``, or anything that ``load_dataset`` accepts.

    ``directory`` is the cache folder of ``datasets``, or without a ``reference`` the folder of the data set. Without a
    labelled test part, a fifth per class is for testing.
    """
    if not reference and directory is not None:
        reference, directory = str(directory.absolute()), None
    name = f"{PREFIX}{reference}"
    if not reference:
        raise WhorlError("hub: needs a name, as in hub:uoft-cs/cifar10, or a folder; set `data_dir` to it")
    parts = _open(reference, directory)
    main = "train" if "train" in parts else next(iter(parts))
    image, label = image_column(parts[main], name), label_column(parts[main], name)
    values = {part: label_values(parts[part], label) for part in (main, *_TEST_PARTS) if part in parts}
    if values[main] is None:
        raise WhorlError(f"{name}: column {label!r} of part {main!r} has images without a label")
    used = [main, *[part for part in _TEST_PARTS if values.get(part) is not None and part != main][:1]]
    known, names = label_classes(parts[main].features[label], [values[part] for part in used])
    size = options.resize or SIZE
    resident = fits(sum(len(values[part]) for part in used), size)

    def opened(part: str) -> Part:
        source = HubSource(undecoded(parts[part], image), image, part, size)
        labels = np.searchsorted(known, values[part])
        key = digest([part, image, *_files(parts[part])])
        keep, held, hashes = gather(source, labels, names, size, resident, key, options, notify)
        rows = np.flatnonzero(keep)
        shown = [source.name(int(i)) for i in rows]
        pairs = zip(shown, labels[rows], hashes, strict=True)
        return Part(
            images=Subset(source, rows) if held is None else held,
            labels=labels[rows],
            skipped=tuple(source.name(int(i)) for i in np.flatnonzero(~keep)),
            content=tuple(f"{row}\0{names[label]}\0{code.tobytes().hex()}" for row, label, code in pairs),
            names=shown,
            hashes=hashes,
        )

    return assemble(name, [opened(part) for part in used], names, Inputs.images(size), notify)


def same_name(name: str) -> str:
    """The name of a data set in configs: a folder is called ``hub:`` wherever it is, because its content counts."""
    return PREFIX if name.startswith(PREFIX) and _folder(name.removeprefix(PREFIX)) else name


def _folder(reference: str) -> str | None:
    """The folder that a reference names, or None if it is no path of a folder."""
    path = os.path.expanduser(reference)
    return path if reference and os.path.isdir(path) else None


def _files(rows: Any) -> Iterator[str]:
    """Lines that change with the files of a table."""
    yield f"{rows._fingerprint} {len(rows)}"
    for file in rows.cache_files:
        stat = os.stat(file["filename"])
        yield f"{os.path.abspath(file['filename'])} {stat.st_size} {stat.st_mtime_ns}"


def _open(reference: str, directory: Path | None) -> dict[str, Any]:
    """The parts of the data set by name."""
    try:
        import datasets
    except ImportError:
        raise WhorlError('hub: data sets need the datasets package: pip install "whorl[hub]"') from None
    folder, place = _folder(reference), None if directory is None else str(directory)
    try:
        if folder and any(os.path.isfile(os.path.join(folder, name)) for name in ("dataset_dict.json", "state.json")):
            found = datasets.load_from_disk(folder)
        else:
            found = datasets.load_dataset(folder or reference, cache_dir=place, trust_remote_code=False)
    except Exception as error:  # the network, the hub and damaged folders raise many kinds
        raise WhorlError(
            f"{PREFIX}{reference} cannot be loaded ({reason(error)}); check the name and the network"
        ) from error
    return dict(found) if isinstance(found, dict) else {"train": found}


def image_column(rows: Any, name: str) -> str:
    """The first column of images; ``name`` is what errors call the table."""
    import datasets

    kinds = rows.features
    images = [column for column, kind in kinds.items() if isinstance(kind, datasets.Image)]
    if not images:
        raise WhorlError(f"{name} has no image column; its columns are {', '.join(kinds)}")
    return str(images[0])


def label_column(rows: Any, name: str) -> str:
    """The column of class labels: one with a usual name, else the first that is declared as one."""
    import datasets

    kinds = rows.features
    usual = [column for column in _LABEL_COLUMNS if column in kinds]
    labels = usual or [column for column, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)]
    if not labels:
        raise WhorlError(
            f"{name} has no column named {' or '.join(_LABEL_COLUMNS)}; its columns are {', '.join(kinds)}"
        )
    return str(labels[0])


def label_values(rows: Any, label: str) -> Any:
    """The label column as an array, or None if some image has no label (which the hub marks by -1)."""
    if label not in rows.column_names:
        return None
    values = np.asarray(list(rows[label]))
    usable = values.dtype.kind in "iuU" and len(values) > 0
    return None if not usable or (values.dtype.kind == "i" and values.min() < 0) else values


def label_classes(kind: Any, columns: list[Any]) -> tuple[Any, tuple[str, ...]]:
    """The label values that occur, in natural order, and their class names."""
    declared = getattr(kind, "names", None)
    present = [np.unique(column) for column in columns]
    named = [tuple(declared[v] if declared else str(v) for v in known) for known in present]
    same_classes(named[0], named[-1])
    return present[0], named[0]


def undecoded(rows: Any, column: str) -> Any:
    """The image column alone, as encoded bytes."""
    import datasets

    return rows.select_columns([column]).cast_column(column, datasets.Image(decode=False))
