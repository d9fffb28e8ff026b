"""``whorl data``: download a data set, or check one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from whorl.cli.flags import RunFlags

_SHOWN = 20
"""Class names that are printed at most."""


def fetch(
    name: Annotated[str, typer.Argument(help="A data set, or a folder of images; cifar100 is downloaded if missing.")],
    data_dir: Annotated[Path | None, typer.Option(help="The folder of the data, or of the download.")] = None,
    resize: Annotated[int | None, typer.Option(help="Side of the images in pixels.")] = None,
    subset: Annotated[str, typer.Option(help="imagenet100: S1, S2, or a file that lists classes.")] = "S1",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a broken image instead of skipping it.")] = False,
    workers: Annotated[int, typer.Option(help="Threads that check and decode.")] = 2,
) -> None:
    """Download a data set if possible, read it, and print what it contains."""
    from whorl.data import DataOptions, load, names
    from whorl.data.cifar import fetch_cifar100
    from whorl.data.trouble import plural

    if data_dir is None and name not in names() and os.path.isdir(name):
        name, data_dir = "folder", Path(name)
    if name == "cifar100":
        data_dir = fetch_cifar100(data_dir)
        print(f"{data_dir}")
    options = DataOptions(resize=resize, subset=subset, strict=strict, workers=workers)
    data = load(name, data_dir, options, notify=RunFlags.notify)
    counts = np.bincount(data.train_labels, minlength=len(data.class_names))
    per_class = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    print(f"{name}: {plural(len(data.class_names), 'class', 'classes')}, {per_class} training samples per class")
    size = data.inputs.size
    kind = f"vectors of {size} numbers" if data.inputs.kind == "vectors" else f"images of {size}×{size}"
    print(f"classes: {_classes(data.class_names, counts.tolist())}")
    print(f"{len(data.train)} training and {len(data.test)} test {kind}")
    where = "in memory" if data.train.resident else "decoded on demand"
    print(f"{where}; {plural(len(data.skipped), 'broken image')} skipped")


def _classes(names: Sequence[str], counts: Sequence[int]) -> str:
    """The class names with their numbers of training samples; of many classes, the beginning and the end."""
    from whorl.data.trouble import printable

    shown = [f"{printable(name)} {count}" for name, count in zip(names, counts, strict=True)]
    if len(shown) > _SHOWN:
        shown[_SHOWN - 2 : -1] = [f"… ({len(shown) - _SHOWN + 1} more)"]
    return ", ".join(shown)
