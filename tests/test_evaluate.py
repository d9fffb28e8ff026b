"""The evaluator against predictions made up by hand."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from whorl.data.source import ArraySource
from whorl.data.stream import Truth
from whorl.engine import Learner
from whorl.evaluate import Evaluator, summary
from whorl.memory.nme import class_means, nme_scores
from whorl.types import FloatArray, ImageSource


def images(n: int) -> ArraySource:
    return ArraySource(torch.zeros(n, 8, 8, 3, dtype=torch.uint8))


def test_scores_of_a_learner_that_swapped_two_ids() -> None:
    """Task 2's ids are swapped against the truth in training and in test: ACC forgives it, plain accuracy does not."""
    truth = Truth(
        names=("a", "b", "c", "d"),
        train=(np.array([0, 0, 1, 1]), np.array([2, 2, 2, 3])),
        test=((images(4), np.array([0, 0, 1, 1])), (images(4), np.array([2, 2, 3, 3]))),
    )
    predicted = np.array([0, 0, 1, 3, 3, 3, 2, 2])

    def scores(source: ImageSource) -> dict[str, FloatArray | None]:
        assert len(source) == 8
        return {"fc": np.eye(4, dtype=np.float32)[predicted], "nme": None}

    learned = [SimpleNamespace(labels=np.array([0, 0, 1, 1])), SimpleNamespace(labels=np.array([3, 3, 3, 2]))]
    learner = cast(Learner, SimpleNamespace(scores=scores, learned=learned))
    step = Evaluator(truth, (2, 2), "fc", labels_given=False).score(learner, 2)
    best = max(np.mean(np.array(p)[predicted] == [0, 0, 1, 1, 2, 2, 3, 3]) for p in permutations(range(4)))
    assert step["acc"] == step["acc_fc"] == best == 7 / 8
    assert step["acc_plain"] == 3 / 8
    assert step["acc_trainmap"] == step["acc_anchored"] == 7 / 8
    assert step["per_task"] == [3 / 4, 1.0]
    assert step["acc_nme"] is None
    assert step["label_acc"] == 1.0
    assert step["label_sizes"] == [1, 3]
    given = Evaluator(truth, (2, 2), "fc", labels_given=True).score(learner, 2)
    assert given["label_acc"] is None


def test_summary_by_hand() -> None:
    steps: list[dict[str, Any]] = [
        {"acc": 0.9, "acc_plain": 0.9, "per_task": [0.9]},
        {"acc": 0.6, "acc_plain": 0.5, "per_task": [0.5, 0.7]},
        {"acc": 0.4, "acc_plain": 0.3, "per_task": [0.3, 0.3, 0.6]},
    ]
    found = summary(steps)
    assert found["avg"] == pytest.approx(0.5)
    assert found["avg_with_first"] == pytest.approx(1.9 / 3)
    assert found["last"] == 0.4
    assert found["avg_plain"] == pytest.approx(0.4)
    assert found["forgetting"] == pytest.approx(((0.9 - 0.3) + (0.7 - 0.3)) / 2)


def test_nearest_mean_by_hand() -> None:
    rng = np.random.default_rng(0)
    exemplars, labels = rng.normal(size=(12, 5)).astype(np.float32), np.repeat([0, 1, 3], 4)
    queries = rng.normal(size=(6, 5)).astype(np.float32)
    scores = nme_scores(queries, class_means(exemplars, labels, 4))
    for query, row in zip(queries, scores, strict=True):
        z = query / np.linalg.norm(query)
        for label in (0, 1, 3):
            unit = exemplars[labels == label] / np.linalg.norm(exemplars[labels == label], axis=1, keepdims=True)
            mean = unit.mean(axis=0)
            mean = mean / np.linalg.norm(mean)
            assert row[label] == pytest.approx(-np.sum((z - mean) ** 2), abs=1e-5)
        assert row[2] == -np.inf  # a class without exemplars is never the nearest
