"""The interface of methods: for each step a method returns a plan, a list of phases that the engine trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from whorl.config import LearnerConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.errors import WhorlError
from whorl.memory.memory import Memory
from whorl.nets.asides import Aside, asides_of, views_per_image
from whorl.nets.model import Model, Output
from whorl.sections import OptimConfig, Section, TrainConfig
from whorl.tree import Tree
from whorl.types import FloatArray, ImageSource, IntArray, Labelling

__all__ = ["Batch", "Conditions", "Load", "Loss", "Method", "Phase", "Samples", "Step", "Teacher"]


@dataclass(frozen=True)
class Batch:
    """What a loss receives: the prepared inputs, their labels, and the model's output for them."""

    images: Tensor
    labels: Tensor
    logits: Tensor
    features: Tensor
    number: int = 0
    """Position of the batch in the epoch."""


Loss = Callable[[Batch], Tensor]
Teacher = Callable[[Tensor], Output]
"""A frozen model: prepared inputs → logits and features."""
H = TypeVar("H", bound=nn.Module)


@dataclass(frozen=True)
class Phase:
    """A part of a step's training: which samples, which loss, how long, and how."""

    name: str
    data: Samples
    loss: Loss
    epochs: int
    batch: int
    optim: OptimConfig
    inputs: Inputs | None = None
    """Other random views than those of the config."""
    trains: Sequence[nn.Parameter] | None = None
    """The parameters to train; None trains all of them."""
    mode: Literal["train", "eval"] = "train"
    """``eval`` keeps batch norm at its running statistics."""
    batches: Callable[[torch.Generator], list[IntArray]] | None = None
    """The batches of an epoch as positions in ``data``; None shuffles all samples."""
    noise: Callable[[int, int], float] | None = None
    """(epoch, images in the batch) → standard deviation of Gaussian noise added to the gradient."""
    after: Callable[[Batch], None] | None = None
    """Called after each update, for instance to project parameters or to update running statistics."""
    sizes: tuple[float, ...] = ()
    """Sides of the images in successive parts of the phase, as shares of the full side; empty for full images."""
    asides: tuple[Aside, ...] = ()
    """Further tasks on views of each batch, whose losses are added."""
    rate_key: str = "optim.lr"
    """The config key that sets the learning rate, named in the error if training diverges."""

    def share(self, epoch: int) -> float:
        """The side of the images in an epoch as a share of the full side; the last epoch has full images."""
        left = (self.epochs - 1 - epoch) * len(self.sizes) // max(self.epochs, 1)
        return self.sizes[len(self.sizes) - 1 - left] if self.sizes else 1.0


@dataclass(frozen=True)
class Step:
    """Everything a method may use in one step of Algorithm 1."""

    number: int
    """Which delivery this is, counted from 1."""
    sizes: tuple[int, ...]
    """The number of new classes of each delivery, including this one."""
    labelling: Labelling
    """The labels of all samples of this delivery, and which of them are new classes."""
    model: Model
    teacher: Teacher
    """The frozen model from before this step. In the initial step it has no classes."""
    new: Samples
    """The samples of this delivery. They may include known classes."""
    exemplars: Samples
    """The stored exemplars with their labels."""
    validation: Samples
    """Samples of all classes that are never trained on. Empty unless the method holds some out."""
    memory: Memory
    past: tuple[Samples, ...]
    """All samples learned so far. Empty unless the method declares ``needs_past``."""
    train: TrainConfig
    optim: OptimConfig
    inputs: Inputs
    seed: int
    """For random numbers the method draws itself; different for each step."""
    features: Callable[[ImageSource], FloatArray]
    """The features of samples by the model as it is now."""
    freeze: Callable[[], Teacher]
    """A frozen copy of the model as it is now, to distil from later in the step."""

    @property
    def initial(self) -> bool:
        """Whether this is the first step: the teacher has no classes yet, and the memory is empty."""
        return self.number == 1

    @property
    def known(self) -> int:
        """m, the number of classes known before this step."""
        return self.labelling.known

    @property
    def alpha(self) -> float:
        """The weight of distillation in Eq. 3: the share of classes that have no samples in this delivery.

        Where a delivery holds only new classes, as in the paper, this is m / (m + n).
        """
        total = self.known + self.labelling.new
        return (total - self.delivered) / total

    @property
    def delivered(self) -> int:
        """The number of classes with samples in this delivery; n of the paper, where all of them are new."""
        return len(self.labelling.classes)

    def head(self, kind: type[H]) -> H:
        """The model's head, which :meth:`Method.check` has verified to be of this kind."""
        assert isinstance(self.model.head, kind)
        return self.model.head

    def phase(self, name: str, data: Samples, loss: Loss) -> Phase:
        """A phase with the recipe's epochs, batch size and optimiser."""
        epochs = self.train.first_epochs if self.initial else self.train.epochs
        asides = asides_of(self.model, self.inputs)
        return Phase(name, data, loss, epochs, self.train.batch, self.optim, sizes=self.train.sizes, asides=asides)


