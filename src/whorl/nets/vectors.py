"""Backbones for vectors that something else computed: the identity, a scale, and a small multilayer perceptron."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Identity(nn.Module):
    """The vectors themselves are the features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The vectors, unchanged."""
        return x


class Scaled(nn.Module):
    """Vectors divided by one number, the root mean square of those in the initial delivery."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim: int = dim
        self.root_mean_square: Tensor
        self.register_buffer("root_mean_square", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """The vectors at their scale."""
        return x / self.root_mean_square


class Mlp(nn.Module):
    """One hidden layer of 512 units and 128 features, each behind layer norm."""

    def __init__(self, size: int, final_relu: bool = True, hidden: int = 512, dim: int = 128) -> None:
        super().__init__()
        self.dim: int = dim
        self.final_relu: bool = final_relu
        self.hidden: nn.Linear = nn.Linear(size, hidden)
        self.hidden_norm: nn.LayerNorm = nn.LayerNorm(hidden)
        self.out: nn.Linear = nn.Linear(hidden, dim)
        self.out_norm: nn.LayerNorm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """The features [n, dim]."""
        x = F.relu(self.hidden_norm(self.hidden(x)))
        out: Tensor = self.out_norm(self.out(x))
        return F.relu(out) if self.final_relu else out

    def draw(self, generator: torch.Generator) -> None:
        """Initialise the linear layers He-normal by fan-in, with zero bias."""
        for layer in (self.hidden, self.out):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
