"""Writes files so that each one exists either completely or not at all."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from whorl.errors import WhorlError

START_OVER = "start over with `fresh`, or remove the folder"
"""What to do about a damaged file of a run."""


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
    if path.exists() and path.stat().st_size > length:
        os.truncate(path, length)


def write_bytes(path: Path, payload: bytes) -> None:
    """Write a temporary file beside ``path``, then put it in place in one step."""
    temporary = path.with_name(path.name + ".tmp")
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


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] = {}) -> None:
    """Write a safetensors file atomically, with ``about`` as JSON in its header."""
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, safetensors.torch.save(dense, {"whorl": json.dumps(about)}))


def read_tensors(path: Path, advice: str = START_OVER) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header that :func:`write_tensors` wrote. An error ends with ``advice``."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("whorl", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise WhorlError(f"cannot read {path}: {error}; {advice}") from None


def nest(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix.`` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def unnest(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix.``, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _write(path: Path, payload: bytes) -> None:
    with open(path, "wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def _cannot_write(path: Path, error: OSError) -> WhorlError:
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))  # Windows has no quota error
    advice = "free some space, then repeat the command to resume" if full else "make it writable"
    return WhorlError(f"cannot write {path}: {error.strerror}; {advice}")
