"""The sections of a config: every choice is a named value with a type, a range and a default."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from whorl.tree import Tree

MOST_EPOCHS, MOST_CLASSES, MOST_IMAGES, MOST_PIXELS = 1_000_000, 100_000, 1_000_000_000, 16_384
MOST_NETWORKS = 100
"""Upper limits of config values. Larger ones are typos, and no computer could run them."""
MOST_RATE = 1e30
"""The largest learning rate and weight decay; larger ones do not fit in a float of 32 bits."""
_INT64 = 2**63 - 1


class Section(BaseModel):
    """A frozen section of a config in which unknown keys are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: object, info: ValidationInfo) -> object:
        """Refuse ``true`` as a number, which pydantic takes for 1, and integers that no file format can store."""
        wanted = str(cls.model_fields[info.field_name or ""].annotation)
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, bool) and "bool" not in wanted and ("int" in wanted or "float" in wanted):
                raise PydanticCustomError("not_a_number", "must be a number")
            if isinstance(each, int) and abs(each) > _INT64:
                raise PydanticCustomError("too_large", f"must be at most {_INT64}")
        return value


class DataConfig(Section):
    """Which data. Their content is part of a run's identity, the folder they are stored in is not."""

    name: str
    resize: int | None = Field(None, ge=8, le=MOST_PIXELS)
    per_class: int | None = Field(None, ge=1, le=MOST_IMAGES)
    classes: int | None = Field(None, ge=1, le=MOST_CLASSES)
    subset: str = "S1"
    fingerprint: str = ""


class StreamConfig(Section):
    """How the classes arrive."""

    step: int = Field(ge=1, le=MOST_CLASSES)
    first: int | None = Field(None, ge=1, le=MOST_CLASSES)
    tasks: int | None = Field(None, ge=1, le=MOST_CLASSES)
    order: str | tuple[int, ...] = "natural"


class NetConfig(Section):
    """Backbone and head."""

    arch: str
    head: str
    final_relu: bool
    tune: Literal["none", "last", "all"] = "all"
    """What of the backbone is trained: nothing (its features of each image are computed once), its last part, or
    all."""
    size: int | None = Field(None, ge=8, le=MOST_PIXELS)
    """Side to which a pretrained network scales the images, if not the one in its own config."""
    fingerprint: str = ""
    """Identifies the weights of a pretrained network."""


