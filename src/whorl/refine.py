"""Refining the features of a delivery without labels, before it is clustered.

A copy of the network that the features come from is trained on the delivery: to tell how far an image is turned, and
which two views show the same image. With each batch it also classifies exemplars of the labelled classes, without which
its features would lose what the labels taught. The clusters are found in its features. The model that learns them does
not change, and the copy is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.errors import WhorlError
from whorl.fit import Diverged, Purpose, fit
from whorl.methods.base import Batch, Phase
from whorl.nets.asides import VIEWS, views_per_image
from whorl.nets.backbone import checked
from whorl.nets.contrast import Contrast, projector
from whorl.nets.heads import LinearHead
from whorl.nets.model import Model
from whorl.nets.resnet import fold
from whorl.nets.rotations import Rotations, rotation_head
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.sections import OptimConfig
from whorl.types import IntArray

BATCH, EXEMPLARS = 128, 32
"""Images of the delivery, which contrast compares with each other, and exemplars in a batch."""
OPTIM = OptimConfig(lr=0.05, nesterov=True, weight_decay=5e-4, schedule="onecycle")
UNLABELLED = -1
NO_EXEMPLARS = "`pseudo.refine` needs exemplars; set `memory.quota` to 1 or more, or `pseudo.refine=0`"


@dataclass(frozen=True)
class Refinement:
    """How the features of a delivery are refined, and the exemplars that keep them from drifting."""

    epochs: int
    sizes: tuple[float, ...]
    """Sides of the images in successive parts, as shares of the full side."""
    exemplars: Samples
    inputs: Inputs
    runtime: Runtime
    purpose: Purpose

    def __call__(self, backbone: nn.Module, delivered: Samples, ticker: Ticker) -> nn.Module:
        """The backbone, which is changed, trained on the delivered images; frozen, for inference."""
        if len(delivered) < 2:
            raise WhorlError("`pseudo.refine` compares at least 2 images with each other; set `pseudo.refine=0`")
        if not len(self.exemplars):
            raise WhorlError(NO_EXEMPLARS)
        seed, dim = self.purpose.seed, checked(backbone).dim
        model, turns, views = (
            Model(checked(backbone), LinearHead(dim), seed),
            rotation_head(dim, 1, seed),
            projector(dim, seed),
        )
        model.grow(int(self.exemplars.labels.max()) + 1)
        model.asides.update({"rotations": turns, "contrast": views})
        phase = Phase(
            "refine",
            delivered + self.exemplars,
            _classify,
            self.epochs,
            BATCH + EXEMPLARS,
            OPTIM,
            batches=_batches(len(delivered), len(self.exemplars)),
            sizes=self.sizes,
            asides=(Rotations(turns, by_class=False), Contrast(views, self.inputs)),
        )
        try:
            for _ in fit(phase, self.runtime.place(model), self.inputs, self.runtime, self.purpose, ticker):
                pass
        except Diverged:
            raise WhorlError("the refinement of the features diverged; set `pseudo.refine=0`") from None
        return fold(model.backbone)


def passes(epochs: int, images: int) -> int:
    """How many images a refinement trains on, with their further views, in all epochs."""
    return round(views_per_image([*VIEWS]) * epochs * (images + EXEMPLARS * -(-images // BATCH)))


def _batches(delivered: int, exemplars: int) -> Callable[[torch.Generator], list[IntArray]]:
    """Batches of all delivered samples in random order, each with random exemplars, which come after those."""

    def epoch(draws: torch.Generator) -> list[IntArray]:
        parts = torch.split(torch.randperm(delivered, generator=draws), BATCH)
        chosen = [delivered + torch.randperm(exemplars, generator=draws)[:EXEMPLARS] for _ in parts]
        return [torch.cat([part, some]).numpy() for part, some in zip(parts, chosen, strict=True)]

    return epoch


def _classify(batch: Batch) -> Tensor:
    """Eq. 2 of the exemplars in a batch."""
    return F.cross_entropy(batch.logits, batch.labels, ignore_index=UNLABELLED)
