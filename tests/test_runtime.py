"""Which samples are moved to the device as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from whorl import runtime
from whorl.data.source import ArraySource, Concat, FileSource, Subset, VectorSource
from whorl.runtime import Runtime
from whorl.types import ImageSource

IMAGES = ArraySource(torch.zeros(6, 4, 4, 3, dtype=torch.uint8))
VECTORS = VectorSource(torch.zeros(6, 5))
AWAY = Runtime(device="meta")
"""A device that every machine has; its tensors have no values."""


@pytest.mark.parametrize("source", [IMAGES, VECTORS, Subset(IMAGES, np.array([4, 1])), Concat([VECTORS, VECTORS])])
def test_small_sources_are_held_on_the_device(source: ImageSource) -> None:
    assert Runtime().hold(source) is source
    held = AWAY.hold(source)
    assert (len(held), held.size, held.resident) == (len(source), source.size, True)
    found = held.read(np.arange(2))
    assert found.device.type == "meta"
    assert (found.shape, found.dtype) == (source.read(np.arange(2)).shape, source.read(np.arange(2)).dtype)


def test_large_and_unread_sources_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileSource(Path("nowhere"), ["a.png"], 4)
    assert AWAY.hold(files) is files
    empty = ArraySource(IMAGES.images[:0])
    assert AWAY.hold(empty) is empty
    monkeypatch.setattr(runtime, "HELD_BYTES", 6 * 48)
    assert AWAY.hold(IMAGES) is not IMAGES
    monkeypatch.setattr(runtime, "HELD_BYTES", 6 * 48 - 1)
    assert AWAY.hold(IMAGES) is IMAGES
