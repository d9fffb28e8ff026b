"""EEIL (Castro et al. 2018): distillation per earlier delivery, then fine-tuning on a balanced set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from whorl.data.copies import Copies, kinds
from whorl.memory.select import SELECTORS, Selection, exemplars
from whorl.methods.base import Batch, Conditions, Load, Loss, Method, Phase, Samples, Step, Teacher
from whorl.methods.losses import cross_distillation, cross_entropy, headwise_distillation
from whorl.sections import MOST_RATE, TrainConfig
from whorl.seeds import derive
from whorl.tree import Tree, merge
from whorl.types import Labelling


class Eeil(Method):
    """EEIL: distillation within each earlier delivery's classes, then fine-tuning on a class-balanced set."""

    name = "eeil"

    temperature: float = Field(2.0, gt=0)
    loss: Literal["heads", "eq3"] = "heads"
    """``heads``: Eq. 2 plus Eq. 1 per earlier delivery; ``eq3``: the paper's Eq. 3 (docs/protocol.md, A34)."""
    profile: Literal["twelve", "light"] = "twelve"
    """``twelve`` trains on twelve fixed copies of each image, ``light`` on random views."""
    balanced_epochs: int = Field(30, ge=0)
    balanced_lr: float = Field(0.01, gt=0, le=MOST_RATE)
    noise: float = Field(0.0, ge=0)
    """eta of the gradient noise; the authors use 0.3."""

    def plan(self, step: Step) -> Iterator[Phase]:
        """Train on all samples; after the initial step, also on a balanced set."""
        train = step.phase("train", step.new + step.exemplars, self._loss(step.teacher, step.sizes[:-1], step.alpha))
        yield self._varied(step, train, done=0)
        if step.initial or self.balanced_epochs == 0:
            return
        milestones = tuple(math.ceil(self.balanced_epochs * third / 3) for third in (1, 2))
        steps = {"lr": self.balanced_lr, "schedule": "steps", "milestones": milestones, "gamma": 0.1}
        balance = replace(
            train,
            name="balance",
            data=balanced(step),
            loss=self._loss(step.freeze(), step.sizes, None),
            epochs=self.balanced_epochs,
            optim=step.optim.model_copy(update=steps),
            sizes=(),
            asides=(),
            rate_key="method.balanced_lr",
        )
        yield self._varied(step, balance, done=train.epochs)

    def _loss(self, teacher: Teacher, sizes: Sequence[int], alpha: float | None) -> Loss:
        """Cross-entropy, and distillation from a teacher that learned these numbers of classes per delivery.

        ``alpha`` is the weight of distillation in Eq. 3, None where the teacher knows all classes.
        """

        def loss(batch: Batch) -> Tensor:
            if not sizes:
                return cross_entropy(batch.logits, batch.labels)
            target = teacher(batch.images).logits
            if self.loss == "eq3" and alpha is not None:
                return cross_distillation(batch.logits, batch.labels, target, self.temperature, alpha)
            heads = sizes if self.loss == "heads" else [sum(sizes)]
            return cross_entropy(batch.logits, batch.labels) + headwise_distillation(
                batch.logits, target, heads, self.temperature
            )

        return loss

    def _varied(self, step: Step, phase: Phase, done: int) -> Phase:
        """The phase with EEIL's augmentation and gradient noise; ``done`` epochs of the step come before it."""
        noise = (lambda epoch, images: self.noise / images / (1 + done + epoch) ** 0.55) if self.noise else None
        if step.inputs.view == "none":
            return replace(phase, noise=noise)
        if phase.name == "balance" and step.inputs.photos:
            return replace(phase, noise=noise, inputs=step.inputs.plain())  # as the authors do for ImageNet
        if self.profile == "light":
            return replace(phase, noise=noise, inputs=step.inputs.jittered())
        copies = Copies(phase.data.images, step.inputs, derive(step.seed, phase.name))
        data = Samples(copies, np.tile(phase.data.labels, copies.kinds))
        return replace(phase, noise=noise, data=data, inputs=step.inputs.plain())

    def passes(self, train: TrainConfig, load: Load) -> int:
        """Both phases, with all copies of each image."""
        balanced = self.balanced_epochs * load.balanced if load.number > 1 else 0
        copies = len(kinds(load.inputs)) if self.profile == "twelve" else 1
        return super().passes(train, load) * copies + balanced * (1 if load.inputs.photos else copies)

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The authors' schedule for ``twelve``, that of re-implementations for ``light``."""
        profile = conditions.option("profile", "twelve" if conditions.recipe == "paper" else "light")
        own: Tree = {"method": {"profile": profile}}
        if conditions.recipe == "paper":
            first, epochs, own["optim"] = _TWELVE if profile == "twelve" else _LIGHT
            if conditions.photos and profile == "twelve":
                first, own["optim"] = 60, own["optim"] | {"first_milestones": [15, 30, 45]}
            own["train"] = {"first_epochs": first, "epochs": epochs, "batch": 128}
        return merge(super().defaults(conditions), own)


_TWELVE = 100, 40, {
    "lr": 0.1, "weight_decay": 1e-4, "milestones": [10, 20, 30], "first_milestones": [25, 50, 75],
}  # fmt: skip
_LIGHT = 90, 60, {"lr": 0.1, "weight_decay": 1e-4, "milestones": [40, 50], "first_milestones": [50, 60]}


def balanced(step: Step) -> Samples:
    """The exemplars, and as many samples of each new class, herded with the model as it is now."""
    rows = np.flatnonzero(step.new.labels >= step.known)
    if not len(rows):
        return step.exemplars
    herding = Selection(SELECTORS["herding"], step.memory.per_class(step.known), step.seed)
    labels = Labelling(step.new.labels[rows], step.known, step.labelling.new)
    chosen, _ = exemplars(step.features(step.new.images)[rows], labels, herding)
    return step.exemplars + step.new[rows[chosen]]
