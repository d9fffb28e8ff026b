"""Finds broken images before training: decodes each image once, in threads, and caches the result."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

from whorl.data.decode import Pixels
from whorl.data.download import cache
from whorl.data.options import DataOptions, Notify
from whorl.data.source import ArraySource
from whorl.errors import WhorlError
from whorl.types import IntArray

SIZE = 8
"""Decoding at this size is enough to find damage, and fast for JPEG."""

_CHUNK = 64
Broken = dict[int, str]


def gather(
    image: Callable[[int, int], Pixels],
    labels: IntArray,
    class_names: Sequence[str],
    size: int,
    resident: bool,
    key: str,
    options: DataOptions,
    notify: Notify,
) -> tuple[npt.NDArray[np.bool_], ArraySource | None]:
    """A mask of the images that can be read, and their pixels in memory if ``resident`` (else None).

    ``image(i, side)`` decodes one image or raises ``WhorlError``. If the images are not kept in memory, the result is
    cached under ``key``, which identifies the content. Each broken image is reported in one line, or raises an error
    if ``options.strict``.
    """
    pixels = np.empty((len(labels) if resident else 0, size, size, 3), np.uint8)

    def attempt(i: int) -> None:
        if resident:
            pixels[i] = image(i, size)
        else:
            image(i, SIZE)

    def find(rows: Sequence[int]) -> Broken:
        return failures(rows, attempt, max(1, options.workers))

    broken = find(range(len(labels))) if resident else _remembered(key, len(labels), find)
    if broken and options.strict:
        raise WhorlError(f"{broken[min(broken)]}; repair or remove it, or leave `strict` out to skip it")
    for _, message in sorted(broken.items()):
        notify(f"skipped: {message}")
    keep = np.ones(len(labels), bool)
    keep[list(broken)] = False
    counts = np.bincount(labels[keep], minlength=len(class_names))
    if not counts.all():
        raise WhorlError(f"class {class_names[int(counts.argmin())]!r} has no image that can be read")
    return keep, ArraySource(torch.from_numpy(pixels[keep] if broken else pixels)) if resident else None


def failures(rows: Sequence[int], attempt: Callable[[int], None], threads: int) -> Broken:
    """The rows for which ``attempt`` raises ``WhorlError``, with the message; computed in threads."""

    def chunk(start: int) -> Broken:
        found = {}
        for i in rows[start : start + _CHUNK]:
            try:
                attempt(i)
            except WhorlError as error:
                found[i] = str(error)
        return found

    with ThreadPoolExecutor(threads) as pool:
        return {i: message for found in pool.map(chunk, range(0, len(rows), _CHUNK)) for i, message in found.items()}


def _remembered(key: str, count: int, find: Callable[[Sequence[int]], Broken]) -> Broken:
    """The broken images, from the cache if it has an entry for ``key``. A damaged or read-only cache is ignored.

    Images that were broken are decoded again, because permissions or Pillow may have changed.
    """
    path = cache() / "checked" / f"{key}.json"
    try:
        suspects = [range(count)[i] for i in json.loads(path.read_text())["broken"]]
    except (OSError, ValueError, LookupError, TypeError):
        broken = find(range(count))
    else:
        return find(suspects)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with open(handle, "w") as file:
            json.dump({"broken": sorted(broken)}, file)
        os.replace(temporary, path)
    except OSError:
        pass
    return broken
