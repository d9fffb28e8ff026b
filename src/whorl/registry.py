"""Lookup by name: a plain dict for built-in components, entry points for those of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from whorl.errors import WhorlError, unknown

T = TypeVar("T")


def names(builtin: Iterable[str], group: str) -> list[str]:
    """All names, built-in and from entry points, sorted."""
    return sorted({*builtin, *entry_points(group=group).names})


def find(kind: str, name: str, builtin: Mapping[str, T], group: str) -> T:
    """The component called ``name``. Built-in names take precedence; a plug-in is imported when it is first used."""
    if name in builtin:
        return builtin[name]
    plugins = entry_points(group=group)
    if name not in plugins.names:
        raise unknown(kind, name, names(builtin, group))
    try:
        return cast(T, plugins[name].load())
    except Exception as error:  # third-party code may raise anything
        raise WhorlError(f"the plug-in for {kind} {name!r} cannot be loaded: {error}") from error
