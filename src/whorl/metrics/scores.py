"""What one model is worth on one test set, and what pseudo labels are worth against the truth."""

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

_BLOCK = 4096  # rows sorted at a time: a full argsort of ImageNet-1000's test scores would take 400 MB


@dataclass(frozen=True)
class Scores:
    """The scores of one model after one task, over the test images of all classes seen.

    ``acc`` and ``acc5`` are the paper's numbers for rows without labels, ``acc_plain`` and ``acc5_plain`` for
    supervised rows (docs/protocol.md, A19).
    """

    acc: float
    """Accuracy under the best one-to-one matching of ids to classes."""
    acc_plain: float
    """Accuracy with every id taken as the class of the same number."""
    acc5: float
    """A hit where one of the five best ids is matched to the class; the matching is that of ``acc`` (A21)."""
    acc5_plain: float
    """A hit where the class is one of the five best ids, every id taken as the class of the same number."""
    nmi: float
    """Normalised mutual information, geometric normaliser (A41)."""
    ari: float
    """Adjusted Rand index; chance is 0, so it may be slightly negative."""
    per_task: tuple[float, ...]
    """``acc`` over the test images of each task's classes, same matching."""
    acc_anchored: float
    """Task 1's ids are their classes; ids of a later task are matched to classes of that task only (A18)."""
    acc_trainmap: float | None
    """Accuracy under the mapping fixed on the training data as each task was learned (A22); None without one."""
    mapping: tuple[int, ...]
    """The class matched to each id."""


@dataclass(frozen=True)
class LabelQuality:
    """Pseudo labels against the truth they never saw. For diagnostics only."""

    acc: float
    nmi: float
    ari: float
    sizes: tuple[int, ...]
    """Samples per pseudo label."""


def score(
    logits: npt.NDArray[np.floating[Any]], truth: IntArray, sizes: Sequence[int], trainmap: IntArray | None = None
) -> Scores:
    """Score ``logits`` [N, C] (higher is better) against ``truth``; ``sizes`` counts the classes of each task.

    Equal scores rank by id, lowest first. ``trainmap`` holds a class for each id, -1 where it has none.
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
        nmi=nmi(table),
        ari=ari(table),
        per_task=_per_task(hits[:, 0], truth, sizes),
        acc_anchored=share_matched(table, anchored(table, sizes)),
        acc_trainmap=None if trainmap is None else share_matched(table, trainmap),
        mapping=tuple(mapping.tolist()),
    )


def label_quality(pseudo: IntArray, truth: IntArray, n_ids: int, n_classes: int) -> LabelQuality:
    """Hungarian accuracy, NMI, ARI and sizes of pseudo labels 0..n_ids-1 against truth 0..n_classes-1."""
    table = contingency(pseudo, truth, n_ids, n_classes)
    return LabelQuality(
        acc=share_matched(table, match(table)),
        nmi=nmi(table),
        ari=ari(table),
        sizes=tuple(table.sum(axis=1).tolist()),
    )


def top_ids(logits: npt.NDArray[np.floating[Any]], k: int) -> IntArray:
    """The ``k`` best ids of each row (all of them when there are fewer), best first, ties to the lowest id."""
    blocks = [
        np.argsort(-logits[start : start + _BLOCK], axis=1, kind="stable")[:, :k]
        for start in range(0, len(logits), _BLOCK)
    ]
    return np.concatenate(blocks).astype(np.int64, copy=False)


def anchored(table: IntArray, sizes: Sequence[int]) -> IntArray:
    """The mapping of A18: the identity for task 1, a matching inside its own classes for each later task."""
    edges = np.cumsum([0, *sizes])
    mapping = np.arange(edges[-1], dtype=np.int64)
    for start, stop in pairwise(edges[1:]):
        mapping[start:stop] = start + match(table[start:stop, start:stop])
    return mapping


def nmi(table: IntArray) -> float:
    """I(A, B) / sqrt(H(A) H(B)) of the two partitions in a contingency table (the formula of the paper's appendix).

    With one group on one side there is nothing to share: 0. With one group on both sides they agree: 1.
    """
    joint = table / table.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(rows), _entropy(columns)
    if min(entropies) == 0.0:
        return float(max(entropies) == 0.0)
    seen = joint > 0
    information = float(np.sum(joint[seen] * np.log(joint[seen] / np.outer(rows, columns)[seen])))
    return float(np.clip(information / np.sqrt(entropies[0] * entropies[1]), 0.0, 1.0))


def ari(table: IntArray) -> float:
    """The adjusted Rand index of the two partitions in a contingency table.

    Where chance leaves no room (both are one group, or both are all singletons) they agree: 1.
    """
    together, rows, columns = (_pairs(counts) for counts in (table, table.sum(axis=1), table.sum(axis=0)))
    total = _pairs(table.sum())
    # Whole numbers throughout, so that "no room" is an exact question: the usual fraction, times 2 · total.
    room = (rows + columns) * total - 2 * rows * columns
    return 2 * (together * total - rows * columns) / room if room else 1.0


def _per_task(hits: npt.NDArray[np.bool_], truth: IntArray, sizes: Sequence[int]) -> tuple[float, ...]:
    task = np.repeat(np.arange(len(sizes)), sizes)[truth]
    seen = np.bincount(task, minlength=len(sizes))
    if not seen.all():
        empty = int(np.argmin(seen)) + 1
        raise WhorlError(f"no test image belongs to a class of task {empty}; add some or leave the task out")
    return tuple((np.bincount(task, weights=hits, minlength=len(sizes)) / seen).tolist())


def _check(logits: npt.NDArray[np.floating[Any]], truth: IntArray, count: int, trainmap: IntArray | None) -> None:
    if logits.shape != (len(truth), count):
        raise ValueError(f"logits {logits.shape} must be [{len(truth)} samples, {count} classes]")
    if trainmap is not None and trainmap.shape != (count,):
        raise ValueError(f"trainmap {trainmap.shape} must hold one class for each of {count} ids")
    if not len(truth):
        raise WhorlError("there are no test images to score; give at least one for each task")
    if np.isnan(logits).any():
        raise WhorlError("the model's scores are not numbers: training diverged; lower the learning rate")


def _entropy(shares: npt.NDArray[np.float64]) -> float:
    positive = shares[shares > 0]
    # A single group may have a share of 1 - 1e-16; counting groups keeps its entropy at exactly 0.
    return float(-np.sum(positive * np.log(positive))) if len(positive) > 1 else 0.0


def _pairs(counts: npt.NDArray[np.int64]) -> int:
    return int(np.sum(counts * (counts - 1))) // 2
