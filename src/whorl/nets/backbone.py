"""Backbones: what a network must provide to be one, and the registry of those that whorl can build by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from whorl import registry
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.nets.resnet import resnet14_wide, resnet18, resnet18_small, resnet32, tiny
from whorl.nets.vectors import Identity, Mlp
from whorl.runtime import Runtime
from whorl.seeds import generator


@runtime_checkable
class Backbone(Protocol):
    """A module that turns prepared inputs into features [n, dim].

    A backbone must be a ``torch.nn.Module``. It may also have

    * ``inputs``, an :class:`~whorl.data.inputs.Inputs`: the input preparation it was trained with, used instead of
      the data's own;
    * ``suited(inputs)``: the same, where it depends on that of the data;
    * ``draw(generator)``: initialise the weights from a seeded generator. Without it, the weights stay as they are,
      which is what a pretrained backbone wants.
    """

    dim: int

    def __call__(self, x: Tensor, /) -> Tensor:
        """The features of prepared inputs."""
        ...


Factory = Callable[[Inputs, bool], Backbone]
"""(inputs, final_relu) → a backbone for these inputs; ``final_relu`` is whether its features pass a last ReLU."""

BACKBONES: dict[str, Factory] = {
    "resnet32": lambda inputs, final_relu: resnet32(final_relu),
    "resnet14-wide": lambda inputs, final_relu: resnet14_wide(final_relu),
    "resnet18": lambda inputs, final_relu: resnet18(final_relu),
    "resnet18-small": lambda inputs, final_relu: resnet18_small(final_relu),
    "tiny": lambda inputs, final_relu: tiny(final_relu),
    "identity": lambda inputs, final_relu: Identity(inputs.size),
    "mlp": lambda inputs, final_relu: Mlp(inputs.size, final_relu),
}
GROUP = "whorl.nets"
"""The entry point group of third-party backbones."""
FOR_VECTORS = ("identity", "mlp")
FOR_IMAGES = ("resnet32", "resnet14-wide", "resnet18", "resnet18-small", "tiny")


def find(name: str) -> Factory:
    """The factory of the backbone called ``name``."""
    return registry.find("network", name, BACKBONES, GROUP)


def build(name: str, inputs: Inputs, final_relu: bool, seed: int | None, key: str = "net.arch") -> Backbone:
    """A backbone by name, the value of the config key ``key``.

    Its weights are drawn from ``seed``; with None they are left for a checkpoint to fill.
    """
    suits = FOR_VECTORS if inputs.kind == "vectors" else FOR_IMAGES
    if name in (*FOR_VECTORS, *FOR_IMAGES) and name not in suits:
        raise WhorlError(f"network {name!r} does not take {inputs.kind}; set `{key}` to {' or '.join(suits)}")
    made = checked(find(name)(inputs, final_relu))
    if seed is not None:
        draw(made, seed)
    return made


def draw(backbone: object, seed: int) -> bool:
    """Initialise the weights by the backbone's ``draw``; returns False for a backbone without that method."""
    initialise: Callable[[torch.Generator], None] | None = getattr(backbone, "draw", None)
    if initialise is not None:
        initialise(generator(seed, "init", "backbone"))
    return initialise is not None


def checked(backbone: object) -> Backbone:
    """The backbone, or an error that says what it lacks."""
    if not isinstance(backbone, nn.Module):
        raise WhorlError(f"a backbone must be a torch.nn.Module, not {type(backbone).__name__}")
    if not isinstance(getattr(backbone, "dim", None), int):
        raise WhorlError(
            f"the backbone {type(backbone).__name__} needs an integer attribute `dim`, the number of its features"
        )
    found: Backbone = backbone  # type: ignore[assignment]
    return found


def check_fit(backbone: nn.Module, inputs: Inputs, runtime: Runtime, key: str = "net.arch") -> None:
    """Raise a ``WhorlError`` unless the backbone turns one prepared sample into ``dim`` features.

    ``key`` is the config key that chooses the backbone.
    """
    side = inputs.size
    shape = (1, side) if inputs.kind == "vectors" else (1, 3, side, side)
    what = f"{inputs.kind} of {'length' if inputs.kind == 'vectors' else 'side'} {side}"
    probe = copy.deepcopy(backbone).eval()
    try:
        with torch.inference_mode(), runtime.autocast():
            found = probe(runtime.inputs(torch.zeros(shape, device=runtime.device)))
    except Exception as error:  # a backbone of the user may raise anything
        why = " ".join(str(error).split())
        raise WhorlError(f"the network does not take {what} ({why}); set `{key}` to one that does") from error
    dim = checked(backbone).dim
    if not isinstance(found, Tensor) or found.shape != (1, dim):
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise WhorlError(f"the network returned features of shape {got} for 1 sample, but its `dim` is {dim}")


def module(backbone: Backbone) -> nn.Module:
    """The backbone as the module that :func:`checked` requires it to be."""
    found = checked(backbone)
    assert isinstance(found, nn.Module)
    return found


def inputs_of(backbone: object, data: Inputs) -> Inputs:
    """How samples are prepared for a backbone: as it says itself, else as the data say."""
    suited: Callable[[Inputs], Inputs] | None = getattr(backbone, "suited", None)
    return suited(data) if suited is not None else own_inputs(backbone) or data


def own_inputs(backbone: object) -> Inputs | None:
    """The input preparation that a backbone brings along, if any."""
    own = getattr(backbone, "inputs", None)
    return own if isinstance(own, Inputs) else None
