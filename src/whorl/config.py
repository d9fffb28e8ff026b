"""The frozen config. Every choice is a named value in it, and its hash is the run's identity."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whorl.errors import WhorlError, unknown

Tree = dict[str, Any]
S = TypeVar("S", bound=BaseModel)


class Section(BaseModel):
    """Strict and frozen: an unknown key is an error, a set value stays."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class DataConfig(Section):
    """Which images. The folder they lie in is not part of the identity, what lies in it is."""

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
    """How long, in which batches, with which random views."""

    first_epochs: int = Field(ge=0)
    epochs: int = Field(ge=0)
    batch: int = Field(ge=2)
    augment: str = "auto"
    """A random view by name; ``auto`` is the one that fits the data."""


class OptimConfig(Section):
    """SGD and its learning rate over a phase."""

    lr: float = Field(gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["steps", "onecycle", "constant"] = "steps"
    milestones: tuple[int, ...] = ()
    gamma: float = Field(0.1, gt=0)
    first_milestones: tuple[int, ...] | None = None
    """Milestones of task 1, where they are others."""
    first_weight_decay: float | None = Field(None, ge=0)
    """Weight decay of task 1, where it is another."""
    decay_by_task: bool = False
    """Divide the weight decay by the task's number, as WA and BiC do."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimConfig:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0; set optim.nesterov=false as well")
        return self

    def at(self, task: int) -> OptimConfig:
        """The optimiser of one task, with nothing left that depends on the task."""
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
    """Which clustering makes pseudo labels."""

    name: str = "kmeans"
    restarts: int = Field(10, ge=1)
    iterations: int = Field(300, ge=1)
    tolerance: float = Field(1e-4, ge=0)
    l2: bool = False


class PseudoConfig(Section):
    """What is clustered into pseudo labels, and how long they hold (the paper's ablations)."""

    features: Literal["current", "first", "scratch", "pca"] = "current"
    """Of the last model (the paper), of the model after task 1, of a random net, or principal components of pixels."""
    refresh: int = Field(0, ge=0)
    """K of UPL-K: cluster again with the current model every K epochs; 0 is never, as the paper has it."""
    ids: Literal["aligned", "reset"] = "aligned"
    """After clustering again: match the new groups to the old labels, or draw the new rows of the head anew (A30)."""


class MemoryConfig(Section):
    """How many exemplars are kept and how they are chosen (Algorithm 2 and its readings)."""

    policy: Literal["per-class", "total"] = "per-class"
    quota: int = Field(20, ge=0)
    select: str = "herding"
    reading: Literal["aligned", "reuse", "recluster"] = "aligned"
    mirror: bool = False
    """Whether mirrored exemplars count in the class means; ignored for data whose mirror images are other classes."""


class MethodConfig(Section):
    """The method's name; the method's own options stand beside it."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: str

    @property
    def options(self) -> Tree:
        """The method's own options."""
        return dict(self.model_extra or {})


class Config(Section):
    """One run, completely."""

    seed: int = Field(0, ge=0)
    recipe: str
    labels: Literal["pseudo", "given"] = "pseudo"
    classifier: Literal["fc", "nme"]
    precision: Literal["fp32", "bf16"] = "fp32"
    method: MethodConfig
    data: DataConfig
    stream: StreamConfig
    net: NetConfig
    train: TrainConfig
    optim: OptimConfig
    cluster: ClusterConfig = ClusterConfig()
    pseudo: PseudoConfig = PseudoConfig()
    memory: MemoryConfig = MemoryConfig()

    def tree(self) -> Tree:
        """Plain values without the empty ones, as TOML and JSON hold them."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that name this config."""
        return hashlib.sha256(json.dumps(self.tree(), sort_keys=True).encode()).hexdigest()[:10]

    @property
    def title(self) -> str:
        """The name of the run's folder: readable first, unique at the end."""
        data = "".join(c if c.isalnum() else "-" for c in self.data.name)
        return f"{data}-{self.method.name}-{self.labels}-step{self.stream.step}-seed{self.seed}-{self.hash}"


def checked(section: type[S], tree: Mapping[str, Any], within: str = "") -> S:
    """A section from plain values; the first mistake becomes one clear line."""
    try:
        return section.model_validate(tree)
    except ValidationError as error:
        raise _explain(error, section, within) from None


def read_toml(path: Path) -> Tree:
    """Values from a TOML file, not yet checked."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WhorlError(f"cannot read the config file {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise WhorlError(f"{path} is not valid TOML: {error}") from None


def write_toml(config: Config) -> str:
    """The config as TOML; :func:`read_toml` and :func:`checked` give it back."""
    return tomli_w.dumps(config.tree())


def parse_override(text: str) -> Tree:
    """``optim.lr=0.05`` as ``{"optim": {"lr": 0.05}}``. The value is TOML; bare words are strings."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise WhorlError(f"--set {text!r} must look like section.key=value, for instance optim.lr=0.05")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(parts):
        parsed = {part: parsed}
    return dict(parsed)


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Trees laid over each other, the later ones winning; the result shares no branch with them."""
    out: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            old = out.get(key)
            branch = isinstance(value, Mapping)
            out[key] = merge(old if isinstance(old, dict) else {}, value) if branch else value
    return out


def _explain(error: ValidationError, section: type[BaseModel], within: str) -> WhorlError:
    first = error.errors(include_url=False)[0]
    # Behind the keys, pydantic names the kinds of value it tried, such as "str" for an order.
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


ExperimentConfig = Config
