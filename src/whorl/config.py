"""Configs: every choice is a named value. A learner has its own config, and an experiment's config extends it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whorl.errors import WhorlError, unknown

Tree = dict[str, Any]
S = TypeVar("S", bound=BaseModel)


class Section(BaseModel):
    """A frozen section of a config in which unknown keys are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class DataConfig(Section):
    """Which data. Their content is part of a run's identity, the folder they are stored in is not."""

    name: str
    resize: int | None = Field(None, ge=8)
    per_class: int | None = Field(None, ge=1)
    classes: int | None = Field(None, ge=1)
    subset: str = "S1"
    fingerprint: str = ""


class StreamConfig(Section):
    """How the classes arrive."""

    step: int = Field(ge=1)
    first: int | None = Field(None, ge=1)
    tasks: int | None = Field(None, ge=1)
    order: str | tuple[int, ...] = "natural"


class NetConfig(Section):
    """Backbone and head."""

    arch: str
    head: str
    final_relu: bool


class TrainConfig(Section):
    """Epochs, batch size and random views of training."""

    first_epochs: int = Field(ge=0)
    epochs: int = Field(ge=0)
    batch: int = Field(ge=2)
    augment: str = "auto"
    """The random view by name; ``auto`` takes the one that suits the data."""


class OptimConfig(Section):
    """The optimiser and its learning rate over a phase."""

    name: Literal["sgd", "adamw"] = "sgd"
    """``adamw`` ignores ``momentum`` and ``nesterov`` and uses betas of 0.9 and 0.999."""
    lr: float = Field(gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["steps", "onecycle", "constant"] = "steps"
    milestones: tuple[int, ...] = ()
    gamma: float = Field(0.1, gt=0)
    first_milestones: tuple[int, ...] | None = None
    """Milestones for the initial task, if different."""
    first_weight_decay: float | None = Field(None, ge=0)
    """Weight decay for the initial task, if different."""
    decay_by_task: bool = False
    """Divide the weight decay by the number of the task, as WA and BiC do."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimConfig:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0; set `optim.nesterov=false` as well")
        return self

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
    restarts: int = Field(10, ge=1)
    iterations: int = Field(300, ge=1)
    tolerance: float = Field(1e-4, ge=0)
    l2: bool = False


class PseudoConfig(Section):
    """Which features are clustered into pseudo labels, and how often (the paper's ablations)."""

    features: str = "current"
    """The extractor: ``current`` (the last model, as in the paper), ``first`` (the model after the initial task),
    ``scratch`` (a random network) or ``pca`` (principal components of the inputs)."""
    refresh: int = Field(0, ge=0)
    """K of UPL-K: cluster again with the current model every K epochs. 0, as in the paper, means never."""
    ids: Literal["aligned", "reset"] = "aligned"
    """After clustering again: match the clusters to the previous labels, or reset the new rows of the head
    (docs/protocol.md, A30)."""


class MemoryConfig(Section):
    """How many exemplars are stored and how they are selected (Algorithm 2 and its readings)."""

    policy: Literal["per-class", "total"] = "per-class"
    quota: int = Field(20, ge=0)
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


class LearnerConfig(Section):
    """Everything a learner needs to know, whatever the data.

    Attributes
    ----------
    seed : int
        The seed of everything random.
    recipe : str
        The name of the set of constants that the values come from.
    classifier : {"fc", "nme"}
        The classifier whose answers count; scores are stored for both.
    precision : {"fp32", "bf16"}
        ``bf16`` uses autocast.
    method : MethodConfig
        The name of the method, and its options.
    net : NetConfig
        ``arch``, ``head`` and ``final_relu``.
    train : TrainConfig
        ``first_epochs``, ``epochs``, ``batch`` and ``augment``.
    optim : OptimConfig
        ``name``, ``lr``, ``momentum``, ``nesterov``, ``weight_decay``, ``schedule`` and what belongs to them.
    cluster : ClusterConfig
        ``name``, ``restarts``, ``iterations``, ``tolerance`` and ``l2``.
    pseudo : PseudoConfig
        ``features``, ``refresh`` and ``ids``.
    memory : MemoryConfig
        ``policy``, ``quota``, ``select``, ``reading`` and ``mirror``.
    """

    seed: int = Field(0, ge=0)
    recipe: str
    classifier: Literal["fc", "nme"]
    precision: Literal["fp32", "bf16"] = "fp32"
    method: MethodConfig
    net: NetConfig
    train: TrainConfig
    optim: OptimConfig
    cluster: ClusterConfig = ClusterConfig()
    pseudo: PseudoConfig = PseudoConfig()
    memory: MemoryConfig = MemoryConfig()

    def tree(self) -> Tree:
        """The values as TOML and JSON hold them, without those that are None."""
        tree = self.model_dump(mode="json", exclude_none=True)
        if tree["optim"]["name"] == "sgd":  # newer than the first runs, whose names must stay valid
            del tree["optim"]["name"]
        return tree

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that identify this config."""
        return digest(self.tree())


class ExperimentConfig(LearnerConfig):
    """One run: a learner's config, the data, and how they arrive."""

    labels: Literal["pseudo", "given"] = "pseudo"
    data: DataConfig
    stream: StreamConfig

    @property
    def title(self) -> str:
        """The name of the run's folder: readable words, then the hash."""
        data = "".join(c if c.isalnum() else "-" for c in self.data.name)
        return f"{data}-{self.method.name}-{self.labels}-step{self.stream.step}-seed{self.seed}-{self.hash}"


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


def checked(section: type[S], tree: Mapping[str, Any], within: str = "") -> S:
    """A section from plain values; raises a ``WhorlError`` about the first mistake."""
    try:
        return section.model_validate(tree)
    except ValidationError as error:
        raise _explain(error, section, within) from None


def read_toml(path: Path) -> Tree:
    """The values of a TOML file, not validated."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WhorlError(f"cannot read the config file {path}: {error}") from None
    except (ValueError, RecursionError) as error:  # besides wrong TOML: integers of 5,000 digits, deep nesting
        raise WhorlError(f"{path} is not valid TOML: {reason(error)}") from None


def write_toml(config: LearnerConfig) -> str:
    """The config as TOML; :func:`read_toml` and :func:`checked` restore it."""
    return tomli_w.dumps(config.tree())


def parse_override(text: str) -> Tree:
    """``optim.lr=0.05`` as ``{"optim": {"lr": 0.05}}``. The value is parsed as TOML; bare words are strings."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise WhorlError(f"{text!r} must have the form section.key=value, for instance optim.lr=0.05")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(parts):
        parsed = {part: parsed}
    return dict(parsed)


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


def _explain(error: ValidationError, section: type[BaseModel], within: str) -> WhorlError:
    first = error.errors(include_url=False)[0]
    # After the keys, pydantic lists the types it tried, such as "str" for an order.
    path = [str(part) for part in first["loc"] if part not in ("str", "tuple[int, ...]")]
    name = ".".join([within, *path] if within else path)
    if first["type"] == "extra_forbidden":
        for part in path[:-1]:
            section = section.model_fields[part].annotation  # type: ignore[assignment]
        above = name.rpartition(".")[0]
        return unknown("config key", name, [f"{above}.{key}" if above else key for key in section.model_fields])
    if first["type"] == "literal_error":
        return unknown(
            f"{name} value", str(first["input"]), re.split(r", | or ", first["ctx"]["expected"].replace("'", ""))
        )
    if first["type"] == "value_error":
        return WhorlError(f"config {name}: {first['ctx']['error']}")
    message = first["msg"][0].lower() + first["msg"][1:]
    return WhorlError(f"config {name}: {message}" + ("" if first["type"] == "missing" else f", not {first['input']!r}"))
