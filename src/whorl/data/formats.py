"""The image formats that are read: those of Pillow, and HEIC if pillow-heif is installed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from PIL import Image

_COMMON = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF")  # tried first, since most files are one of these
_REFUSED = {"BUFR", "EPS", "GRIB", "HDF5", "IPTC", "MPEG", "WMF"}
"""Formats that Pillow passes to other programs, such as Ghostscript, or cannot decode at all."""

_HEIC = 'pip install "whorl[heic]"'
_UPDATE = "pip install --upgrade Pillow"
_ADVICE = {
    **dict.fromkeys((".heic", ".heics", ".heif", ".heifs", ".hif"), _HEIC),
    **dict.fromkeys((".avif", ".avifs", ".jp2", ".j2k", ".webp"), _UPDATE),
}


@cache
def readable() -> Mapping[str, str]:
    """The format of each file name suffix, in lower case, that can be read."""
    Image.init()
    try:
        import pillow_heif
    except ImportError:
        pass
    else:
        pillow_heif.register_heif_opener()
    known = Image.registered_extensions()
    return {".mpo": "JPEG"} | {end: kind for end, kind in known.items() if kind in Image.OPEN and kind not in _REFUSED}


@cache
def formats() -> tuple[str, ...]:
    """The formats for ``Image.open``, common ones first. A file is opened as one of these whatever its suffix."""
    there = set(readable().values())
    return (*(kind for kind in _COMMON if kind in there), *sorted(there.difference(_COMMON)))


def suffix(name: str) -> str:
    """The suffix of a file name in lower case, such as ``.jpg``; empty if there is none."""
    stem, dot, end = name.rpartition(".")
    return f".{end.lower()}" if stem and dot else ""


def is_image(name: str) -> bool:
    """Whether a file name has the suffix of an image. Hidden files do not count as images."""
    return not name.startswith(".") and suffix(name) in readable()


def unreadable(counts: Mapping[str, int]) -> str:
    """Files that are not read, for a message: the number for each suffix, and how to read them if that is possible."""
    lines = []
    for end, count in sorted(counts.items(), key=lambda item: (item[0] not in _ADVICE, -item[1], item[0])):
        kind = f"{end} file" if end else "file without a suffix"
        plural = kind if count == 1 else kind.replace("file", "files", 1)
        lines.append(f"{count} {plural}" + (f": {_ADVICE[end]}" if end in _ADVICE else ""))
    return "; ".join(lines[:4]) + (f"; and {len(lines) - 4} more kinds" if len(lines) > 4 else "")
