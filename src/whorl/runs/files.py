"""Writes files so that each one exists either completely or not at all, and checks them when they are read.

JSON documents and tensor files carry a checksum. Files of older versions have none and are read without it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.tree import digest

START_OVER = "put back a copy of the file, or start over with `fresh`"
"""What to do about a damaged file of a run."""
OWN_FILE = "put back the file of this run, or start over with `fresh`"
"""What to do about a file of another run."""
TEMPORARY = ".whorl-tmp"
"""The ending of a file that is being written."""
_BLANK = "0" * 64
"""Stands for the checksum while it is computed."""


def append_line(path: Path, line: str) -> int:
    """Append a line to a file; returns the new length of the file in bytes."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
    except OSError as error:
        raise _cannot_write(path, error) from None


def truncate(path: Path, length: int) -> None:
    """Cut a file to ``length`` bytes. A shorter or missing file is left as it is."""
    try:
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)
    except OSError as error:
        raise _cannot_write(path, error) from None


def write_bytes(path: Path, payload: bytes) -> None:
    """Write a temporary file beside ``path``, then put it in place in one step."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        _write(temporary, payload)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):  # removing may fail for the same reason as writing
            temporary.unlink(missing_ok=True)
        raise _cannot_write(path, error) from None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    write_bytes(path, text.encode())


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind(path: Path, follow: bool = False) -> str | None:
    """The kind of thing at ``path``, such as ``a pipe``; None for a regular file and for nothing.

    ``follow`` means the target of a link. Raises OSError if it cannot be determined, as for a link to itself.
    """
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path, follow_symlinks=follow).st_mode))
    except FileNotFoundError:
        return None


def read_bytes(path: Path) -> bytes:
    """The content of a regular file; raises OSError for anything else, such as a folder or a pipe."""
    if other := kind(path, follow=True):
        raise OSError(errno.EINVAL, f"it is {other}, not a file")
    return path.read_bytes()


def make_folder(folder: Path, key: str) -> None:
    """Make a folder. Raises a ``WhorlError`` if nothing can be written there; ``key`` is the option that chose it."""
    try:
        if folder.exists() and not folder.is_dir():
            raise WhorlError(f"{folder} is {kind(folder, follow=True) or 'a file'}; set `{key}` to a folder")
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise WhorlError(f"cannot write to {folder}: {reason(error)}; choose another `{key}`") from None


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with a checksum of its content as the last key."""
    return {**document, "checksum": digest(dict(document))}


def opened(text: str | bytes) -> dict[str, Any]:
    """The JSON document in a text, without its checksum. Raises ValueError or RecursionError if it is damaged."""
    found = json.loads(text, parse_constant=_refuse)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    stated = found.pop("checksum", None)
    if stated is not None and stated != digest(found):
        raise ValueError("its checksum does not match")
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document atomically, with its checksum."""
    write_text(path, json.dumps(sealed(document), indent=1, allow_nan=False) + "\n")


def read_json(path: Path, advice: str = START_OVER) -> dict[str, Any]:
    """The document that :func:`write_json` wrote. An error ends with ``advice``."""
    try:
        return opened(read_bytes(path))
    except OSError as error:
        raise WhorlError(f"cannot read {path}: {reason(error)}; {advice}") from None
    except (ValueError, RecursionError) as error:
        raise WhorlError(f"{path} is damaged ({reason(error)}); {advice}") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] = {}) -> None:
    """Write a safetensors file atomically, with ``about`` and a checksum of the whole file as JSON in its header."""
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    payload = safetensors.torch.save(dense, {"whorl": json.dumps({"sha256": _BLANK, **about})})
    write_bytes(path, payload.replace(_BLANK.encode(), hashlib.sha256(payload).hexdigest().encode(), 1))


def read_tensors(path: Path, advice: str = START_OVER) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header that :func:`write_tensors` wrote. An error ends with ``advice``."""
    try:
        payload = read_bytes(path)
        about = header(payload)
        _verify(payload, about.pop("sha256", None))
        tensors = safetensors.torch.load(payload)
    except OSError as error:
        raise WhorlError(f"cannot read {path}: {reason(error)}; {advice}") from None
    except (ValueError, LookupError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        raise WhorlError(f"cannot read {path}: it is damaged ({reason(error)}); {advice}") from None
    for name, tensor in tensors.items():
        # The class means of a class without exemplars are NaN.
        if name != "means" and tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise WhorlError(f"{path} is damaged ({name} holds numbers that are not finite); {advice}")
    return tensors, about


def header(payload: bytes) -> dict[str, Any]:
    """The JSON that :func:`write_tensors` stored in the header of a file; its start is enough."""
    length = int.from_bytes(payload[:8], "little")
    found = json.loads(payload[8 : 8 + length])
    try:
        about = json.loads(found["__metadata__"]["whorl"], parse_constant=_refuse)
    except (LookupError, TypeError):
        about = None
    if not isinstance(about, dict):
        raise ValueError("it has no header of whorl")
    return about


def nest(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix.`` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def unnest(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix.``, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _verify(payload: bytes, stated: object) -> None:
    """Raise ValueError unless the stated checksum is that of the file. Files of older versions state none."""
    if stated is None:
        return
    place = payload.find(stated.encode()) if isinstance(stated, str) and len(stated) == len(_BLANK) else -1
    found = hashlib.sha256(memoryview(payload)[: max(place, 0)])
    found.update(_BLANK.encode())
    found.update(memoryview(payload)[place + len(_BLANK) :])
    if place < 0 or found.hexdigest() != stated:
        raise ValueError("its checksum does not match")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _write(path: Path, payload: bytes) -> None:
    with open(path, "xb") as file:  # never a file of the user, nor one that a link points to
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def _cannot_write(path: Path, error: OSError) -> WhorlError:
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))  # Windows has no quota error
    advice = "free some space, then repeat the command to resume" if full else "make it writable"
    return WhorlError(f"cannot write {path}: {error.strerror}; {advice}")
