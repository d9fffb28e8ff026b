"""Scores of one model on one test set, and the quality of pseudo labels compared with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from whorl.errors import WhorlError
from whorl.metrics.match import contingency, match, share_matched
from whorl.types import IntArray

_BLOCK = 4096  # rows sorted at once; sorting all test scores of ImageNet-1000 at once would take 400 MB


@dataclass(frozen=True)
class Scores:
    """The scores of one model after one task, on the test samples of all classes seen so far.

    In the paper's tables, unsupervised methods are scored by ``acc`` and ``acc5``, supervised ones by ``acc_plain``
    and ``acc5_plain`` (docs/protocol.md, A19).
    """

    acc: float
    """Accuracy under the best one-to-one matching of ids to classes."""
    acc_plain: float
    """Accuracy if each id is taken as the class with the same number."""
    acc5: float
    """Top-5 accuracy under the matching of ``acc`` (docs/protocol.md, A21)."""
    acc5_plain: float
    """Top-5 accuracy if each id is taken as the class with the same number."""
    nmi: float
    """Normalised mutual information, normalised by the geometric mean (docs/protocol.md, A41)."""
    ari: float
    """Adjusted Rand index: 0 for random labels on average, so it may be slightly negative."""
    per_task: tuple[float, ...]
    """Accuracy on the test samples of each task, under the matching of ``acc``."""
    acc_anchored: float
    """Accuracy under the mapping of :func:`anchored`, which matches within tasks (docs/protocol.md, A18)."""
    acc_trainmap: float | None
    """Accuracy under a mapping computed on the training data (docs/protocol.md, A22); None if none was given."""
    mapping: tuple[int, ...]
    """The class matched to each id by ``acc``."""


@dataclass(frozen=True)
class LabelQuality:
    """Pseudo labels compared with the truth, which the learner does not see. For diagnostics only."""

    acc: float
    nmi: float
    ari: float
    sizes: tuple[int, ...]
    """Number of samples with each pseudo label."""


def score(
    logits: npt.NDArray[np.floating[Any]], truth: IntArray, sizes: Sequence[int], trainmap: IntArray | None = None
) -> Scores:
    """Score ``logits`` [N, C] against ``truth`` [N]; ``sizes`` is the number of classes of each task.

    Ties are broken in favour of the lowest id. ``trainmap`` gives the class of each id, or -1 for none.
    """
    count = sum(sizes)
    _check(logits, truth, count, trainmap)
    ranked = top_ids(logits, 5)
    predicted = ranked[:, 0]
    table = contingency(predicted, truth, count, count)
    mapping = match(table)
    hits = mapping[ranked] == truth[:, None]
    return Scores(
        acc=share_matched(table, mapping),
        acc_plain=float(np.mean(predicted == truth)),
        acc5=float(hits.any(axis=1).mean()),
        acc5_plain=float((ranked == truth[:, None]).any(axis=1).mean()),
        nmi=nmi(predicted, truth),
        ari=ari(predicted, truth),
        per_task=_per_task(hits[:, 0], truth, sizes),
        acc_anchored=share_matched(table, anchored(table, sizes)),
        acc_trainmap=None if trainmap is None else share_matched(table, trainmap),
        mapping=tuple(mapping.tolist()),
    )


def label_quality(pseudo: IntArray, truth: IntArray, n_ids: int, n_classes: int) -> LabelQuality:
    """Compare pseudo labels 0..n_ids-1 with true classes 0..n_classes-1; the accuracy is under the best matching."""
    table = contingency(pseudo, truth, n_ids, n_classes)
    return LabelQuality(
        acc=share_matched(table, match(table)),
        nmi=nmi(pseudo, truth),
        ari=ari(pseudo, truth),
        sizes=tuple(table.sum(axis=1).tolist()),
    )


def top_ids(logits: npt.NDArray[np.floating[Any]], k: int) -> IntArray:
    """The ``k`` ids with the highest scores in each row, in descending order; ties are broken by the lowest id."""
    blocks = [
        np.argsort(-logits[start : start + _BLOCK], axis=1, kind="stable")[:, :k]
        for start in range(0, len(logits), _BLOCK)
    ]
    return np.concatenate(blocks).astype(np.int64, copy=False)


def anchored(table: IntArray, sizes: Sequence[int]) -> IntArray:
    """The identity for the ids of task 1; for each later task, the best matching of its ids to its own classes."""
    edges = np.cumsum([0, *sizes])
    mapping = np.arange(edges[-1], dtype=np.int64)
    for start, stop in pairwise(edges[1:]):
        mapping[start:stop] = start + match(table[start:stop, start:stop])
    return mapping


def nmi(predicted: IntArray, truth: IntArray) -> float:
    """Normalised mutual information of two partitions: I(A, B) / sqrt(H(A) H(B)), as in the paper's appendix.

    If one of the partitions has a single group, the value is 0; if both have, it is 1.
    """
    from sklearn.metrics import normalized_mutual_info_score  # here, because reports need no scikit-learn

    return min(float(normalized_mutual_info_score(truth, predicted, average_method="geometric")), 1.0)


def ari(predicted: IntArray, truth: IntArray) -> float:
    """Adjusted Rand index of two partitions.

    If one of the partitions has a single group, the value is 0. It is 1 if both have, or if both consist of singletons.
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, predicted))


def _per_task(hits: npt.NDArray[np.bool_], truth: IntArray, sizes: Sequence[int]) -> tuple[float, ...]:
    task = np.repeat(np.arange(len(sizes)), sizes)[truth]
    seen = np.bincount(task, minlength=len(sizes))
    if not seen.all():
        empty = int(np.argmin(seen)) + 1
        raise WhorlError(f"task {empty} has no test samples; add some or leave the task out")
    return tuple((np.bincount(task, weights=hits, minlength=len(sizes)) / seen).tolist())


def _check(logits: npt.NDArray[np.floating[Any]], truth: IntArray, count: int, trainmap: IntArray | None) -> None:
    if logits.shape != (len(truth), count):
        raise ValueError(f"logits {logits.shape} must be [{len(truth)} samples, {count} classes]")
    if trainmap is not None and trainmap.shape != (count,):
        raise ValueError(f"trainmap {trainmap.shape} must have one class for each of {count} ids")
    if not len(truth):
        raise WhorlError("there are no test samples; at least one per task is needed")
    if np.isnan(logits).any():
        raise WhorlError("the outputs of the model are not numbers: training diverged; lower the learning rate")
