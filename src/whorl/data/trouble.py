"""What goes wrong elsewhere (files, libraries), as the one line a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from whorl.errors import WhorlError


def reason(error: BaseException) -> str:
    """Why, in one line, whatever the library that raised it writes."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def printable(name: str) -> str:
    """A file's name fit for a message: line breaks and bytes that are no UTF-8 are escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


@contextmanager
def mendable(name: str) -> Iterator[None]:
    """Turns errors of the file system while loading data set ``name`` into one the user sees as a line."""
    try:
        yield
    except OSError as error:
        raise WhorlError(f"{name} cannot be loaded ({reason(error)})") from error
