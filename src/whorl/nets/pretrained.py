"""Pretrained backbones: networks of timm and transformers, and what their own configs say about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import ConfigDict
from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.known import HF, is_pretrained
from whorl.nets import from_hf, from_timm
from whorl.nets.found import Channels
from whorl.nets.weights import fingerprint


@dataclass(frozen=True)
class Origin:
    """Where a pretrained backbone comes from, and how it sees images. Stored with every model that uses it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    """As in ``net.arch``; of a folder without the path."""
    size: int
    """Side to which images are scaled."""
    mean: Channels
    std: Channels
    interpolation: Literal["bilinear", "bicubic"]
    licence: str
    """Of the weights; empty if it is not stated."""
    weights: str
    """Identifies the weights."""
    library: str
    """The library that built the network, with its version."""
    config: str = ""
    """The network's own config as JSON, from which transformers builds it."""

    def __str__(self) -> str:
        numbers = ", ".join(
            f"{word} {' '.join(f'{value:g}' for value in values)}"
            for word, values in (("mean", self.mean), ("deviation", self.std))
        )
        return (
            f"{self.name} ({self.library}, weights {self.weights}): images of {self.size} pixels, "
            f"{self.interpolation}, {numbers}; licence: {self.licence or 'not stated'}"
        )


class Pretrained(nn.Module):
    """A pretrained network as a backbone: it scales prepared images to the side that it was trained with."""

    def __init__(self, net: nn.Module, origin: Origin) -> None:
        super().__init__()
        self.net: nn.Module = net
        self.origin: Origin = origin
        self.inputs: Inputs = Inputs.images(origin.size, mean=origin.mean, std=origin.std)
        with torch.no_grad():
            probe = self.eval()(torch.zeros(1, 3, origin.size, origin.size))
        if not isinstance(probe, Tensor) or probe.ndim != 2:
            raise WhorlError(f"{origin.name} does not give one vector per image; set `net.arch` to a network that does")
        self.dim: int = probe.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """The features [n, dim] of prepared images of any side."""
        size, mode = self.origin.size, self.origin.interpolation
        if x.shape[-1] != size:
            x = F.interpolate(x, (size, size), mode=mode, antialias=x.shape[-1] > size, align_corners=False)
        out: Tensor = self.net(x)
        return out

    def suited(self, data: Inputs) -> Inputs:
        """The preparation of the data's images with the mean and deviation of this network."""
        return replace(data, mean=self.inputs.mean, std=self.inputs.std) if data.kind == "images" else data


def pretrained(arch: str, weights: str | PathLike[str] | None = None, size: int | None = None) -> Pretrained:
    """A pretrained network, to be passed to :class:`whorl.Whorl` as ``net``.

    Parameters
    ----------
    arch : str
        ``timm:NAME``, ``hf:NAME`` or ``hf:FOLDER``.
    weights : path, optional
        A file with the weights, ``.safetensors`` or ``.pth``, instead of those that the library downloads or finds in
        the folder.
    size : int, optional
        The side to which images are scaled, instead of the one in the network's own config.

    Returns
    -------
    Pretrained
        The network. Its ``origin`` tells what its config says, including the licence.
    """
    name, file = arch.partition(":")[2], None if weights is None else Path(weights)
    if not is_pretrained(arch) or not name:
        raise WhorlError(f"{arch!r} does not name a pretrained network; write timm:NAME, hf:NAME or hf:FOLDER")
    found = from_hf.load(name, file) if arch.startswith(HF) else from_timm.load(name, file)
    origin = Origin(
        name=HF + Path(name).name if arch.startswith(HF) and Path(name).is_dir() else arch,
        size=size or found.size,
        mean=found.mean,
        std=found.std,
        interpolation="bilinear" if found.interpolation == "bilinear" else "bicubic",
        licence=found.licence,
        weights=fingerprint(found.net),
        library=found.library,
        config=found.config,
    )
    return _made(found.net, origin)


def rebuilt(origin: Origin) -> Pretrained:
    """The network that a stored model used, with weights that are still to be replaced by the stored ones."""
    hf = origin.name.startswith(HF)
    net = from_hf.rebuilt(origin.config) if hf else from_timm.rebuilt(origin.name.partition(":")[2])
    return _made(net, origin)


def _made(net: nn.Module, origin: Origin) -> Pretrained:
    try:
        return Pretrained(net, origin)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        why = " ".join(str(error).split())
        raise WhorlError(
            f"{origin.name} does not take images of {origin.size} pixels ({why}); set `net.size` to another side"
        ) from None


def origin_of(backbone: object) -> Origin | None:
    """Where a backbone comes from, if it is a pretrained one."""
    return getattr(backbone, "origin", None)


def named(arch: str, weights: Path | None, size: int | None) -> Pretrained | None:
    """The pretrained network that a config names; None for a built-in one, which takes no file of weights."""
    if is_pretrained(arch):
        return pretrained(arch, weights, size)
    for key, value in (("weights", weights), ("net.size", size)):
        if value is not None:
            raise WhorlError(f"`{key}` is for networks of timm and transformers, not for {arch}; leave it out")
    return None
