"""Configs: every choice is a named value. A learner has its own config, and an experiment's config extends it."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from whorl.errors import WhorlError
from whorl.explain import explain, shown

Tree = dict[str, Any]
S = TypeVar("S", bound=BaseModel)

MOST_EPOCHS, MOST_CLASSES, MOST_IMAGES, MOST_PIXELS = 1_000_000, 100_000, 1_000_000_000, 16_384
MOST_NETWORKS = 100
"""Upper limits of config values. Larger ones are typos, and no computer could run them."""
MOST_RATE = 1e30
"""The largest learning rate and weight decay; larger ones do not fit in a float of 32 bits."""
_INT64 = 2**63 - 1
DEEPEST = 8
"""The most parts that a dotted key has; configs have two, options of other packages' methods may have more."""


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


_NEWER: Tree = {
    "labeler": "paper",
    "optim.name": "sgd",
    "train.sizes": [],
    "train.rotations": "never",
    "train.contrast": "never",
    "pseudo.transform": "none",
    "pseudo.networks": 0,
    "pseudo.arch": "auto",
    "pseudo.whiten": False,
    "pseudo.refine": 0,
    "pseudo.trust": 1.0,
}
"""Keys that are newer than the first runs, whose names must stay valid; with these values they do not count."""


class LearnerConfig(Section):
    """Everything a learner needs to know, whatever the data.

    Attributes
    ----------
    seed : int
        The seed of everything random.
    recipe : str
        The name of the set of constants that the values come from.
    labeler : str
        The name of the set of values that pseudo labels are made with: ``paper`` or ``best``.
    classifier : {"fc", "nme"}
        The classifier whose answers count; scores are stored for both.
    precision : {"fp32", "bf16", "auto"}
        ``bf16`` uses autocast. ``auto`` is replaced by the faster of the two when learning begins.
    method : MethodConfig
        The name of the method, and its options.
    net : NetConfig
        ``arch``, ``head`` and ``final_relu``.
    train : TrainConfig
        ``first_epochs``, ``epochs``, ``batch``, ``augment``, ``sizes``, ``rotations`` and ``contrast``.
    optim : OptimConfig
        ``name``, ``lr``, ``momentum``, ``nesterov``, ``weight_decay``, ``schedule`` and what belongs to them.
    cluster : ClusterConfig
        ``name``, ``restarts``, ``iterations``, ``tolerance`` and ``l2``.
    pseudo : PseudoConfig
        ``features``, ``networks``, ``arch``, ``transform``, ``whiten``, ``refine``, ``trust``, ``refresh`` and
        ``ids``.
    memory : MemoryConfig
        ``policy``, ``quota``, ``select``, ``reading`` and ``mirror``.
    """

    seed: int = Field(0, ge=0)
    recipe: str
    labeler: str = "paper"
    classifier: Literal["fc", "nme"]
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    method: MethodConfig
    net: NetConfig
    train: TrainConfig
    optim: OptimConfig
    cluster: ClusterConfig = ClusterConfig()
    pseudo: PseudoConfig = PseudoConfig()
    memory: MemoryConfig = MemoryConfig()

    def tree(self) -> Tree:
        """The values as TOML and JSON hold them, without those that are None."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that identify this config."""
        tree = self.tree()
        for key, usual in _NEWER.items():
            section, _, name = key.rpartition(".")
            branch = tree[section] if section else tree
            if branch[name] == usual:
                del branch[name]
        return digest(tree)


class ExperimentConfig(LearnerConfig):
    """One run: a learner's config, the data, and how they arrive."""

    labels: Literal["pseudo", "given", "corrupted"] = "pseudo"
    """``corrupted`` are true labels made wrong on purpose, to find out how good pseudo labels must be."""
    label_acc: float | None = Field(None, ge=0, le=1)
    """The share of right labels, with ``labels=corrupted``."""
    data: DataConfig
    stream: StreamConfig

    @property
    def labelled(self) -> bool:
        """Whether the learner receives labels with every task."""
        return self.labels != "pseudo"

    @property
    def labels_said(self) -> str:
        """The kind of labels in words; corrupted ones with their accuracy."""
        return self.labels if self.label_acc is None else f"{self.labels} to {self.label_acc:g} (diagnostic)"

    @property
    def title(self) -> str:
        """The name of the run's folder: readable words, then the hash."""
        return self._named(_with_hyphens(self.data.name).strip("-")[:40])

    @property
    def earlier_title(self) -> str:
        """The name that the folder had in versions that did not shorten the name of the data set."""
        return self._named(_with_hyphens(self.data.name))

    def _named(self, data: str) -> str:
        return f"{data}-{self.method.name}-{self.labels}-step{self.stream.step}-seed{self.seed}-{self.hash}"


