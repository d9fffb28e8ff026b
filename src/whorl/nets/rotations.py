"""Rotations as further classes: a self-supervised task that is trained beside the labels.

Half of each batch is also seen turned by 90, 180 or 270 degrees. A head of its own tells which class was turned by how
much. It is discarded after the step; what stays are features that distinguish more than the labelled classes need
(Lee et al. 2020, "Self-supervised label augmentation via input transformations").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whorl.nets.heads import LinearHead
from whorl.seeds import generator

TURNS = 3


def rotation_head(dim: int, classes: int, seed: int) -> LinearHead:
    """One output per class and turn."""
    head = LinearHead(dim)
    head.grow(TURNS * classes, generator(seed, "init", "rotations", classes))
    return head


@dataclass(frozen=True)
class Rotations:
    """Makes the rotated views of a batch, and the loss on their features."""

    head: nn.Module
    by_class: bool = True
    """Whether the head tells turned classes apart; else it tells the turns alone, which needs no labels."""

    def views(self, images: Tensor, labels: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """The first half of the images, each turned by a random multiple of 90 degrees, and their targets."""
        half = (len(images) + 1) // 2
        turns = torch.randint(1, TURNS + 1, (half,), generator=draws).to(images.device)
        out = torch.empty_like(images[:half])
        for turn in range(1, TURNS + 1):
            out[turns == turn] = torch.rot90(images[:half][turns == turn], turn, (2, 3))
        return out, (labels[:half] * TURNS if self.by_class else 0) + turns - 1

    def loss(self, own: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over all turns, or over all classes and turns."""
        return F.cross_entropy(self.head(features), targets)
