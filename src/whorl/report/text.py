"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def number(value: float | None) -> str:
    """A share with three decimals, a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def minus(value: float | None, sign: bool = False) -> str:
    """A share that may be below zero, with a true minus; ``sign`` writes the plus as well."""
    if value is None:
        return "–"
    value = round(value, 3) + 0.0  # no "-0.000"
    return f"{value:{'+' if sign else ''}.3f}".replace("-", "−")


def letters(number: int) -> str:
    """a to z, then aa, ab, …, counted from 0."""
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def count(number: int, word: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {word}" + ("" if number == 1 else "s")


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
