"""Classifiers that grow. A head is exactly as wide as the classes seen, so no unseen column can compete."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _rows(n: int, dim: int, generator: torch.Generator) -> Tensor:
    """``n`` new rows, uniform in ±1/sqrt(dim): the default of linear layers and of LUCIR's cosine head."""
    bound = dim**-0.5
    return torch.empty(n, dim).uniform_(-bound, bound, generator=generator)


def _extend(old: Tensor, new: Tensor) -> nn.Parameter:
    return nn.Parameter(torch.cat([old.detach(), new.to(old)]))


class LinearHead(nn.Module):
    """``W f + b``; without bias for WA."""

    def __init__(self, dim: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0)) if bias else None

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the classes seen so far."""
        return F.linear(features, self.weight, self.bias)

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes; the logits of the old ones do not change."""
        dim = self.weight.shape[1]
        self.weight = _extend(self.weight, _rows(n, dim, generator))
        if self.bias is not None:
            self.bias = _extend(self.bias, _rows(n, 1, generator).squeeze(1) / dim**0.5)


class CosineHead(nn.Module):
    """``eta · cos(f, w)`` with one learned scale for all classes, no bias (LUCIR)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.eta = nn.Parameter(torch.ones(()))

    def cosines(self, features: Tensor) -> Tensor:
        """The cosines before scaling."""
        return F.normalize(features, dim=1) @ F.normalize(self.weight, dim=1).T

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the classes seen so far."""
        return self.eta * self.cosines(features)

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes; the logits of the old ones do not change."""
        self.weight = _extend(self.weight, _rows(n, self.weight.shape[1], generator))


def linear_without_bias(dim: int) -> LinearHead:
    """A linear head without bias."""
    return LinearHead(dim, bias=False)


Head = LinearHead | CosineHead

HEADS: dict[str, Callable[[int], Head]] = {
    "linear": LinearHead,
    "linear-nobias": linear_without_bias,
    "cosine": CosineHead,
}
