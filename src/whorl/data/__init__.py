"""Data sets by name: each loader gives a ``Dataset``, and ``load`` shapes it as the options ask."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from whorl.data.cifar import fetch_cifar100, load_cifar100
from whorl.data.digits import load_digits
from whorl.data.folder import load_folder
from whorl.data.hub import load_hub
from whorl.data.imagenet import load_imagenet, load_imagenet100
from whorl.data.options import DataOptions, Notify
from whorl.data.shape import shape
from whorl.data.source import ArraySource, Concat, Dataset, FileSource, Subset, batches
from whorl.data.synthetic import load_synthetic
from whorl.errors import WhorlError, unknown

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

_HUB = "hub:"


def names() -> list[str]:
    """The data sets there are, those of other packages among them; ``hub:NAME`` comes on top."""
    return sorted({*LOADERS, *entry_points(group="whorl.data").names})


def load(
    name: str,
    directory: Path | None,
    options: DataOptions = DataOptions(),  # noqa: B008 - frozen
    notify: Notify = lambda line: None,
) -> Dataset:
    """The data set ``name``, with fewer classes, fewer images or another size where the options ask for it."""
    if name.startswith(_HUB) and name != _HUB:
        return shape(load_hub(name.removeprefix(_HUB), directory, options, notify), options)
    return shape(_loader(name)(directory, options, notify), options)


def _loader(name: str) -> Loader:
    if name in LOADERS:
        return LOADERS[name]
    for entry in entry_points(group="whorl.data", name=name):
        try:
            loader: Loader = entry.load()
        except (ImportError, AttributeError) as error:
            raise WhorlError(
                f"data set {name!r} is offered by {entry.value}, which fails to import: {error}"
            ) from error
        return loader
    raise unknown("data set", name, [*names(), f"{_HUB}NAME"])
