"""Heads that grow: one output per class learned so far, so that no unseen class can compete."""

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
    """A linear layer, ``W f + b``, or ``W f`` without bias."""

    def __init__(self, dim: int, bias: bool = True) -> None:
        super().__init__()
        self.weight: nn.Parameter = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0)) if bias else None

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the classes learned so far."""
        return F.linear(features, self.weight, self.bias)

    def reset(self, start: int, generator: torch.Generator) -> None:
        """Draw the rows from ``start`` on again, in place."""
        fresh = LinearHead(self.weight.shape[1], self.bias is not None)
        fresh.grow(len(self.weight), generator)
        with torch.no_grad():
            self.weight[start:] = fresh.weight[start:]
            if self.bias is not None and fresh.bias is not None:
                self.bias[start:] = fresh.bias[start:]

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes; the logits of existing classes do not change."""
        dim = self.weight.shape[1]
        self.weight = _extend(self.weight, _rows(n, dim, generator))
        if self.bias is not None:
            self.bias = _extend(self.bias, _rows(n, 1, generator).squeeze(1) / dim**0.5)


class CorrectedHead(LinearHead):
    """A linear layer whose logits of the newest classes are corrected as ``beta · o + gamma`` (BiC).

    Growing resets the correction, so a network is trained without it. The two scalars are trained only in a phase
    that names them.
    """

    newest: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.beta: nn.Parameter = nn.Parameter(torch.ones(()), requires_grad=False)
        self.gamma: nn.Parameter = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.register_buffer("newest", torch.empty(0, dtype=torch.bool))

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the classes learned so far, those of the newest classes corrected."""
        logits = super().forward(features)
        return torch.where(self.newest, self.beta * logits + self.gamma, logits)

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes, which become the newest, and reset the correction."""
        super().grow(n, generator)
        self.newest = torch.arange(len(self.weight), device=self.newest.device) >= len(self.weight) - n
        with torch.no_grad():
            self.beta.fill_(1)
            self.gamma.fill_(0)


class MeansHead(LinearHead):
    """A linear layer that also keeps the running mean of each class's unit-length features (ILIO)."""

    means: Tensor
    counts: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("means", torch.empty(0, dim))
        self.register_buffer("counts", torch.empty(0))

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes with no observations."""
        super().grow(n, generator)
        self.means = torch.cat([self.means, self.means.new_zeros(n, self.means.shape[1])])
        self.counts = torch.cat([self.counts, self.counts.new_zeros(n)])

    def observe(self, features: Tensor, labels: Tensor) -> None:
        """Update the means: ``mean ← (count · mean + f) / (count + 1)`` for each feature f."""
        unit = F.normalize(features.to(self.means), dim=1)
        seen = torch.bincount(labels, minlength=len(self.counts)).to(self.counts)
        total = (self.counts[:, None] * self.means).index_add_(0, labels, unit)
        self.counts = self.counts + seen
        self.means = total / self.counts.clamp(min=1)[:, None]


class CosineHead(nn.Module):
    """Scaled cosines, ``eta · cos(f, w)``, with one learned scale for all classes and no bias (LUCIR)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight: nn.Parameter = nn.Parameter(torch.empty(0, dim))
        self.eta: nn.Parameter = nn.Parameter(torch.ones(()))

    def cosines(self, features: Tensor) -> Tensor:
        """The cosines without the scale."""
        return F.normalize(features, dim=1) @ F.normalize(self.weight, dim=1).T

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the classes learned so far."""
        return self.eta * self.cosines(features)

    def reset(self, start: int, generator: torch.Generator) -> None:
        """Draw the rows from ``start`` on again, in place."""
        with torch.no_grad():
            self.weight[start:] = _rows(len(self.weight) - start, self.weight.shape[1], generator)

    def grow(self, n: int, generator: torch.Generator) -> None:
        """Add ``n`` classes; the logits of existing classes do not change."""
        self.weight = _extend(self.weight, _rows(n, self.weight.shape[1], generator))


def linear_without_bias(dim: int) -> LinearHead:
    """A linear head without bias."""
    return LinearHead(dim, bias=False)


Head = LinearHead | CosineHead | CorrectedHead | MeansHead

HEADS: dict[str, Callable[[int], Head]] = {
    "linear": LinearHead,
    "linear-nobias": linear_without_bias,
    "cosine": CosineHead,
    "corrected": CorrectedHead,
    "means": MeansHead,
}
