"""Labels of a chosen accuracy: true labels, confused as clustering confuses them. A diagnostic, not a method.

It answers how good pseudo labels must be for a given result. Only an experiment can use it, since the true labels are
needed to make them (``labels=corrupted``).
"""

from __future__ import annotations

import numpy as np

from whorl.errors import WhorlError
from whorl.metrics.match import aligned, contingency, matched_accuracy
from whorl.types import IntArray


def corrupted(truth: IntArray, groups: IntArray, k: int, accuracy: float, seed: int) -> IntArray:
    """Labels 0..k-1 of which a share ``accuracy`` is right; the wrong ones are wrong as the groups are.

    The groups are matched to the classes first. If too many labels are wrong then, some of them, drawn at random, are
    replaced by the true ones. If too few are wrong, right ones are replaced: each by a class that the groups confuse
    its class with, as often as they do so.
    """
    labels, draws = aligned(groups, truth, k), np.random.default_rng(seed)
    table = contingency(labels, truth, k, k).T.astype(np.float64)
    right = labels == truth
    missing = round(accuracy * len(truth)) - int(right.sum())
    if missing >= 0:
        chosen = draws.choice(np.flatnonzero(~right), missing, replace=False)
        labels[chosen] = truth[chosen]
    else:
        np.fill_diagonal(table, 0)
        for sample in draws.choice(np.flatnonzero(right), -missing, replace=False):
            wrong = table[truth[sample]]
            if not wrong.any():
                wrong = (np.arange(k) != truth[sample]).astype(np.float64)
            labels[sample] = draws.choice(k, p=wrong / wrong.sum())
    empty = np.setdiff1d(np.arange(k), labels)
    if len(empty):
        left = f"{len(empty)} of {k} classes have no image left"
        raise WhorlError(f"with `label_acc={accuracy:g}`, {left}; raise it, or use more images")
    counted = matched_accuracy(labels, truth, k, k)
    if counted > accuracy + 1 / len(truth):
        raise WhorlError(
            f"labels of which {accuracy:g} are right would count as {counted:.3f}, since clusters are matched to "
            "classes; raise `label_acc`"
        )
    return labels
