"""Names of clusters: which ones are allowed, which ones are the same, and which ones are probably a typo."""

from __future__ import annotations

import re
from collections.abc import Iterable

from whorl.errors import WhorlError

LONGEST = 200
RESERVED = re.compile(r"unknown|junk|cluster \d+")
"""The answers of ``whorl predict`` that are no names."""


def cleaned(name: str) -> str:
    """The name with single spaces between its words. Raises a ``WhorlError`` if it cannot be a name."""
    found = " ".join(name.split())
    if not found:
        raise WhorlError("a name cannot be empty")
    if len(found) > LONGEST:
        raise WhorlError(f"a name has at most {LONGEST} characters, and this one has {len(found)}")
    if not found.isprintable():
        raise WhorlError(f"the name {found!r} holds characters that cannot be printed; leave them out")
    if RESERVED.fullmatch(key(found)):
        raise WhorlError(f"{found!r} is an answer that every model has; choose another name")
    return found


def key(name: str) -> str:
    """What has to differ between two names: letters without case, words without the spaces around them."""
    return " ".join(name.split()).casefold()


def near(name: str, others: Iterable[str]) -> str | None:
    """A name among ``others`` that is one typo away; None if there is none, or if it is the same name.

    A typo is one letter too many, too few, another one, or two neighbours in the wrong order, in a name of at least
    four letters. Names that differ only in digits, such as ``zone 1`` and ``zone 2``, are no typos.
    """
    mine = key(name)
    found = (other for other in others if key(other) != mine and min(len(mine), len(key(other))) >= 4)
    return next((other for other in found if _one_typo(mine, key(other))), None)


def _one_typo(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) == len(long):
        swapped = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
        replaced = short[start + 1 :] == long[start + 1 :] and not (short[start] + long[start]).isdigit()
        return swapped or replaced
    return len(long) - len(short) == 1 and short[start:] == long[start + 1 :] and not long[start].isdigit()
