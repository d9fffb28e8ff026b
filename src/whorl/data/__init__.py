"""Data sets by name. Each loader returns a ``Dataset``; ``load`` applies the options to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path

from whorl import registry
from whorl.data.cifar import fetch_cifar100, load_cifar100
from whorl.data.digits import load_digits
from whorl.data.folder import load_folder
from whorl.data.hub import PREFIX, load_hub
from whorl.data.imagenet import load_imagenet, load_imagenet100
from whorl.data.memory import require_side
from whorl.data.options import DataOptions, Notify
from whorl.data.shape import shape
from whorl.data.source import ArraySource, Concat, Dataset, FileSource, Subset, VectorSource, batches
from whorl.data.synthetic import load_synthetic
from whorl.data.traits import Traits, declares, traits_of
from whorl.data.trouble import file_errors
from whorl.data.vectors import load_vectors

__all__ = [
    "LOADERS",
    "ArraySource",
    "Concat",
    "DataOptions",
    "Dataset",
    "FileSource",
    "Loader",
    "Notify",
    "Subset",
    "Traits",
    "VectorSource",
    "batches",
    "declares",
    "fetch_cifar100",
    "find_loader",
    "load",
    "names",
    "traits_of",
]

Loader = Callable[[Path | None, DataOptions, Notify], Dataset]
"""The type of a loader, called with ``data_dir``, the options and a callback for messages.

Other packages register loaders as entry points of the group ``whorl.data``, and declare with :func:`declares` what the
network and the constants depend on.
"""

LOADERS: dict[str, Loader] = {
    "cifar100": load_cifar100,
    "digits": load_digits,
    "folder": load_folder,
    "imagenet": load_imagenet,
    "imagenet100": load_imagenet100,
    "synthetic": load_synthetic,
    "vectors": load_vectors,
}

_GROUP = "whorl.data"


def names() -> list[str]:
    """The names of all data sets, including those of other packages; ``hub:NAME`` is not listed."""
    return registry.names(LOADERS, _GROUP)


def find_loader(name: str) -> Loader:
    """The loader of the data set ``name``."""
    if name.startswith(PREFIX):
        return update_wrapper(partial(load_hub, name.removeprefix(PREFIX)), load_hub)
    return registry.find("data set", name, LOADERS, _GROUP)


def load(
    name: str,
    directory: Path | None,
    options: DataOptions = DataOptions(),  # noqa: B008 - frozen
    notify: Notify = lambda line: None,
) -> Dataset:
    """The data set ``name`` with the options applied. Errors of the file system become one-line messages."""
    loader = find_loader(name)
    if options.resize is not None:
        require_side(options.resize)
    with file_errors(name):
        return shape(loader(directory, options, notify), options)
