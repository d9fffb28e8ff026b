"""What is found out about a network of another library when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Found:
    """A network that gives one vector per image, and what its own config says."""

    net: nn.Module
    size: int
    """Side of the images."""
    mean: Channels
    std: Channels
    interpolation: str
    licence: str
    library: str
    config: str = ""
