"""``whorl data``: download a data set, or check one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whorl.cli import complete
from whorl.cli.flags import RunFlags
from whorl.cli.lines import say
from whorl.errors import count

_SHOWN = 20
"""Class names that are printed at most."""


def fetch(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=complete.values("data.name"),
            help="A data set, or a folder of images; cifar100 is downloaded if it is missing.",
        ),
    ],
    data_dir: Annotated[Path | None, typer.Option(help="The folder of the data, or of the download.")] = None,
    resize: Annotated[int | None, typer.Option(min=8, max=16_384, help="Side of the images in pixels.")] = None,
    subset: Annotated[str, typer.Option(help="imagenet100: S1, S2, or a file that lists classes.")] = "S1",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a broken image instead of skipping it.")] = False,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Threads that check and decode.")] = 2,
) -> None:
    """Download a data set if possible, read it, and print what it contains."""
    from whorl.known import KNOWN, require

    if data_dir is None and name not in KNOWN["data.name"].all() and os.path.isdir(name):
        name, data_dir = "folder", Path(name)
    require("data.name", name)
    import numpy as np

    from whorl.data import DataOptions, load
    from whorl.data.cifar import fetch_cifar100

    if name == "cifar100":
        data_dir = fetch_cifar100(data_dir)
        say(f"{data_dir}")
    options = DataOptions(resize=resize, subset=subset, strict=strict, workers=workers)
    data = load(name, data_dir, options, notify=RunFlags.notify)
    counts = np.bincount(data.train_labels, minlength=len(data.class_names))
    low, high = int(counts.min()), int(counts.max())
    per_class = f"{low} to " * (low < high) + count(high, "training sample")
    say(f"{name}: {count(len(data.class_names), 'class', 'classes')}, {per_class} per class")
    say(f"classes: {_classes(data.class_names, counts.tolist())}")
    size = data.inputs.size
    kind = f"vectors of {size} numbers" if data.inputs.kind == "vectors" else f"images of {size}×{size}"
    say(f"{len(data.train)} training and {len(data.test)} test {kind}")
    where = "in memory" if data.train.resident else "decoded on demand"
    say(f"{where}; {count(len(data.skipped), 'broken image')} skipped")


def _classes(names: Sequence[str], counts: Sequence[int]) -> str:
    """The class names with their numbers of training samples; of many classes, the beginning and the end."""
    shown = [f"{name} {number}" for name, number in zip(names, counts, strict=True)]
    if len(shown) > _SHOWN:
        shown[_SHOWN - 2 : -1] = [f"… ({len(shown) - _SHOWN + 1} more)"]
    return ", ".join(shown)
