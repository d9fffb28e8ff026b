"""Errors a user can cause: one clear line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WhorlError(Exception):
    """Something the user can mend. The command line prints it as one line and exits with 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split("\n")))


class HiddenLabelError(RuntimeError):
    """A learner touched a label that its protocol does not grant. Always a bug, never the user's."""


def unknown(kind: str, name: str, known: Iterable[str]) -> WhorlError:
    """The error for a name that is not there, naming the nearest valid one."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return WhorlError(f"unknown {kind} {name!r}; {hint}")
