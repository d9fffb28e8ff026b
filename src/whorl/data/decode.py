"""One image file, of whatever kind, to a square of RGB bytes."""

from __future__ import annotations

import logging
import threading
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from whorl.data.trouble import printable, reason
from whorl.errors import WhorlError

Pixels = npt.NDArray[np.uint8]

# What Pillow would log of a damaged file is in the error; with no handler at all Python prints it to stderr.
logging.getLogger("PIL").addHandler(logging.NullHandler())

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION = 0x0112


def decode(file: str | Path | BinaryIO, size: int, name: str | None = None) -> Pixels:
    """The image as RGB [size, size, 3]: upright, its centre square, antialiased bilinear.

    Transparency lies on white; 16-bit grey keeps its range (divided by 257). ``name`` is what an error calls the image.
    """
    try:
        with _quiet_pillow, Image.open(file) as image:
            return np.array(_square(_loaded(image, size), size))
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers let out nearly every kind of exception on damaged files
        shown = name or (str(file) if isinstance(file, str | Path) else "image")
        raise WhorlError(f"{printable(shown)}: cannot be read as an image ({_why(error)})") from error


def _loaded(image: Image.Image, size: int) -> Image.Image:
    """The pixels in memory, upright."""
    if image.format == "JPEG":
        # Lets libjpeg drop fine detail while decoding. Twice the size wanted is kept, so that what is left for the
        # antialiased resize decides how the result looks.
        scale = 2 * size / min(image.size)
        image.draft(None, (max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    image.load()
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a damaged EXIF block says nothing about the pixels
        turn = None
    return image if turn is None else image.transpose(turn)


def _square(image: Image.Image, size: int) -> Image.Image:
    """Cut before converting and resizing: the same pixels as after, and a very long image costs no memory."""
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
        # Pillow's own conversion clips everything above 255.
        deep = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
        return Image.fromarray(((deep + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _why(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or one of an unknown format"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels to be safe"
    if isinstance(error, OSError) and error.strerror:  # without the path, which the message names already
        return error.strerror.lower()
    return reason(error)


class _Quiet:
    """Keeps Pillow's warnings to itself while any thread decodes.

    ``warnings.catch_warnings`` changes the whole process and must be left in the order it was entered, which threads do
    not do; so the first one in sets the filter and the last one out takes it away.
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
