"""Estimates memory before it is allocated, so that too large a request is an error and not a killed process."""

from __future__ import annotations

import os
from pathlib import Path

from whorl.errors import WhorlError

_MEMINFO, _OWN_GROUPS, _GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""The limit and the use of memory of a control group, in versions 2 and 1 of control groups."""
_UNKNOWN = 1 << 62
_BATCH = 32
"""Images of a batch that must fit in memory as floats."""


def available() -> int:
    """The memory in bytes that this process can still use, within the limit of its container; huge if unknown."""
    return max(0, min(_machine(), *(_left(folder, *names) for folder in _groups() for names in _FILES)))


def require(needed: int, what: str, advice: str) -> None:
    """Raise a ``WhorlError`` if ``needed`` bytes are not available."""
    free = available()
    if needed > free:
        raise WhorlError(f"{what} would need {_size(needed)} of memory, but {_size(free)} are free; {advice}")


def require_side(size: int) -> None:
    """Raise a ``WhorlError`` if a small batch of images of side ``size`` does not fit in memory."""
    require(_BATCH * size * size * 3 * 4, f"a batch of {_BATCH} images of {size}×{size}", "lower `data.resize`")


def _machine() -> int:
    try:
        lines = _MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return _UNKNOWN


def _groups() -> list[Path]:
    """The folders that may describe the memory of this process's control group: as seen inside and outside."""
    try:
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
        own = [path.lstrip("/") for _, kinds, path in lines if kinds in ("", "memory")]
    except (OSError, ValueError):
        own = []
    return [_GROUPS / kind / path for kind in ("", "memory") for path in ("", *own)]


def _left(folder: Path, limit: str, used: str) -> int:
    """What a control group may still use. Cached files count as used, but the kernel drops them on demand."""
    try:
        most, now = int((folder / limit).read_text()), int((folder / used).read_text())
        values = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - now + int(values.get("inactive_file", 0)) + int(values.get("active_file", 0))
    except (OSError, ValueError):  # no control group, or one without a limit ("max")
        return _UNKNOWN


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
