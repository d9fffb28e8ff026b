"""A method is a plan, not a loop: for a step it returns the phases that the engine then runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from whorl.config import OptimConfig, Section, TrainConfig, Tree
from whorl.data.source import Concat
from whorl.memory.memory import Memory
from whorl.nets.model import Model, Output
from whorl.types import ImageSource, IntArray


@dataclass(frozen=True)
class Samples:
    """Images and the labels to learn them with: true ones where they were granted, else pseudo labels."""

    images: ImageSource
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __add__(self, other: Samples) -> Samples:
        if len(other) == 0:
            return self
        return Samples(Concat([self.images, other.images]), np.concatenate([self.labels, other.labels]))


@dataclass(frozen=True)
class Batch:
    """What a loss sees: the augmented images, their labels, and what the student made of them."""

    images: Tensor
    labels: Tensor
    logits: Tensor
    features: Tensor


@dataclass(frozen=True)
class Phase:
    """A stretch of training: which samples, which loss, how long, how."""

    name: str
    data: Samples
    loss: Callable[[Batch], Tensor]
    epochs: int
    batch: int
    optim: OptimConfig


@dataclass(frozen=True)
class Step:
    """All that a method may see of one step of Algorithm 1."""

    task: int
    model: Model
    teacher: Callable[[Tensor], Output]
    """The model as it was before this step, frozen. In task 1, where there is none, it has no classes."""
    known: int
    """m, the classes known before this step."""
    new: Samples
    memory: Memory
    past: tuple[Samples, ...]
    """Everything learned from so far; filled only for a method that declares ``needs_past``."""
    train: TrainConfig
    optim: OptimConfig

    @property
    def exemplars(self) -> Samples:
        """The memory's images with the labels stored beside them."""
        return Samples(self.memory.source, self.memory.labels)

    def phase(self, name: str, data: Samples, loss: Callable[[Batch], Tensor]) -> Phase:
        """A phase with the recipe's length and optimiser."""
        epochs = self.train.first_epochs if self.task == 1 else self.train.epochs
        return Phase(name, data, loss, epochs, self.train.batch, self.optim)


class Method(Section, ABC):
    """Subclass, give a ``name``, write ``plan``. Everything else has a default.

    A method's own constants are its fields; ``--set method.KEY=VALUE`` changes them.
    """

    name: ClassVar[str]
    head: ClassVar[str] = "linear"
    final_relu: ClassVar[bool] = True
    classifier: ClassVar[str] = "fc"
    needs_memory: ClassVar[bool] = True
    needs_past: ClassVar[bool] = False

    @abstractmethod
    def plan(self, step: Step) -> Iterable[Phase]:
        """The phases of one step, in order. A generator may build a later phase from what an earlier one left."""

    @classmethod
    def defaults(cls, recipe: str) -> Tree:
        """What this method changes in a recipe."""
        memory = {} if cls.needs_memory else {"memory": {"quota": 0}}
        return {"net": {"head": cls.head, "final_relu": cls.final_relu}, "classifier": cls.classifier, **memory}
