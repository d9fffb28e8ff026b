"""Finds broken images before training: decodes and hashes each image once, in threads, and caches the result."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from whorl.data.decode import Pixels
from whorl.data.download import cache
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import HASH, Hashes, digest
from whorl.data.source import ArraySource
from whorl.errors import WhorlError
from whorl.types import IntArray

SIZE = 8
"""Decoding at this size is enough to find damage, and fast for JPEG."""

_CHUNK = 64
Broken = dict[int, str]


class Encoded(Protocol):
    """Images that are decoded one by one. Both methods raise ``WhorlError`` if the image cannot be read."""

    def image(self, index: int, size: int) -> Pixels:
        """The image at ``index``, decoded to side ``size``."""
        ...

    def content(self, index: int) -> bytes:
        """A hash of the encoded image at ``index``."""
        ...


def gather(
    source: Encoded,
    labels: IntArray,
    class_names: Sequence[str],
    size: int,
    resident: bool,
    key: str,
    options: DataOptions,
    notify: Notify,
) -> tuple[npt.NDArray[np.bool_], ArraySource | None, Hashes]:
    """A mask of the images that can be read, their pixels in memory if ``resident`` (else None), and their hashes.

    If the images are not kept in memory, the result is cached under ``key``, which must change with the files. Each
    broken image is reported in one line, or raises an error if ``options.strict``.
    """
    pixels = np.empty((len(labels) if resident else 0, size, size, 3), np.uint8)
    hashes = np.zeros((len(labels), HASH), np.uint8)

    def attempt(i: int) -> None:
        if resident:
            pixels[i] = source.image(i, size)
        else:
            source.image(i, SIZE)
        hashes[i] = np.frombuffer(source.content(i), np.uint8)

    def find(rows: Sequence[int]) -> Broken:
        return failures(rows, attempt, max(1, options.workers))

    broken = find(range(len(labels))) if resident else _remembered(key, hashes, find)
    if broken and options.strict:
        raise WhorlError(f"{broken[min(broken)]}; repair or remove it, or leave `strict` out to skip it")
    for _, message in sorted(broken.items()):
        notify(f"skipped: {message}")
    keep = np.ones(len(labels), bool)
    keep[list(broken)] = False
    counts = np.bincount(labels[keep], minlength=len(class_names))
    if not counts.all():
        raise WhorlError(f"class {class_names[int(counts.argmin())]!r} has no image that can be read")
    held = ArraySource(torch.from_numpy(pixels[keep] if broken else pixels)) if resident else None
    return keep, held, hashes[keep] if broken else hashes


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


def _remembered(key: str, hashes: Hashes, find: Callable[[Sequence[int]], Broken]) -> Broken:
    """The broken images, from the cache if it has an entry for ``key``; fills in ``hashes``.

    Images that were broken are decoded again, because permissions or Pillow may have changed. A damaged or read-only
    cache is ignored.
    """
    path = cache() / "checked" / f"{key}.json"
    try:
        stored = json.loads(path.read_text())
        suspects, content = [range(len(hashes))[i] for i in stored["broken"]], stored["content"]
        if stored["check"] != _checksum(key, suspects, content):
            raise ValueError("damaged")
        hashes[:] = np.frombuffer(bytes.fromhex(content), np.uint8).reshape(hashes.shape)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        broken = find(range(len(hashes)))
    else:
        return find(suspects)
    rows, content = sorted(broken), hashes.tobytes().hex()
    _store(path, json.dumps({"broken": rows, "content": content, "check": _checksum(key, rows, content)}))
    return broken


def _checksum(key: str, broken: Sequence[int], content: str) -> str:
    return digest([f"key {key}", f"broken {list(broken)}", f"content {content}"])


def _store(path: Path, text: str) -> None:
    """Write a file of the cache in one step, if the cache is writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with open(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        pass
