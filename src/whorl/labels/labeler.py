"""Lines 6 to 8 of Algorithm 1: what is clustered into pseudo labels, and how long they hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whorl.cluster import Clusterer
from whorl.config import Config
from whorl.data.augment import Augment
from whorl.data.stream import Task
from whorl.labels.pixels import principal_components
from whorl.metrics.match import aligned
from whorl.nets.extract import extract
from whorl.nets.model import Model
from whorl.runtime import Runtime
from whorl.seeds import derive
from whorl.types import HIDDEN, FloatArray, ImageSource, IntArray, granted


@dataclass
class Labeler:
    """Features × clusterer × refresh: the labels that a task is learned with."""

    config: Config
    augment: Augment
    runtime: Runtime
    clusterer: Clusterer

    def labels(self, task: Task, current: Model, first: Model) -> IntArray:
        """The task's own labels where they are granted, else clusters, offset by the classes ``current`` knows.

        ``current`` is the model after the last task and ``first`` the one after task 1, both frozen.
        """
        if task.labels is not HIDDEN:
            return granted(task.labels)
        groups = self._groups(
            self._look(task.images, current, first), task, derive(self.config.seed, "cluster", task.index)
        )
        return np.asarray(groups + current.classes, dtype=np.int64)

    def due(self, task: Task, done: int, epochs: int) -> bool:
        """Whether the labels are to be made anew after ``done`` of the first phase's epochs (UPL-K)."""
        every = self.config.pseudo.refresh
        return task.labels is HIDDEN and every > 0 and done % every == 0 and done < epochs

    def again(self, task: Task, labels: IntArray, model: Model, done: int) -> IntArray:
        """The labels made anew with the model as it is (frozen), under the names the config asks for (A30)."""
        features = extract(model, task.images, self.augment, self.runtime)
        groups = self._groups(features, task, derive(self.config.seed, "cluster", task.index, done))
        known = model.classes - task.classes
        if self.config.pseudo.ids == "aligned":
            groups = aligned(groups, labels - known, task.classes)
        return np.asarray(groups + known, dtype=np.int64)

    def _groups(self, features: FloatArray, task: Task, seed: int) -> IntArray:
        return self.clusterer.fit_predict(features, task.classes, seed).labels

    def _look(self, images: ImageSource, current: Model, first: Model) -> FloatArray:
        """What pseudo labels are made from."""
        kind, seed = self.config.pseudo.features, self.config.seed
        if kind == "pca":
            return principal_components(images, self.augment, current.backbone.dim, seed)
        if kind == "scratch":
            net = self.config.net
            random = Model(net.arch, net.head, net.final_relu, derive(seed, "scratch"))
            return extract(self.runtime.place(random).frozen(), images, self.augment, self.runtime)
        return extract(first if kind == "first" else current, images, self.augment, self.runtime)
