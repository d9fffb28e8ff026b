"""The evaluator: the one place that knows the truth. What it finds goes into the scores and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.data.source import Concat
from whorl.data.stream import Truth
from whorl.engine import Learner
from whorl.metrics import curves
from whorl.metrics.match import contingency, match
from whorl.metrics.scores import LabelQuality, Scores, label_quality, score
from whorl.reporter import Record
from whorl.types import IntArray


class Evaluator:
    """Scores a learner after each task on the test images of all classes seen."""

    def __init__(self, truth: Truth, sizes: Sequence[int], classifier: str, labels_given: bool) -> None:
        self._truth, self._sizes = truth, tuple(sizes)
        self._classifier, self._given = classifier, labels_given

    def score(self, learner: Learner, task: int) -> Record:
        """The scores after task ``task``; ``acc`` and its company are those of the chosen classifier."""
        images = Concat([source for source, _ in self._truth.test[:task]])
        truth = np.concatenate([labels for _, labels in self._truth.test[:task]])
        sizes = self._sizes[:task]
        trainmap = np.concatenate([self._trainmap(j, learner.learned[j].labels) for j in range(task)])
        found = {
            rule: None if scores is None else score(scores, truth, sizes, trainmap)
            for rule, scores in learner.scores(images).items()
        }
        chosen = found[self._classifier]
        assert chosen is not None, "the config has been checked: nme needs a memory"
        return {
            "task": task,
            "classes": sum(sizes),
            **_plain(chosen),
            **{f"acc_{rule}": scores.acc if scores else None for rule, scores in found.items()},
            **self._labels(task - 1, learner.learned[task - 1].labels),
        }

    def _labels(self, index: int, learned: IntArray) -> Record:
        """How good the pseudo labels of a task were; nothing where the labels were given."""
        if self._given or index == 0:
            return {"label_acc": None}
        known, size = sum(self._sizes[:index]), self._sizes[index]
        quality = label_quality(learned - known, self._truth.train[index] - known, size, size)
        return {f"label_{name}": value for name, value in _plain(quality).items()}

    def _trainmap(self, index: int, learned: IntArray) -> IntArray:
        """The class of each id of a task, fixed on its training images (A22)."""
        known, size = sum(self._sizes[:index]), self._sizes[index]
        return match(contingency(learned - known, self._truth.train[index] - known, size, size)) + known


def _plain(scores: Scores | LabelQuality) -> Record:
    """The values as JSON gives them back, so that a stored record equals a new one."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(scores).items()}


def summary(steps: Sequence[Record]) -> Record:
    """One number each for a whole run."""
    if not steps:
        return {}
    accs, plain = [step["acc"] for step in steps], [step["acc_plain"] for step in steps]
    return {
        "avg": curves.avg(accs),
        "last": curves.last(accs),
        "avg_with_first": curves.avg_with_first(accs),
        "avg_plain": curves.avg(plain),
        "last_plain": curves.last(plain),
        "forgetting": curves.forgetting([step["per_task"] for step in steps]),
    }
