"""Decodes an image file of any format and mode to a square RGB array."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from whorl.data.formats import formats
from whorl.data.trouble import reason
from whorl.errors import WhorlError, printable

Pixels = npt.NDArray[np.uint8]

# Pillow logs what is wrong with a damaged file, and Python prints it to stderr if there is no handler. The error that
# is raised contains the same information.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def decode(file: str | Path | BinaryIO, size: int, name: str | None = None) -> Pixels:
    """The image as RGB [size, size, 3]: upright, cropped to its centre square, resized (bilinear, antialiased).

    Transparent pixels are blended with white. 16-bit grey values are divided by 257. Errors call the image ``name``.
    """
    try:
        if isinstance(file, str | Path) and not stat.S_ISREG(os.stat(file).st_mode):
            raise OSError("not a regular file")  # opening a pipe would wait for a writer
        with _quiet_pillow, Image.open(file, formats=formats()) as image:
            return np.array(_square(_loaded(image, size), size))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises almost any exception on damaged files
        shown = name or (str(file) if isinstance(file, str | Path) else "image")
        raise WhorlError(f"{printable(shown)}: cannot be read as an image ({_why(error)})") from error


def file_hash(path: str | Path) -> bytes:
    """A hash of 16 bytes of the content of an image file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        raise WhorlError(f"{printable(str(path))}: cannot be read ({_why(error)})") from error


def _loaded(image: Image.Image, size: int) -> Image.Image:
    """The image with its pixels loaded and rotated according to its EXIF orientation."""
    if image.format == "JPEG":
        # libjpeg can decode at a reduced size, which is faster. At least twice the target size is kept, so that the
        # antialiased resize still determines the result.
        scale = 2 * size / min(image.size)
        image.draft(None, (max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    image.load()
    with suppress(Exception):  # a damaged EXIF block does not make the pixels unusable
        # In place, because Pillow then rotates before it rewrites the EXIF block, which fails if parts are damaged.
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _square(image: Image.Image, size: int) -> Image.Image:
    """The centre square as RGB. Cropping comes first, so that a very long image needs little memory."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    if image.size != (side, side):
        transparency = image.info.get("transparency")
        image = image.crop((left, top, left + side, top + side))
        if transparency is not None:
            image.info["transparency"] = transparency
    return _rgb(image).resize((size, size), Image.Resampling.BILINEAR)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "I" or image.mode.startswith("I;16"):
        # Pillow would clip everything above 255.
        deep = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
        return Image.fromarray(((deep + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _why(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or in an unknown format"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels to be safe"
    if isinstance(error, OSError) and error.strerror:  # without the path, which the message already has
        return error.strerror.lower()
    return reason(error)


class _Quiet:
    """Ignores Pillow's warnings while at least one thread decodes.

    ``warnings.catch_warnings`` changes the state of the whole process and has to be exited in reverse order, which
    concurrent threads do not do. So the thread that enters while no other is inside sets the filter, and the one that
    leaves last removes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._saved: warnings.catch_warnings[None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._saved is not None:
                self._saved.__exit__(None, None, None)
                self._saved = None


_quiet_pillow = _Quiet()
