"""Configs: all choices of a learner, and those of an experiment, which extends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import tomli_w
from pydantic import BaseModel, Field, ValidationError

from whorl.errors import WhorlError
from whorl.explain import explain, shown
from whorl.sections import (
    ClusterConfig,
    DataConfig,
    MemoryConfig,
    MethodConfig,
    NetConfig,
    OptimConfig,
    PseudoConfig,
    Section,
    StreamConfig,
    TrainConfig,
)
from whorl.tree import Tree, digest, merge

S = TypeVar("S", bound=BaseModel)
_NEWER: Tree = {
    "labeler": "paper",
    "net.tune": "all",
    "net.fingerprint": "",
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
        ``arch``, ``head``, ``final_relu``, ``tune``, ``size`` and ``fingerprint``.
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

    def identity(self) -> Tree:
        """The values that identify this config: all but newer ones that change nothing."""
        tree = self.tree()
        for key, usual in _NEWER.items():
            section, _, name = key.rpartition(".")
            branch = tree[section] if section else tree
            if branch[name] == usual:
                del branch[name]
        return tree

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that identify this config."""
        return digest(self.identity())


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


def write_toml(config: LearnerConfig) -> str:
    """The config as TOML; :func:`read_toml` and :func:`checked` restore it."""
    return tomli_w.dumps(config.tree())
