"""Model folders without a learner, and folders of photos made of the digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from whorl.photos.asked import Settings
from whorl.photos.catalog import NEW, Cluster
from whorl.photos.record import Arrival, Delivered, Stored, Weights, record
from whorl.photos.schema import create
from whorl.photos.store import Store


def fake_store(folder: Path) -> Store:
    """A model folder that has learned nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    create(folder)
    return Store(folder)


def deliver(store: Store, sizes: Mapping[int, int], names: Mapping[int, str] | None = None) -> int:
    """Add images to clusters (number of images by cluster id), as learning a delivery does; returns the event."""
    known = store.catalog().clusters
    (first,) = store.rows("SELECT count(*) FROM image")[0]
    arrivals, made = list[Arrival](), dict[int, Cluster]()
    for cluster, size in sizes.items():
        if cluster not in known:
            made[cluster] = Cluster((names or {}).get(cluster)) if cluster in (names or {}) else NEW
        for _ in range(size):
            number = first + len(arrivals) + 1
            content = number.to_bytes(16, "big")
            arrivals.append(Arrival(content, content, f"/photos/{number}.png", None, 100, None, cluster, cluster, 0.5))
    (count,) = store.rows("SELECT count(*) FROM delivery")[0]
    files = [Stored(f"{kind}-{count}", kind, 1) for kind in ("features", "model")]
    about = {"folder": "/photos", "images": len(arrivals)}
    with store.writing():
        return record(store, Delivered("/photos", False, arrivals, made, files[0]), Weights(files[1], 1.0), about)


SETTINGS = Settings(net="tiny", recipe="demo", resize=8, options={"train.augment": "shift"})
"""A model for the digits that learns a delivery in seconds."""


def digits(folder: Path, classes: Sequence[int], start: int, count: int, labelled: bool = False) -> list[Path]:
    """Write ``count`` digits of each class as PNG files, from the ``start``-th of each on; returns the paths.

    Without labels their names say nothing about the class to the learner, and end in it for the tests.
    """
    grey, labels = load_digits(return_X_y=True)
    paths = list[Path]()
    for digit in classes:
        for number in np.flatnonzero(labels == digit)[start : start + count]:
            path = folder / (str(digit) if labelled else "") / f"{number:04}-{digit}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.rint(grey[number].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).convert("RGB").save(path)
            paths.append(path)
    return paths


def digit_of(path: str | Path) -> int:
    """The true class of a photo that :func:`digits` wrote."""
    return int(Path(path).stem[-1])