def _with_hyphens(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name)


def digest(tree: Tree) -> str:
    """Ten hexadecimal digits that identify a tree of values."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:10]


def reason(error: Exception) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False)[0]
        where = ".".join(map(str, found["loc"])).encode("unicode_escape").decode()[:80]
        return f"{where}: {found['msg']}" if where else found["msg"]
    return str(error)


def checked(section: type[S], tree: Mapping[str, Any], within: str = "", source: str = "") -> S:
    """A section from plain values; raises a ``WhorlError`` about the first mistake.

    The message names the key below ``within``, and begins with ``source``, the place the values were read from.
    """
    try:
        return section.model_validate(tree)
    except ValidationError as error:
        message = explain(error.errors(include_url=False)[0], section, within)
    except RecursionError:
        message = f"the values of {within or 'the config'} are nested too deeply"
    raise WhorlError(f"{source}: {message}" if source else message)


_COMPLETE: Tree = {
    "recipe": "fast",
    "classifier": "fc",
    "method": {"name": "ours"},
    "net": {"arch": "tiny", "head": "linear", "final_relu": True},
    "train": {"first_epochs": 1, "epochs": 1, "batch": 2},
    "optim": {"lr": 0.1},
}


def check_values(section: type[LearnerConfig], asked: Tree, source: str = "") -> None:
    """Raise a ``WhorlError`` if ``asked`` has an unknown key or a wrong value. Keys may be missing.

    The options of methods are not checked; they depend on the method. Milestones that a user sets must differ, while
    those that a method makes for few epochs may be equal.
    """
    stream: Tree = {"data": {"name": "digits"}, "stream": {"step": 1}} if section is ExperimentConfig else {}
    optim = checked(section, merge(_COMPLETE, stream, asked), source=source).optim
    for key, epochs in (("milestones", optim.milestones), ("first_milestones", optim.first_milestones or ())):
        if len(set(epochs)) < len(epochs):
            message = f"`optim.{key}` must name each epoch once, not {shown(epochs)}"
            raise WhorlError(f"{source}: {message}" if source else message)


def read_toml(path: Path) -> Tree:
    """The values of a TOML file, not validated. A byte order mark at its beginning is ignored."""
    try:
        return merge(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise WhorlError(f"cannot read the config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WhorlError(f"cannot read the config file {path}: it is not UTF-8 text") from None
    except RecursionError:
        raise WhorlError(f"the config file {path} is nested too deeply") from None
    except ValueError as error:  # also an integer with more digits than Python reads
        raise WhorlError(f"{path} is not valid TOML: {error}") from None


def write_toml(config: LearnerConfig) -> str:
    """The config as TOML; :func:`read_toml` and :func:`checked` restore it."""
    return tomli_w.dumps(config.tree())


def parse_override(text: str) -> Tree:
    """``optim.lr=0.05`` as ``{"optim": {"lr": 0.05}}``. The value is parsed as TOML; bare words are strings."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts) or len(parts) > DEEPEST:
        raise WhorlError(f"{shown(text)} must have the form section.key=value, for instance optim.lr=0.05")
    try:
        found = tomllib.loads(f"value = {value.strip()}")
        if len(found) > 1:
            raise WhorlError(f"{shown(text)} sets several keys; pass them one by one")
        parsed = found["value"]
    except RecursionError:
        raise WhorlError(f"the value of {key} is nested too deeply") from None
    except ValueError:
        parsed = value.strip()
    return override((".".join(parts), parsed))


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Merge trees; later values win. The result shares no branch with its parts."""
    out: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            old = out.get(key)
            branch = isinstance(value, Mapping)
            out[key] = merge(old if isinstance(old, dict) else {}, value) if branch else value
    return out


def override(*pairs: tuple[str, Any]) -> Tree:
    """A tree from dotted keys, without those whose value is None."""
    out: Tree = {}
    for key, value in pairs:
        if value is not None:
            for part in reversed(key.split(".")):
                value = {part: value}
            out = merge(out, value)
    return out


def flat(tree: Tree, above: str = "") -> dict[str, str]:
    """The values of a tree by dotted key, as text."""
    out: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, dict) else {name: str(value)}
    return out
