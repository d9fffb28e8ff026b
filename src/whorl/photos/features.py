"""The stored features of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from whorl.photos import files
from whorl.photos.store import Store
from whorl.runs.files import read_tensors
from whorl.types import FloatArray


def stored_features(folder: Path, store: Store, places: Sequence[tuple[int, int]]) -> FloatArray:
    """The features [n, dim] of images, given by their deliveries and the rows in them."""
    found: dict[int, FloatArray] = {}
    for delivery in sorted({delivery for delivery, _ in places}):
        ((name,),) = store.rows("SELECT features FROM delivery WHERE number = ?", [delivery])
        tensors, _ = read_tensors(files.checked(folder, name), "put back a copy of the file")
        found[delivery] = tensors["features"].numpy()
    return np.stack([found[delivery][row] for delivery, row in places])
