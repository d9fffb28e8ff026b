"""Fixed choices of samples: the split into training and test set, and a limited number of samples per class."""

from __future__ import annotations

import numpy as np

from whorl.errors import WhorlError
from whorl.types import IntArray

TEST_SHARE = 0.2
_SPLIT, _CHOICE = 80, 81  # streams of the random generator; the data do not depend on the seed of the run


def split(labels: IntArray, class_names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """Indices of the training samples and of the test samples. A fifth of each class is for testing.

    The split is the same each time. Each class is split independently, so that a change in one class does not affect
    the others.
    """
    train, test = [], []
    for label, name in enumerate(class_names):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            raise WhorlError(
                f"class {name!r} has {len(members)} sample(s); at least 2 are needed to split off a test set"
            )
        shuffled = np.random.default_rng([_SPLIT, label]).permutation(members)
        cut = max(1, round(TEST_SHARE * len(members)))
        test.append(shuffled[:cut])
        train.append(shuffled[cut:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def choose(labels: IntArray, per_class: int) -> IntArray:
    """Indices of at most ``per_class`` samples per class. The choice is fixed; a larger one contains every smaller."""
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen.append(np.random.default_rng([_CHOICE, int(label)]).permutation(members)[:per_class])
    return np.sort(np.concatenate(chosen))
