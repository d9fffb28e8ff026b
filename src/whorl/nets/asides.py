"""Asides: further tasks without labels that a network is trained on beside its own, for more telling features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from whorl.data.inputs import Inputs
from whorl.nets.contrast import Contrast, projector
from whorl.nets.model import Model
from whorl.nets.rotations import Rotations, rotation_head

VIEWS = {"rotations": 0.5, "contrast": 1.0}
"""Further views of each image, by the name of the aside."""


def views_per_image(names: Sequence[str]) -> float:
    """How many views of each image a network is trained on, beside asides of these names: its own and theirs."""
    return 1 + sum(VIEWS[name] for name in names)


class Aside(Protocol):
    """A task on further views of a batch. Its loss is added to that of the batch."""

    def views(self, images: Tensor, labels: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """Further views of prepared images, and what the loss needs to know about each of them."""
        ...

    def loss(self, own: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of the features of these views; ``own`` are the features of the images themselves."""
        ...


def add_asides(model: Model, names: Sequence[str], seed: int) -> None:
    """Give the model the layers of these asides. They are part of it until they are removed."""
    for name in names:
        own = rotation_head(model.dim, model.classes, seed) if name == "rotations" else projector(model.dim, seed)
        model.asides[name] = own


def asides_of(model: Model, inputs: Inputs) -> tuple[Aside, ...]:
    """The asides whose layers the model has."""
    found: list[Aside] = []
    if "rotations" in model.asides:
        found.append(Rotations(model.asides["rotations"]))
    if "contrast" in model.asides:
        found.append(Contrast(model.asides["contrast"], inputs))
    return tuple(found)
