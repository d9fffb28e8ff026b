"""Refining the features of a delivery without labels, before it is clustered.

A copy of the network that the features come from is trained on the delivery's images alone. It learns to tell how far
an image is turned, and which two views show the same image. Its features are clustered; the model that learns the
clusters does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from whorl.config import OptimConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.errors import WhorlError
from whorl.fit import Purpose, fit
from whorl.methods.base import Batch, Phase
from whorl.nets.contrast import Contrast, projector
from whorl.nets.model import Model
from whorl.nets.resnet import fold
from whorl.nets.rotations import Rotations, rotation_head
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.types import ImageSource

BATCH = 128
"""Contrast compares each view with those of all other images of a batch."""
SIZES = (0.5, 0.75, 1.0)
OPTIM = OptimConfig(lr=0.05, nesterov=True, weight_decay=5e-4, schedule="onecycle")


@dataclass(frozen=True)
class Refinement:
    """How the features of a delivery are refined."""

    epochs: int
    inputs: Inputs
    runtime: Runtime
    purpose: Purpose

    def __call__(self, model: Model, images: ImageSource, ticker: Ticker) -> nn.Module:
        """The backbone of ``model``, which is changed, trained on these images; frozen, for inference."""
        if len(images) < 2:
            raise WhorlError("`pseudo.refine` compares at least 2 images with each other; set `pseudo.refine=0`")
        seed = self.purpose.seed
        turns, views = rotation_head(model.dim, 1, seed), projector(model.dim, seed)
        model.asides.update({"rotations": turns, "contrast": views})
        self.runtime.place(model.asides)
        asides = Rotations(turns, by_class=False), Contrast(views, self.inputs)
        data = Samples(images, np.zeros(len(images), dtype=np.int64))
        phase = Phase("refine", data, _nothing, self.epochs, BATCH, OPTIM, sizes=SIZES, asides=asides)
        for _ in fit(phase, model, self.inputs, self.runtime, self.purpose, ticker):
            pass
        return fold(model.backbone)


def _nothing(batch: Batch) -> Tensor:
    """The images themselves have no labels, so only their further views count."""
    return batch.features.new_zeros(())
