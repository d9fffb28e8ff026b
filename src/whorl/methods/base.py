"""A method is a plan, not a loop: for a step it returns the phases that the engine then runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from whorl.config import Config, OptimConfig, Section, TrainConfig, Tree
from whorl.data.augment import Augment
from whorl.data.source import Concat, Subset
from whorl.errors import WhorlError
from whorl.memory.memory import Memory
from whorl.nets.model import Model, Output
from whorl.types import FloatArray, ImageSource, IntArray


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
        if len(self) == 0:
            return other
        return Samples(Concat([self.images, other.images]), np.concatenate([self.labels, other.labels]))

    def __getitem__(self, indices: IntArray) -> Samples:
        """Some of the samples, in the order of ``indices``."""
        return Samples(Subset(self.images, indices), self.labels[indices])

    def without(self, indices: IntArray) -> Samples:
        """All others."""
        return self[np.setdiff1d(np.arange(len(self)), indices)] if len(indices) else self


@dataclass(frozen=True)
class Batch:
    """What a loss sees: the augmented images, their labels, and what the student made of them."""

    images: Tensor
    labels: Tensor
    logits: Tensor
    features: Tensor
    number: int = 0
    """Its place in the epoch."""


Loss = Callable[[Batch], Tensor]
Look = Callable[[Tensor], Output]
H = TypeVar("H", bound=nn.Module)


@dataclass(frozen=True)
class Phase:
    """A stretch of training: which samples, which loss, how long, how."""

    name: str
    data: Samples
    loss: Loss
    epochs: int
    batch: int
    optim: OptimConfig
    augment: Augment | None = None
    """Views other than those the config asks for."""
    trains: Sequence[nn.Parameter] | None = None
    """The parameters that learn, where it is not all of them."""
    mode: Literal["train", "eval"] = "train"
    """``eval`` keeps batch norm at its running statistics."""
    batches: Callable[[torch.Generator], list[IntArray]] | None = None
    """The batches of an epoch as positions in ``data``, where it is not a shuffled pass."""
    noise: Callable[[int, int], float] | None = None
    """(epoch, images in the batch) → standard deviation of noise on the gradient."""
    after: Callable[[Batch], None] | None = None
    """Called after each update, to bring parameters back to where they may be or to keep a running value."""
    rate_key: str = "optim.lr"
    """What sets the rate, for telling a user whose training diverged."""


@dataclass(frozen=True)
class Step:
    """All that a method may see of one step of Algorithm 1."""

    task: int
    sizes: tuple[int, ...]
    """How many classes each task brought, the new one included."""
    model: Model
    teacher: Look
    """The model as it was before this step, frozen. In task 1, where there is none, it has no classes."""
    new: Samples
    exemplars: Samples
    """The memory's images with the labels stored beside them."""
    validation: Samples
    """Samples of all classes that are never trained on; filled only for a method that holds some out."""
    memory: Memory
    past: tuple[Samples, ...]
    """Everything learned from so far; filled only for a method that declares ``needs_past``."""
    train: TrainConfig
    optim: OptimConfig
    augment: Augment
    seed: int
    """For what a method draws itself; another one for each task."""
    features: Callable[[ImageSource], FloatArray]
    """Images as the model sees them at this moment."""
    freeze: Callable[[], Look]
    """The model as it is at this moment, for distilling from it later in the step."""

    @property
    def known(self) -> int:
        """m, the classes known before this step."""
        return sum(self.sizes[:-1])

    def head(self, kind: type[H]) -> H:
        """The model's head, which :meth:`Method.check` has made sure is of this kind."""
        assert isinstance(self.model.head, kind)
        return self.model.head

    def phase(self, name: str, data: Samples, loss: Loss) -> Phase:
        """A phase with the recipe's length and optimiser."""
        epochs = self.train.first_epochs if self.task == 1 else self.train.epochs
        return Phase(name, data, loss, epochs, self.train.batch, self.optim)


@dataclass(frozen=True)
class Setting:
    """What a method's defaults may depend on."""

    recipe: str
    data: str
    options: Mapping[str, Any]
    """What the user set of the method's own options, not checked yet."""

    @property
    def imagenet(self) -> bool:
        """Whether the constants for ImageNet apply; other data get those for CIFAR."""
        return self.data in ("imagenet", "imagenet100")


@dataclass(frozen=True)
class Load:
    """How much a step has to learn from, as far as that is known beforehand."""

    task: int
    known: int
    classes: int
    new: int
    replayed: int
    augment: Augment

    @property
    def balanced(self) -> int:
        """The exemplars and as many images of each new class."""
        return self.replayed * (self.known + self.classes) // max(self.known, 1)


PLAIN_FIRST_TASK: Tree = {"loss": "cross-entropy"}
"""``first_task`` of methods that begin with Eq. 2 alone, whatever they do later."""


class Method(Section, ABC):
    """Subclass, give a ``name``, write ``plan``. Everything else has a default.

    A method's own constants are its fields; ``--set method.KEY=VALUE`` changes them.
    """

    name: ClassVar[str]
    head: ClassVar[str] = "linear"
    heads: ClassVar[tuple[str, ...]] = ("linear", "linear-nobias", "cosine")
    """The heads it can work with."""
    final_relu: ClassVar[bool] = True
    classifier: ClassVar[str] = "fc"
    needs_memory: ClassVar[bool] = True
    needs_past: ClassVar[bool] = False
    online: ClassVar[bool] = False
    """Whether each new image is seen once only, so that later tasks have no epochs."""

    def prepare(self, step: Step) -> None:
        """What is done to the grown model before the first phase."""

    @abstractmethod
    def plan(self, step: Step) -> Iterable[Phase]:
        """The phases of one step, in order. A generator may build a later phase from what an earlier one left."""

    def settle(self, step: Step) -> dict[str, float]:
        """What is done to the model after the last phase, before anyone uses it; returns values for the scores."""
        return {}

    @property
    def hold_out_every(self) -> int:
        """k, where every k-th exemplar of a class is kept for validation and never trained on; 0: none is."""
        return 0

    @property
    def first_task(self) -> Tree:
        """What of the method task 1 is trained by. Methods that return the same share a first task.

        One that writes its own says thereby that task 1 depends neither on later epochs nor on the memory's size.
        """
        return {"name": self.name, **self.model_dump(mode="json")}

    def passes(self, train: TrainConfig, load: Load) -> int:
        """About how many images a step will push through training: what the time left is told from."""
        return (train.first_epochs if load.task == 1 else train.epochs) * (load.new + load.replayed)

    def check(self, config: Config, sizes: Sequence[int]) -> None:
        """Raise where the config does not suit the method. ``sizes`` is empty as long as the data are not loaded."""
        if self.needs_memory and config.memory.quota == 0:
            raise WhorlError(
                f"{self.name} rehearses exemplars and cannot do without; set --quota to 1 or more "
                "(finetune and lwf keep none)"
            )
        if config.net.head not in self.heads:
            raise WhorlError(f"{self.name} works with net.head {' or '.join(self.heads)}, not {config.net.head}")

    @classmethod
    def defaults(cls, setting: Setting) -> Tree:
        """What this method changes in a recipe."""
        memory = {} if cls.needs_memory else {"memory": {"quota": 0}}
        return {"net": {"head": cls.head, "final_relu": cls.final_relu}, "classifier": cls.classifier, **memory}
