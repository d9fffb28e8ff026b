"""Numbers and lists as text."""

from __future__ import annotations

from collections.abc import Iterable


def number(value: float | str | None, sign: bool = False) -> str:
    """A score with three decimals and a true minus, or a dash for None; ``sign`` writes a plus as well.

    Words in place of a number are returned as they are.
    """
    if value is None or isinstance(value, str):
        return value or "–"
    value = round(value, 3) + 0.0  # no "-0.000"
    return f"{value:{'+' if sign else ''}.3f}".replace("-", "−")


def listed(words: Iterable[object]) -> str:
    """``a, b and c``."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
