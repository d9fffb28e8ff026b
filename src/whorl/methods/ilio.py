"""ILIO, incremental learning in online scenario (He et al. 2020): every new image is used once, in a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from whorl.config import LearnerConfig
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Conditions, Load, Method, Phase, Step
from whorl.methods.losses import classify, modified_cross_distillation
from whorl.nets.asides import views_per_image
from whorl.nets.heads import MeansHead
from whorl.sections import MOST_RATE, TrainConfig
from whorl.tree import Tree, merge
from whorl.types import IntArray


class Ilio(Method):
    """ILIO: online learning in blocks of two updates, one with distillation and one balanced by exemplars."""

    name = "ilio"
    head = "means"
    heads: ClassVar[tuple[str, ...]] = ("means",)
    online = True

    temperature: float = Field(2.0, gt=0)
    accommodation: float = Field(0.5, ge=0, le=1)
    """beta: the weight of the student in the old logits of the modified cross-entropy."""
    block: int = Field(16, ge=2)
    lr: float = Field(0.01, gt=0, le=MOST_RATE)
    """The constant learning rate of the online phase."""
    weight_decay: float = Field(1e-5, ge=0, le=MOST_RATE)
    """The weight decay of the online phase."""
    strict: bool = False
    """Use each new image in one update only: the balanced update has exemplars alone."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase; after the initial step it is a single pass."""
        if step.initial:
            return [step.phase("train", step.new, classify)]
        head = step.head(MeansHead)

        def loss(batch: Batch) -> Tensor:
            if _is_block(batch):
                teacher = step.teacher(batch.images).logits
                return modified_cross_distillation(
                    batch.logits, batch.labels, teacher, self.temperature, self.accommodation, step.alpha
                )
            return classify(batch)

        def observe(batch: Batch) -> None:
            if _is_block(batch):
                head.observe(batch.features.detach(), batch.labels)

        online = {"lr": self.lr, "schedule": "constant", "weight_decay": self.weight_decay}
        return [
            replace(
                step.phase("online", step.new + step.exemplars, loss),
                epochs=1,
                batch=self.block,
                optim=step.optim.model_copy(update=online),
                batches=partial(paired, len(step.new), len(step.exemplars), self.block, self.strict),
                after=observe,
                rate_key="method.lr",
            )
        ]

    def settle(self, step: Step) -> dict[str, float]:
        """After the initial step, compute the class means from its images."""
        if step.initial:
            head = step.head(MeansHead)
            features = torch.from_numpy(step.features(step.new.images)).to(head.means)
            head.observe(features, torch.from_numpy(step.new.labels).to(features.device))
        return {}

    def passes(self, train: TrainConfig, load: Load) -> int:
        """Each block, and then the block with as many exemplars."""
        if load.number == 1:
            return super().passes(train, load)
        return round(views_per_image(train.asides(initial=False)) * load.new * (2 if self.strict else 3))

    def check(self, config: LearnerConfig, sizes: Sequence[int], labelled: bool) -> None:
        """The number of epochs after the initial step is fixed."""
        super().check(config, sizes, labelled)
        if config.train.epochs != 1:
            raise WhorlError(
                "ilio uses each new image once, so `train.epochs` must be 1; "
                "`train.first_epochs` sets the epochs of its initial, offline step"
            )

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """One epoch after the initial step."""
        return merge(super().defaults(conditions), {"train": {"epochs": 1}})


def _is_block(batch: Batch) -> bool:
    return batch.number % 2 == 0


def paired(new: int, old: int, size: int, strict: bool, draws: torch.Generator) -> list[IntArray]:
    """Blocks of new images, each followed by the block with as many exemplars, which are used in turn.

    Positions from ``new`` on are exemplars. A last block of one image is merged into the one before.
    """
    blocks = [part.numpy() for part in torch.split(torch.randperm(new, generator=draws), size)]
    if len(blocks) > 1 and len(blocks[-1]) == 1:
        blocks[-2:] = [np.concatenate(blocks[-2:])]
    turn = new + torch.randperm(old, generator=draws).numpy()
    plan, used = [], 0
    for block in blocks:
        rehearsed = np.take(turn, np.arange(used, used + len(block)), mode="wrap")
        used += len(block)
        plan += [block, rehearsed if strict else np.concatenate([block, rehearsed])]
    return plan
