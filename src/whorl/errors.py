"""Errors that a user can cause: one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WhorlError(Exception):
    """An error the user can fix. The message is one line; the command line prints it and exits with code 2.

    Messages name config keys in backquotes, such as `memory.quota`; the command line shows the flag instead.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split("\n")))


class HiddenLabelError(RuntimeError):
    """A learner used labels that its delivery does not have. Always a bug in the learner."""


def unknown(kind: str, name: str, known: Iterable[str]) -> WhorlError:
    """The error for an unknown name, with the nearest valid one or a list of all."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return WhorlError(f"unknown {kind} {name!r}; {hint}")
