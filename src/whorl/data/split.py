"""Which images belong to which part: the fixed split of data that comes in one piece, and the fixed smaller choice."""

from __future__ import annotations

import numpy as np

from whorl.errors import WhorlError
from whorl.types import IntArray

TEST_SHARE = 0.2
_SPLIT, _CHOICE = 80, 81  # streams of the generator; the run's seed has no part in what the data are


def split(labels: IntArray, class_names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """Indices of the training and of the test images: a fifth of each class is for the test, the same each time.

    Classes are drawn independently, so that a change in one leaves the others as they were.
    """
    train, test = [], []
    for label, name in enumerate(class_names):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            raise WhorlError(
                f"class {name!r} has {len(members)} image(s); at least 2 are needed to split off a test set"
            )
        shuffled = np.random.default_rng([_SPLIT, label]).permutation(members)
        cut = max(1, round(TEST_SHARE * len(members)))
        test.append(shuffled[:cut])
        train.append(shuffled[cut:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def choose(labels: IntArray, per_class: int) -> IntArray:
    """Indices of a fixed choice of at most ``per_class`` images a class; a larger choice holds the smaller ones."""
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen.append(np.random.default_rng([_CHOICE, int(label)]).permutation(members)[:per_class])
    return np.sort(np.concatenate(chosen))
