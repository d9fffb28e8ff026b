"""Formulas written out in NumPy, as references for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from whorl.types import FloatArray, IntArray

Array = npt.NDArray[np.float64]


def wide(values: Tensor) -> Array:
    """A tensor as float64."""
    return np.asarray(values.detach().double().cpu().numpy())


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def eq1(logits: Array, teacher: Array, t: float) -> float:
    m = teacher.shape[1]
    total = 0.0
    for o, o_hat in zip(logits, teacher, strict=True):
        p_hat, p = softmax(o_hat[None] / t)[0], softmax(o[None, :m] / t)[0]
        total += sum(-p_hat[r] * np.log(p[r]) for r in range(m))
    return total / len(logits)


def eq2(logits: Array, labels: IntArray) -> float:
    return float(np.mean([-np.log(softmax(o[None])[0][y]) for o, y in zip(logits, labels, strict=True)]))


def eq3(logits: Array, labels: IntArray, teacher: Array, t: float) -> float:
    alpha = teacher.shape[1] / logits.shape[1]
    return float(alpha * eq1(logits, teacher, t) + (1 - alpha) * eq2(logits, labels))


def headwise(logits: Array, teacher: Array, sizes: Sequence[int], t: float) -> float:
    """Eq. 1 within the columns of each task, summed."""
    total, start = 0.0, 0
    for size in sizes:
        total += eq1(logits[:, start : start + size], teacher[:, start : start + size], t)
        start += size
    return total


def sigmoid_targets(logits: Array, labels: IntArray, teacher: Array) -> Array:
    """One-hot in new columns, the teacher's outputs in old columns."""
    target = np.zeros_like(logits)
    for row, label in enumerate(labels):
        for column in range(logits.shape[1]):
            old = column < teacher.shape[1]
            target[row, column] = sigmoid(teacher[row, column]) if old else float(column == label)
    return target


def sigmoid_loss(logits: Array, labels: IntArray, teacher: Array, width: int) -> float:
    p, target = sigmoid(logits), sigmoid_targets(logits, labels, teacher)
    return float(-(target * np.log(p) + (1 - target) * np.log(1 - p)).sum() / width / len(logits))


def forgetting(features: Array, teacher: Array) -> float:
    """One minus the cosine, averaged over the samples."""
    pairs = zip(features, teacher, strict=True)
    return float(np.mean([1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))


def ranking(cosines: Array, labels: IntArray, known: int, negatives: int, margin: float) -> float:
    """Each old sample against the new classes whose cosines are highest."""
    costs = []
    for row, label in zip(cosines, labels, strict=True):
        if label < known:
            costs += [max(0.0, margin - row[label] + s) for s in sorted(row[known:], reverse=True)[:negatives]]
    return float(np.mean(costs)) if costs else 0.0


def accommodate(logits: Array, teacher: Array, ratio: float) -> Array:
    blended, m = logits.copy(), teacher.shape[1]
    for column in range(m):
        blended[:, column] = ratio * logits[:, column] + (1 - ratio) * teacher[:, column]
    return blended


def herding_by_loops(features: FloatArray, quota: int, mean: Array | None = None) -> list[int]:
    """Herding (docs/protocol.md A10, A11, A13), written out one candidate at a time."""
    z = [row / np.sqrt(sum(v * v for v in row)) for row in features.astype(np.float64)]
    mu = sum(z) / len(z) if mean is None else mean
    chosen: list[int] = []
    for k in range(1, min(quota, len(z)) + 1):
        left = [i for i in range(len(z)) if i not in chosen]
        chosen.append(min(left, key=lambda i: float(np.linalg.norm(mu - (z[i] + sum(z[j] for j in chosen)) / k))))
    return chosen
