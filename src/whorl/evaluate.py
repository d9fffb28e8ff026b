"""The evaluator: the only place that knows the true labels. Its results go into the scores and nowhere else.

The one exception is declared: with ``labels=corrupted``, the learner receives what :meth:`Evaluator.corrupted` returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.classifier import Classifier
from whorl.data.source import Concat
from whorl.data.stream import Truth
from whorl.labels.corrupt import corrupted
from whorl.metrics.match import contingency, match
from whorl.metrics.scores import label_quality, score
from whorl.scores import TaskScores
from whorl.types import IntArray, Labelling


class Evaluator:
    """Scores a classifier after each task on the test samples of all classes so far."""

    def __init__(self, truth: Truth, sizes: Sequence[int], labels_given: bool) -> None:
        self._truth, self._sizes, self._given = truth, tuple(sizes), labels_given

    def score(self, classifier: Classifier, learned: Sequence[IntArray]) -> TaskScores:
        """The scores after the tasks that were ``learned`` with these labels; ``acc`` is that of the chosen rule."""
        task = len(learned)
        images = Concat([source for source, _ in self._truth.test[:task]])
        truth = np.concatenate([labels for _, labels in self._truth.test[:task]])
        sizes = self._sizes[:task]
        trainmap = np.concatenate([self._trainmap(j, learned[j]) for j in range(task)])
        found = {rule: score(each, truth, sizes, trainmap) for rule, each in classifier.scores(images).items()}
        chosen = vars(found[classifier.rule])
        accs = {f"acc_{rule}": scores.acc for rule, scores in found.items()}
        labels = self._label_quality(task - 1, learned[-1])
        return TaskScores.model_validate({"task": task, "classes": sum(sizes), **chosen, **accs, **labels})

    def corrupted(self, task: int, clustered: Labelling, accuracy: float, seed: int) -> IntArray:
        """Labels of this accuracy for a task, confused as its clusters are (see :mod:`whorl.labels.corrupt`)."""
        known = clustered.known
        truth = self._truth.train[task - 1] - known
        return corrupted(truth, clustered.ids - known, clustered.new, accuracy, seed) + known

    def _label_quality(self, index: int, learned: IntArray) -> dict[str, object]:
        """How good the pseudo labels of a task were; nothing if its labels were given."""
        if self._given or index == 0:
            return {}
        ids, classes = self._compared(index, learned)
        quality = label_quality(ids, classes, self._sizes[index], int(classes.max()) + 1)
        return {f"label_{name}": value for name, value in vars(quality).items()}

    def _trainmap(self, index: int, learned: IntArray) -> IntArray:
        """The class matched to each new id of a task on its training samples (docs/protocol.md, A22)."""
        known, size = sum(self._sizes[:index]), self._sizes[index]
        inside = (learned >= known) & (self._truth.train[index] >= known)
        ids, classes = learned[inside] - known, self._truth.train[index][inside] - known
        return match(contingency(ids, classes, size, size)) + known

    def _compared(self, index: int, learned: IntArray) -> tuple[IntArray, IntArray]:
        """Ids and true classes of a task's samples of new ids, both counted from 0.

        True classes are the task's own; known classes among them come after those.
        """
        known, size = sum(self._sizes[:index]), self._sizes[index]
        inside = learned >= known
        truth = self._truth.train[index][inside] - known
        return learned[inside] - known, np.where(truth < 0, size - 1 - truth, truth)
