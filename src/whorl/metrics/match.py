"""Matching ids to classes: the one-to-one assignment behind the paper's accuracy (section 5.2)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from whorl.types import IntArray


def contingency(predicted: IntArray, truth: IntArray, ids: int, classes: int) -> IntArray:
    """How often each id meets each class, as a table [ids, classes].

    The size is given, never read off the data: an id that nobody predicted still has its row of zeros.
    """
    if predicted.shape != truth.shape or predicted.ndim != 1:
        raise ValueError(f"predicted {predicted.shape} and truth {truth.shape} must be two vectors of one length")
    _check_range("predicted", predicted, ids)
    _check_range("truth", truth, classes)
    cells = predicted.astype(np.int64) * classes + truth
    return np.bincount(cells, minlength=ids * classes).reshape(ids, classes).astype(np.int64, copy=False)


def match(table: IntArray) -> IntArray:
    """The class of each id, one-to-one, with the most samples matched; -1 where an id is left without a class.

    Not a majority vote: two ids never share a class (A20). The table may have more ids than classes or
    fewer. The same table always gives the same mapping.
    """
    mapping = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    mapping[rows] = columns
    return mapping


def aligned(groups: IntArray, labels: IntArray, k: int) -> IntArray:
    """The groups, numbered 0..k-1, under the names that let most samples keep their label."""
    return match(contingency(groups, labels, k, k))[groups]


def matched_accuracy(predicted: IntArray, truth: IntArray, ids: int, classes: int) -> float:
    """The share of samples whose id is matched to their class, under the best matching."""
    table = contingency(predicted, truth, ids, classes)
    return share_matched(table, match(table))


def share_matched(table: IntArray, mapping: IntArray) -> float:
    """The share of the table's samples that ``mapping`` sends to their class."""
    if not (total := int(table.sum())):
        raise ValueError("an accuracy over no samples is not defined")
    matched = np.flatnonzero(mapping >= 0)
    return int(table[matched, mapping[matched]].sum()) / total


def _check_range(name: str, values: IntArray, limit: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < limit):
        raise ValueError(f"{name} must lie in 0..{limit - 1}, found {values.min()}..{values.max()}")