class TrainConfig(Section):
    """Epochs, batch size and random views of training."""

    first_epochs: int = Field(ge=0, le=MOST_EPOCHS)
    epochs: int = Field(ge=0, le=MOST_EPOCHS)
    batch: int = Field(ge=2, le=MOST_IMAGES)
    augment: str = "auto"
    """The random view by name; ``auto`` takes the one that suits the data."""
    sizes: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Sides of the images in successive parts of a phase, as shares of the full side, for instance 0.5, 0.75, 1.
    Smaller images train faster. Empty trains on full images throughout."""
    rotations: Literal["never", "initial", "always"] = "never"
    """Also classify half of each batch rotated by 90, 180 or 270 degrees, as classes of their own: in the initial task
    or in every task."""

    contrast: Literal["never", "initial", "always"] = "never"
    """Also recognise two strongly changed views of each image among those of a batch: in the initial task or in every
    task."""

    def asides(self, initial: bool) -> tuple[str, ...]:
        """The names of the further tasks that a task, the ``initial`` or a later one, is trained with."""
        asked = {"rotations": self.rotations, "contrast": self.contrast}
        return tuple(name for name, when in asked.items() if when == "always" or (initial and when == "initial"))

    @property
    def pixels(self) -> float:
        """The mean number of pixels of an image over a phase, as a share of the full number."""
        return sum(size**2 for size in self.sizes) / len(self.sizes) if self.sizes else 1.0

    @field_validator("sizes")
    @classmethod
    def _growing(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if sizes and (sizes[-1] != 1 or any(after < before for before, after in pairwise(sizes))):
            raise PydanticCustomError("sizes", "must be shares in ascending order, the last of them 1")
        return sizes


class OptimConfig(Section):
    """The optimiser and its learning rate over a phase."""

    name: Literal["sgd", "adamw"] = "sgd"
    """``adamw`` ignores ``momentum`` and ``nesterov`` and uses betas of 0.9 and 0.999."""
    lr: float = Field(gt=0, le=MOST_RATE)
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0, le=MOST_RATE)
    schedule: Literal["steps", "onecycle", "constant"] = "steps"
    milestones: tuple[int, ...] = ()
    gamma: float = Field(0.1, gt=0)
    first_milestones: tuple[int, ...] | None = None
    """Milestones for the initial task, if different."""
    first_weight_decay: float | None = Field(None, ge=0, le=MOST_RATE)
    """Weight decay for the initial task, if different."""
    decay_by_task: bool = False
    """Divide the weight decay by the number of the task, as WA and BiC do."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimConfig:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0; set `optim.nesterov=false` as well")
        return self

    @field_validator("milestones", "first_milestones")
    @classmethod
    def _ascending(cls, epochs: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if epochs and (epochs[0] < 0 or any(after < before for before, after in pairwise(epochs))):
            raise PydanticCustomError("milestones", "must be epochs in ascending order")
        return epochs

    def at(self, task: int) -> OptimConfig:
        """The optimiser for one task, with every value that depends on the task resolved."""
        milestones, decay = self.milestones, self.weight_decay
        if task == 1 and self.first_milestones is not None:
            milestones = self.first_milestones
        if task == 1 and self.first_weight_decay is not None:
            decay = self.first_weight_decay
        if self.decay_by_task:
            decay /= task
        plain: Tree = {"first_milestones": None, "first_weight_decay": None, "decay_by_task": False}
        return self.model_copy(update={**plain, "milestones": milestones, "weight_decay": decay})


class ClusterConfig(Section):
    """The clustering algorithm that makes pseudo labels."""

    name: str = "kmeans"
    restarts: int = Field(10, ge=1, le=10_000)
    iterations: int = Field(300, ge=1, le=1_000_000)
    tolerance: float = Field(1e-4, ge=0)
    l2: bool = False


class PseudoConfig(Section):
    """Which features are clustered into pseudo labels, and how often (the paper's ablations)."""

    transform: Literal["none", "root", "turns"] = "none"
    """``root``: features averaged with those of the mirror images, then their square roots, scaled to unit length.
    ``turns``: the same for each image turned by 0, 90, 180 and 270 degrees, side by side."""
    features: str = "current"
    """The extractor: ``current`` (the last model, as in the paper), ``first`` (the model after the initial task),
    ``networks`` (those below), ``scratch`` (a random network) or ``pca`` (principal components of the inputs)."""
    networks: int = Field(0, ge=0, le=MOST_NETWORKS)
    """How many networks are trained on the initial task for pseudo labels alone. Their features are clustered side by
    side."""
    arch: str = "auto"
    """The architecture of these networks. ``auto`` is a wide ResNet-14 in place of ResNet-32, else that of the
    model."""
    whiten: bool = False
    """Divide the features ``first`` or ``networks`` by their spread within the classes of the initial task."""
    refine: int = Field(0, ge=0, le=MOST_EPOCHS)
    """Epochs for which a copy of the extractor's network is trained on the delivery without labels, by rotations and
    contrast, before its features are clustered."""
    trust: float = Field(1.0, gt=0, le=1)
    """The share of each cluster, its surest part, that is learned and may be stored as exemplars."""
    refresh: int = Field(0, ge=0, le=MOST_EPOCHS)
    """K of UPL-K: cluster again with the current model every K epochs. 0, as in the paper, means never."""
    ids: Literal["aligned", "reset"] = "aligned"
    """After clustering again: match the clusters to the previous labels, or reset the new rows of the head
    (docs/protocol.md, A30)."""


class MemoryConfig(Section):
    """How many exemplars are stored and how they are selected (Algorithm 2 and its readings)."""

    policy: Literal["per-class", "total"] = "per-class"
    quota: int = Field(20, ge=0, le=MOST_IMAGES)
    select: str = "herding"
    reading: Literal["aligned", "reuse", "recluster"] = "aligned"
    mirror: bool = False
    """Include mirrored exemplars in the class means; ignored where a mirror image can be of another class."""


class MethodConfig(Section):
    """The name of the method, and its options as further keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str

    @property
    def options(self) -> Tree:
        """The method's own options."""
        return dict(self.model_extra or {})
