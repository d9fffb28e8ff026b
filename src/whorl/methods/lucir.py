"""LUCIR (Hou et al. 2019): a cosine head, features held in their direction, a margin between old and new."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from whorl.config import Config, Tree, merge
from whorl.errors import WhorlError
from whorl.memory.nme import class_means
from whorl.methods.base import Batch, Method, Phase, Setting, Step
from whorl.methods.losses import classify, less_forget, margin_ranking
from whorl.nets.heads import CosineHead


class Lucir(Method):
    """LUCIR: cross-entropy on scaled cosines, less-forget and margin ranking; new rows imprinted, old rows frozen."""

    name = "lucir"
    head = "cosine"
    heads = ("cosine",)
    final_relu = False

    less_forget: float = Field(5.0, ge=0)
    """The weight of less-forget before its factor sqrt(m/n); 10 for ImageNet."""
    margin: float = Field(0.5, ge=0)
    negatives: int = Field(2, ge=1)
    """K: how many of the nearest new classes the margin is kept to."""
    ranking: float = Field(1.0, ge=0)
    """The weight of margin ranking."""
    imprint: bool = True
    """Start each new row at its class's or cluster's mean."""

    def prepare(self, step: Step) -> None:
        """Imprint: each new row is its class's mean of unit features, as long as old rows are on average."""
        if step.task == 1 or not self.imprint:
            return
        weight, known = step.head(CosineHead).weight, step.known
        means = class_means(step.features(step.new.images), step.new.labels - known, step.sizes[-1])
        with torch.no_grad():
            weight[known:] = torch.from_numpy(means).to(weight) * weight[:known].norm(dim=1).mean()

    def plan(self, step: Step) -> list[Phase]:
        """One phase."""
        if step.task == 1:
            return [step.phase("train", step.new, classify)]
        head, known, new = step.head(CosineHead), step.known, step.sizes[-1]
        rows = head.weight.detach()[:known].clone()
        forget = self.less_forget * math.sqrt(known / new)

        def loss(batch: Batch) -> Tensor:
            total = classify(batch) + forget * less_forget(batch.features, step.teacher(batch.images).features)
            if self.ranking == 0:
                return total
            cosines = head.cosines(batch.features)
            return total + self.ranking * margin_ranking(cosines, batch.labels, known, self.negatives, self.margin)

        def hold(_: Batch) -> None:
            """Put the old rows back: neither a gradient, nor its momentum, nor decay may move them."""
            with torch.no_grad():
                head.weight[:known] = rows

        return [replace(step.phase("train", step.new + step.exemplars, loss), after=hold)]

    def check(self, config: Config, sizes: Sequence[int]) -> None:
        """K new classes must be there to choose from."""
        super().check(config, sizes)
        ranks = self.ranking > 0 and config.stream.tasks != 1
        if ranks and self.negatives > config.stream.step:
            raise WhorlError(
                f"lucir ranks against the {self.negatives} nearest new classes, but a task brings "
                f"{config.stream.step}; lower it with --set method.negatives={config.stream.step}"
            )

    @classmethod
    def defaults(cls, setting: Setting) -> Tree:
        """The authors' schedules."""
        own: Tree = {
            "method": {"less_forget": 10.0 if setting.imagenet else 5.0},
            "memory": {"mirror": not setting.imagenet},
        }
        if setting.recipe == "paper":
            epochs, milestones, decay = (90, [30, 60], 1e-4) if setting.imagenet else (160, [80, 120], 5e-4)
            own["train"] = {"first_epochs": epochs, "epochs": epochs, "batch": 128}
            own["optim"] = {"lr": 0.1, "milestones": milestones, "weight_decay": decay}
        return merge(super().defaults(setting), own)
