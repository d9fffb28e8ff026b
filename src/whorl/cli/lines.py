"""Lines and tables on the terminal. Every command prints through these functions.

Characters that a terminal would obey are escaped. In a narrow terminal, text continues on the next line and tables
drop or fold columns; numbers and the hash of a run are never cut.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.cells import cell_len

from whorl.errors import WhorlError, printable

GAP = "  "
INDENT = "  "


class Stopped(Exception):
    """Ctrl-C in a command that can be resumed; the message is the command that does it."""


class Unread(Exception):
    """The program that reads stdout has ended, as ``head`` does after a few lines."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise ``KeyboardInterrupt``, for a command that has something to finish before it ends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say(text: str) -> None:
    """Print a line on stdout, wrapped between words if stdout is a terminal."""
    for line in wrapped(printable(text), room()):
        _print(line)


def say_json(document: object) -> None:
    """Print a document on stdout as one line of JSON."""
    _print(json.dumps(document, allow_nan=False))


def tell(text: str) -> None:
    """Print a line on stderr. Nothing can be done if stderr is full or closed."""
    with suppress(OSError, ValueError):
        print(printable(text), file=sys.stderr, flush=True)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] = (), drop: Sequence[str] = ()
) -> None:
    """Print a table on stdout. Columns in ``left`` are aligned to the left, all others to the right.

    If it is wider than the terminal, the columns in ``drop`` are left out one after the other until it fits. If that
    is not enough, none is left out and the table is folded: as many columns as fit, then the others below, each time
    with the first column. If the first column takes more than half of the width, each row becomes a block of its own:
    the first cell, and below it the names and values of the others.
    """
    columns = kept = [[printable(cell) for cell in column] for column in zip(head, *rows, strict=True)]
    width = room()
    for name in drop:
        if width is not None and _width(kept) > width:
            kept = [column for column in kept if column[0] != name]
    for line in _folded(columns if width is not None and _width(kept) > width else kept, left, width):
        _print(line)


def _print(line: str) -> None:
    try:
        print(line)
    except BrokenPipeError:
        raise Unread from None
    except OSError as error:
        raise WhorlError(f"cannot write the results: {error.strerror}") from None


def room() -> int | None:
    """The columns of the terminal or those that the variable ``COLUMNS`` asks for; None if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of at most ``width``, broken at spaces, and in longer words after hyphens and slashes."""
    if width is None or cell_len(text) <= width:
        return [text]
    margin = text[: len(text) - len(text.lstrip())]
    return _filled(re.findall(r"\S+\s*", text), width, margin, margin)


def _filled(pieces: Iterable[str], width: int, margin: str, further: str) -> list[str]:
    """Pieces of text in lines of at most ``width``; ``further`` is the margin of all lines but the first."""
    lines, empty = [margin], True
    for piece in pieces:
        short = cell_len(further + piece.rstrip()) <= width
        for part in [piece] if short else re.findall(r"[^\s/-]+[\s/-]*|[\s/-]+", piece):
            if not empty and cell_len(lines[-1] + part.rstrip()) > width:
                lines.append(further)
            lines[-1] += part
            empty = False
    return [line.rstrip() for line in lines]


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(cell_len, column)) for column in columns) + len(GAP) * (len(columns) - 1)


def _folded(columns: list[list[str]], left: Collection[str], width: int | None) -> Iterator[str]:
    key, *others = columns
    if width is None or _width(columns) <= width:
        yield from _aligned(columns, left)
    elif _width([key]) > width // 2 or any(_width([key, column]) > width for column in others):
        names = [column[0] for column in others]
        for first, *cells in list(zip(*columns, strict=True))[1:]:
            yield from wrapped(first, width)
            pairs = [f"{name} {cell}{GAP}" for name, cell in zip(names, cells, strict=True)]
            yield from _filled(pairs, width, INDENT, INDENT)
    else:
        while others:
            count = next(n for n in range(len(others), 0, -1) if _width([key, *others[:n]]) <= width)
            yield from _aligned([key, *others[:count]], left)
            others = others[count:]


def _aligned(columns: Sequence[Sequence[str]], left: Collection[str]) -> Iterator[str]:
    padded: list[list[str]] = []
    for column in columns:
        widest = max(map(cell_len, column))
        spaces = [" " * (widest - cell_len(cell)) for cell in column]
        to_left = column[0] in left
        padded.append([cell + s if to_left else s + cell for cell, s in zip(column, spaces, strict=True)])
    for row in zip(*padded, strict=True):
        yield GAP.join(row).rstrip()
