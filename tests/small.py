"""Learners that are small enough to train within a test, and the deliveries of a small data set."""

from __future__ import annotations

from typing import Any

from whorl.config import LearnerConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.data.stream import Stream, class_incremental
from whorl.engine import Learner
from whorl.nets.backbone import Backbone
from whorl.recipes import resolve_learner
from whorl.reporter import Silent
from whorl.runtime import Runtime
from whorl.tree import Tree, merge

SMALL: Tree = {
    "train": {"first_epochs": 2, "epochs": 2, "batch": 16},
    "cluster": {"restarts": 2},
    "memory": {"quota": 4},
}


def small_config(inputs: Inputs, **changes: Any) -> LearnerConfig:
    """Two epochs per delivery and four exemplars per class; in the names of ``changes``, a dot is ``__``."""
    asked = merge({"net": {"arch": "tiny"}} if inputs.kind == "images" else {}, SMALL)
    for dotted, value in changes.items():
        tree: Any = value
        for part in reversed(dotted.split("__")):
            tree = {part: tree}
        asked = merge(asked, tree)
    return resolve_learner(asked, inputs)


def small_learner(data: Dataset, backbone: Backbone | None = None, **changes: Any) -> Learner:
    """A learner for the inputs of ``data``."""
    return Learner(small_config(data.inputs, **changes), data.inputs, Runtime(), backbone)


def deliveries(data: Dataset, labels_given: bool = False) -> Stream:
    """The classes of ``data``, two at a time."""
    return class_incremental(data, (2,) * (len(data.class_names) // 2), "natural", labels_given)[0]


def learn(learner: Learner, stream: Stream) -> None:
    """Learn all deliveries."""
    for delivery in stream:
        for _ in learner.learn(delivery, Silent()):
            pass