@dataclass(frozen=True)
class Conditions:
    """The properties that a method's defaults may depend on."""

    recipe: str
    size: int
    """Side of the images in pixels, or length of the vectors."""
    photos: bool = False
    """Whether the samples are photos; else they are small images or vectors."""
    vectors: bool = False
    classes: int | None = None
    """The total number of classes to expect, if that is known."""
    options: Mapping[str, Any] | None = None
    """The method's options that the user has set, not validated."""
    pretrained: bool = False
    """Whether the network brings weights along, as one of a user or of another library does."""

    def option(self, name: str, default: Any) -> Any:
        """An option of the method as the user set it, else ``default``."""
        return (self.options or {}).get(name, default)


@dataclass(frozen=True)
class Load:
    """The number of samples in a step, as far as it is known in advance."""

    number: int
    known: int
    new_classes: int
    new: int
    replayed: int
    inputs: Inputs

    @property
    def balanced(self) -> int:
        """The number of exemplars, plus as many samples of each new class."""
        return self.replayed * (self.known + self.new_classes) // max(self.known, 1)


PLAIN_TASK1: Tree = {"loss": "cross-entropy"}
"""``task1`` of methods that train the initial step with Eq. 2 alone."""


class Method(Section, ABC):
    """Base class of methods. A subclass needs a ``name`` and a ``plan``; everything else has a default.

    The constants of a method are its fields. They can be set as ``method.KEY`` in a config.
    """

    name: ClassVar[str]
    head: ClassVar[str] = "linear"
    heads: ClassVar[tuple[str, ...]] = ("linear", "linear-nobias", "cosine")
    """The heads the method can work with."""
    final_relu: ClassVar[bool] = True
    classifier: ClassVar[str] = "fc"
    needs_memory: ClassVar[bool] = True
    needs_past: ClassVar[bool] = False
    online: ClassVar[bool] = False
    """Whether every new sample is used once, so that steps after the initial one have no epochs to set."""

    def prepare(self, step: Step) -> None:
        """Change the grown model before the first phase, for instance to imprint rows of the head."""

    @abstractmethod
    def plan(self, step: Step) -> Iterable[Phase]:
        """The phases of one step, in order. A generator can build a phase from the result of an earlier one."""

    def settle(self, step: Step) -> dict[str, float]:
        """Change the model after the last phase, before it is evaluated; returns values to store with the scores."""
        return {}

    @property
    def hold_out_every(self) -> int:
        """k, to keep every k-th exemplar of a class for validation and never train on it; 0 keeps none."""
        return 0

    @property
    def task1(self) -> Tree:
        """The settings of the method that training on task 1 depends on. Runs in which they agree share task 1.

        By default these are the name and all options, and task 1 is also taken to depend on the epochs of later tasks
        and on the size of the memory. A method that overrides this states that task 1 depends on neither.
        """
        return {"name": self.name, **self.model_dump(mode="json")}

    def passes(self, train: TrainConfig, load: Load) -> int:
        """An estimate of how many images a step trains on in all epochs, with further views; used for the time left."""
        initial = load.number == 1
        epochs = train.first_epochs if initial else train.epochs
        return round(views_per_image(train.asides(initial)) * epochs * (load.new + load.replayed))

    def check(self, config: LearnerConfig, sizes: Sequence[int], labelled: bool) -> None:
        """Raise a ``WhorlError`` if the config does not suit the method.

        ``sizes`` are the numbers of new classes per delivery as far as they are known, ``labelled`` is whether all
        deliveries have labels.
        """
        if self.needs_memory and config.memory.quota == 0:
            raise WhorlError(
                f"{self.name} needs exemplars; set `memory.quota` to 1 or more (finetune and lwf work without any)"
            )
        if config.net.head not in self.heads:
            raise WhorlError(f"{self.name} works with `net.head` {' or '.join(self.heads)}, not {config.net.head}")

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The config values that this method changes in a recipe."""
        memory = {} if cls.needs_memory else {"memory": {"quota": 0}}
        return {"net": {"head": cls.head, "final_relu": cls.final_relu}, "classifier": cls.classifier, **memory}
