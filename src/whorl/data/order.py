"""The order in which classes arrive. Orders A and B are both known as "seed 1993"; they are stored, not generated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from whorl.errors import WhorlError, unknown

# Used by LUCIR, WA, PyCIL and FACIL: NumPy's legacy generator with seed 1993, one shuffle of 0..99.
ORDER_A = (
    68, 56, 78, 8, 23, 84, 90, 65, 74, 76, 40, 89, 3, 92, 55, 9, 26, 80, 43, 38, 58, 70, 77, 1, 85,
    19, 17, 50, 28, 53, 13, 81, 45, 82, 6, 59, 83, 16, 15, 44, 91, 41, 72, 60, 79, 52, 20, 10, 31, 54,
    37, 95, 14, 71, 96, 98, 97, 2, 64, 66, 42, 22, 35, 86, 24, 34, 87, 21, 99, 0, 88, 27, 18, 94, 11,
    12, 47, 25, 30, 46, 62, 69, 36, 61, 7, 63, 75, 5, 32, 4, 51, 48, 73, 93, 39, 67, 29, 49, 57, 33,
)  # fmt: skip

# Used by the original iCaRL code: the same seed, then a hundred shuffles of 500 elements, then the shuffle of 0..99.
ORDER_B = (
    87, 0, 52, 58, 44, 91, 68, 97, 51, 15, 94, 92, 10, 72, 49, 78, 61, 14, 8, 86, 84, 96, 18, 24, 32,
    45, 88, 11, 4, 67, 69, 66, 77, 47, 79, 93, 29, 50, 57, 83, 17, 81, 41, 12, 37, 59, 25, 20, 80, 73,
    1, 28, 6, 46, 62, 82, 53, 9, 31, 75, 38, 63, 33, 74, 27, 22, 36, 3, 16, 21, 60, 19, 70, 90, 89,
    43, 5, 42, 65, 76, 40, 30, 23, 85, 2, 95, 56, 48, 71, 64, 98, 13, 99, 7, 34, 55, 54, 26, 35, 39,
)  # fmt: skip

NAMED = ("A", "B", "natural")


def class_order(order: str | Sequence[int], classes: int) -> tuple[int, ...]:
    """The order as a permutation of 0..classes-1: entry i is the data set's class id of the i-th class to arrive.

    A and B are defined for 100 classes; fewer classes keep their relative order. For the 1000 classes of ImageNet, A
    is the permutation of 1000 that the same generator and seed give.
    """
    if not isinstance(order, str):
        return _checked(tuple(order), classes)
    if order == "natural":
        return tuple(range(classes))
    if order not in NAMED:
        raise unknown("class order", order, NAMED)
    if order == "A" and classes == 1000:
        return tuple(int(c) for c in np.random.RandomState(1993).permutation(1000))
    if classes > 100:
        raise WhorlError(
            f"class order {order} is defined for up to 100 classes, not {classes}; use `stream.order=natural`"
        )
    return tuple(c for c in (ORDER_A if order == "A" else ORDER_B) if c < classes)


def read_order(path: Path) -> tuple[int, ...]:
    """Read an order from a file of class ids, separated by spaces, commas or line breaks; ``#`` starts a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        words = " ".join(line.split("#")[0] for line in lines).replace(",", " ").split()
        return tuple(int(word) for word in words)
    except (OSError, UnicodeDecodeError) as error:
        raise WhorlError(f"cannot read the class order {path}: {error}") from None
    except ValueError as error:
        raise WhorlError(f"the class order {path} must have whole numbers only: {error}") from None


def _checked(order: tuple[int, ...], classes: int) -> tuple[int, ...]:
    if sorted(order) != list(range(classes)):
        raise WhorlError(f"`stream.order` must name each of 0 to {classes - 1} once; it has {len(order)} entries")
    return order
