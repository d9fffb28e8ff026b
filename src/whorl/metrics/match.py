"""The one-to-one matching of ids to classes on which the paper's accuracy is based (section 5.2)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from whorl.types import IntArray


def contingency(predicted: IntArray, truth: IntArray, ids: int, classes: int) -> IntArray:
    """The contingency table [ids, classes]: the number of samples with each id and class.

    Its shape does not depend on the data: an id that was never predicted has a row of zeros.
    """
    if predicted.shape != truth.shape or predicted.ndim != 1:
        raise ValueError(f"predicted {predicted.shape} and truth {truth.shape} must be two vectors of the same length")
    _check_range("predicted", predicted, ids)
    _check_range("truth", truth, classes)
    cells = predicted.astype(np.int64) * classes + truth
    return np.bincount(cells, minlength=ids * classes).reshape(ids, classes).astype(np.int64, copy=False)


def match(table: IntArray) -> IntArray:
    """The class of each id under the one-to-one matching with the most samples matched; -1 for ids without a class.

    This is not a majority vote: two ids never share a class (docs/protocol.md, A20). The table may have more ids than
    classes or fewer. The result is deterministic.
    """
    mapping = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    mapping[rows] = columns
    return mapping


def aligned(groups: IntArray, labels: IntArray, k: int) -> IntArray:
    """The groups 0..k-1, renumbered such that as many samples as possible keep their label."""
    return match(contingency(groups, labels, k, k))[groups]


def matched_accuracy(predicted: IntArray, truth: IntArray, ids: int, classes: int) -> float:
    """The accuracy under the best one-to-one matching of ids to classes."""
    table = contingency(predicted, truth, ids, classes)
    return share_matched(table, match(table))


def share_matched(table: IntArray, mapping: IntArray) -> float:
    """The accuracy if each id is taken as the class given by ``mapping``."""
    if not (total := int(table.sum())):
        raise ValueError("the accuracy of no samples is not defined")
    matched = np.flatnonzero(mapping >= 0)
    return int(table[matched, mapping[matched]].sum()) / total


def _check_range(name: str, values: IntArray, limit: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < limit):
        raise ValueError(f"{name} must be in 0..{limit - 1}, found {values.min()}..{values.max()}")
