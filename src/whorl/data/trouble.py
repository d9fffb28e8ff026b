"""Turns errors of the file system and of libraries into one-line messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from whorl.errors import WhorlError, printable


def reason(error: BaseException) -> str:
    """The first line of an exception's message, or the name of its type if the message is empty."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Raise an ``OSError`` or ``MemoryError`` that occurs while data set ``name`` is loaded as a ``WhorlError``."""
    try:
        yield
    except MemoryError as error:
        raise WhorlError(f"{printable(name)} does not fit in memory; free some, or use fewer samples") from error
    except OSError as error:
        raise WhorlError(f"{printable(name)} cannot be loaded ({reason(error)})") from error
