"""Names to things: a plain dict for what is built in, entry points for what third parties bring."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from whorl.errors import WhorlError, unknown

T = TypeVar("T")


def names(builtin: Mapping[str, object], group: str) -> list[str]:
    """All names, sorted."""
    return sorted({*builtin, *entry_points(group=group).names})


def find(kind: str, name: str, builtin: Mapping[str, T], group: str) -> T:
    """The thing of that name. Built-in names come first; a plug-in is imported only when it is asked for."""
    if name in builtin:
        return builtin[name]
    plugins = entry_points(group=group)
    if name not in plugins.names:
        raise unknown(kind, name, names(builtin, group))
    try:
        return cast(T, plugins[name].load())
    except Exception as error:  # a third party's code may fail in any way
        raise WhorlError(f"the plug-in for {kind} {name!r} cannot be loaded: {error}") from error
