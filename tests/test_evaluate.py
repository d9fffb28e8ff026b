"""The evaluator against predictions made up by hand, and nearest-mean classification."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from whorl.classifier import Classifier
from whorl.data.source import ArraySource
from whorl.data.stream import Truth
from whorl.evaluate import Evaluator
from whorl.memory.nme import class_means, nme_scores
from whorl.scores import Summary, TaskScores
from whorl.types import FloatArray, ImageSource


def images(n: int) -> ArraySource:
    return ArraySource(torch.zeros(n, 8, 8, 3, dtype=torch.uint8))


TRUTH = Truth(
    names=("a", "b", "c", "d"),
    train=(np.array([0, 0, 1, 1]), np.array([2, 2, 2, 3])),
    test=((images(4), np.array([0, 0, 1, 1])), (images(4), np.array([2, 2, 3, 3]))),
)


def answering(rule: str = "fc", **predicted: list[int]) -> Classifier:
    """A classifier with these answers for eight test samples, by rule."""

    def scores(source: ImageSource) -> dict[str, FloatArray]:
        assert len(source) == 8
        return {name: np.eye(4, dtype=np.float32)[answers] for name, answers in predicted.items()}

    return cast(Classifier, SimpleNamespace(scores=scores, rule=rule))


def test_scores_of_a_classifier_that_swapped_two_ids() -> None:
    """The ids of task 2 are swapped in training and in test: ACC does not mind, plain accuracy does."""
    predicted = [0, 0, 1, 3, 3, 3, 2, 2]
    learned = [np.array([0, 0, 1, 1]), np.array([3, 3, 3, 2])]
    step = Evaluator(TRUTH, (2, 2), labels_given=False).score(answering(fc=predicted), learned)
    best = max(np.mean(np.array(p)[predicted] == [0, 0, 1, 1, 2, 2, 3, 3]) for p in permutations(range(4)))
    assert (step.task, step.classes) == (2, 4)
    assert step.acc == step.acc_fc == best == 7 / 8
    assert step.acc_plain == 3 / 8
    assert step.acc_trainmap == step.acc_anchored == 7 / 8
    assert step.per_task == (3 / 4, 1.0)
    assert step.acc_nme is None
    assert step.acc_ncm is None
    assert step.label_acc == 1.0
    assert step.label_sizes == (1, 3)
    given = Evaluator(TRUTH, (2, 2), labels_given=True).score(answering(fc=predicted), learned)
    assert given.label_acc is None
    assert given.acc == step.acc


@pytest.mark.parametrize("rule", ["fc", "nme"])
def test_the_chosen_rule_decides_and_all_are_scored(rule: str) -> None:
    right, half = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 2, 2, 2, 2]
    learned = [np.array([0, 0, 1, 1]), np.array([2, 2, 2, 3])]
    step = Evaluator(TRUTH, (2, 2), True).score(answering(rule, fc=right, nme=half, ncm=half), learned)
    assert (step.acc_fc, step.acc_nme, step.acc_ncm) == (1.0, 0.5, 0.5)
    assert step.acc == (1.0 if rule == "fc" else 0.5)


def test_only_the_test_samples_of_learned_tasks_count() -> None:
    def scores(source: ImageSource) -> dict[str, FloatArray]:
        assert len(source) == 4
        return {"fc": np.eye(2, dtype=np.float32)[[0, 0, 1, 0]]}

    classifier = cast(Classifier, SimpleNamespace(scores=scores, rule="fc"))
    step = Evaluator(TRUTH, (2, 2), False).score(classifier, [np.array([0, 0, 1, 1])])
    assert (step.task, step.classes, step.acc, step.per_task) == (1, 2, 0.75, (0.75,))
    assert step.label_acc is None  # task 1 has labels


def test_deliveries_with_known_classes() -> None:
    """Task 2 brings classes 2 and 3, and samples of class 0, which are clustered with the new ones.

    Of its six samples, ids 2 and 3 hold {2, 2, 0} and {3, 3, 0}. With the best matching, four labels are right. The
    mapping from the training samples ignores those of class 0.
    """
    truth = Truth(TRUTH.names, (TRUTH.train[0], np.array([2, 2, 0, 3, 3, 0])), TRUTH.test)
    learned = [np.array([0, 0, 1, 1]), np.array([3, 3, 3, 2, 2, 2])]
    step = Evaluator(truth, (2, 2), False).score(answering(fc=[0, 0, 1, 1, 3, 3, 2, 2]), learned)
    assert step.label_acc == 4 / 6
    assert step.label_sizes == (3, 3)
    assert step.acc_trainmap == 1.0


def test_given_labels_of_known_classes_are_not_part_of_the_mapping() -> None:
    truth = Truth(TRUTH.names, (TRUTH.train[0], np.array([0, 2, 3, 1])), TRUTH.test)
    learned = [np.array([0, 0, 1, 1]), np.array([0, 2, 3, 1])]
    step = Evaluator(truth, (2, 2), True).score(answering(fc=[0, 0, 1, 1, 2, 2, 3, 3]), learned)
    assert (step.acc, step.acc_trainmap, step.label_acc) == (1.0, 1.0, None)


def test_summary_by_hand() -> None:
    steps = (
        TaskScores(task=1, classes=2, acc=0.9, acc_plain=0.9, per_task=(0.9,)),
        TaskScores(task=2, classes=4, acc=0.6, acc_plain=0.5, per_task=(0.5, 0.7)),
        TaskScores(task=3, classes=6, acc=0.4, acc_plain=0.3, per_task=(0.3, 0.3, 0.6)),
    )
    found = Summary.of(steps)
    assert found.avg == pytest.approx(0.5)
    assert found.avg_with_first == pytest.approx(1.9 / 3)
    assert found.last == 0.4
    assert found.avg_plain == pytest.approx(0.4)
    assert found.last_plain == 0.3
    assert found.forgetting == pytest.approx(((0.9 - 0.3) + (0.7 - 0.3)) / 2)
    assert Summary.of(()) == Summary()
    assert Summary.of((steps[0], TaskScores(task=2, classes=4))).avg is None


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
