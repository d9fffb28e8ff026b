"""Data sets by name: each loader gives a ``Dataset``, and ``load`` shapes it as the options ask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from whorl import registry
from whorl.data.cifar import fetch_cifar100, load_cifar100
from whorl.data.digits import load_digits
from whorl.data.folder import load_folder
from whorl.data.hub import load_hub
from whorl.data.imagenet import load_imagenet, load_imagenet100
from whorl.data.options import DataOptions, Notify
from whorl.data.shape import shape
from whorl.data.source import ArraySource, Concat, Dataset, FileSource, Subset, batches
from whorl.data.synthetic import load_synthetic
from whorl.data.trouble import mendable

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
    "batches",
    "fetch_cifar100",
    "find_loader",
    "load",
    "names",
]

Loader = Callable[[Path | None, DataOptions, Notify], Dataset]
"""What a data set is to the registry, and what an entry point in the group ``whorl.data`` must name."""

LOADERS: dict[str, Loader] = {
    "cifar100": load_cifar100,
    "digits": load_digits,
    "folder": load_folder,
    "imagenet": load_imagenet,
    "imagenet100": load_imagenet100,
    "synthetic": load_synthetic,
}

_GROUP = "whorl.data"
_HUB = "hub:"


def names() -> list[str]:
    """The data sets there are, those of other packages among them; ``hub:NAME`` comes on top."""
    return registry.names(LOADERS, _GROUP)


def find_loader(name: str) -> Loader:
    """The loader of the data set ``name``."""
    if name.startswith(_HUB):
        return partial(load_hub, name.removeprefix(_HUB))
    return registry.find("data set", name, LOADERS, _GROUP)


def load(
    name: str,
    directory: Path | None,
    options: DataOptions = DataOptions(),  # noqa: B008 - frozen
    notify: Notify = lambda line: None,
) -> Dataset:
    """The data set ``name``, with fewer classes, fewer images or another size where the options ask for it."""
    loader = find_loader(name)
    with mendable(name):
        return shape(loader(directory, options, notify), options)
