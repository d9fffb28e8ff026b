"""Errors that a user can cause: one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def printable(text: str) -> str:
    """The text with control characters, text direction marks and bytes that are not UTF-8 escaped, such as ``\\x1b``.

    Names of files, classes and plug-ins can contain anything. Printed as they are, such characters could move the
    cursor or hide text.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def count(number: int, word: str, several: str = "") -> str:
    """``1 run``, ``2 runs``; ``several`` is a plural that does not end in s."""
    return f"{number} {word if number == 1 else several or word + 's'}"


class WhorlError(Exception):
    """An error the user can fix. The message is one line; the command line prints it and exits with code 2.

    Messages name config keys in backquotes, such as `memory.quota`; the command line shows the flag instead.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split("\n"))))


def out_of_memory(error: BaseException) -> bool:
    """Whether memory could not be allocated, by Python or by torch, which raises a ``RuntimeError``."""
    words = "not enough memory", "can't allocate memory", "out of memory"
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in words)
    )


class HiddenLabelError(RuntimeError):
    """A learner used labels that its delivery does not have. Always a bug in the learner."""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that ``name`` is probably a typo of: few letters differ, or the same ones are in another order."""
    swapped = [each for each in known if sorted(each) == sorted(name)]
    return next(iter(swapped or get_close_matches(name, known, n=1, cutoff=0.6)), None)


def unknown(kind: str, name: str, known: Iterable[str], meant: str | None = None) -> WhorlError:
    """The error for an unknown name, with ``meant`` or the nearest known name, or else with a list of all names."""
    names = sorted(known)
    section = name[: name.rfind(".") + 1]  # two keys of a section are alike in nothing but the section
    if not all(each.startswith(section) for each in names):
        section = ""
    near = nearest(name.removeprefix(section), [each.removeprefix(section) for each in names])
    meant = meant or (near and section + near)
    hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(names) or 'none'}"
    return WhorlError(f"unknown {kind} {name!r}; {hint}")
