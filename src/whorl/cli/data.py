"""``whorl data``: fetch a data set ahead of time, or look at one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer


def fetch(
    name: Annotated[str, typer.Argument(help="A data set's name; cifar100 is downloaded where it is missing.")],
    data_dir: Annotated[Path | None, typer.Option(help="Where the data lie, or where to put the download.")] = None,
    resize: Annotated[int | None, typer.Option(help="Side of the images in pixels.")] = None,
    subset: Annotated[str, typer.Option(help="imagenet100: S1, S2, or a file that lists classes.")] = "S1",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a broken image instead of skipping it.")] = False,
    workers: Annotated[int, typer.Option(help="Threads that check and decode.")] = 2,
) -> None:
    """Fetch a data set where that can be done, read it, and say what is in it."""
    from whorl.data import DataOptions, load
    from whorl.data.cifar import fetch_cifar100

    if name == "cifar100":
        data_dir = fetch_cifar100(data_dir)
        print(f"{data_dir}")
    options = DataOptions(resize=resize, subset=subset, strict=strict, workers=workers)
    data = load(name, data_dir, options, notify=lambda line: print(line, file=sys.stderr))
    counts = np.bincount(data.train_labels, minlength=len(data.class_names))
    a_class = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    print(f"{name}: {len(data.class_names)} classes, {a_class} training images a class")
    print(f"{len(data.train)} training and {len(data.test)} test images of {data.input_size}×{data.input_size}")
    where = "in memory" if data.train.resident else "decoded on demand"
    print(f"{where}; {len(data.skipped)} broken images skipped")
