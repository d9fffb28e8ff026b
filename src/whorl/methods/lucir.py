"""LUCIR (Hou et al. 2019): cosine head, less-forget constraint on features, margin between old and new classes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from whorl.memory.nme import class_means
from whorl.methods.base import Batch, Conditions, Method, Phase, Step
from whorl.methods.losses import classify, less_forget, margin_ranking
from whorl.nets.heads import CosineHead
from whorl.tree import Tree, merge


class Lucir(Method):
    """LUCIR: cross-entropy on scaled cosines, less-forget and margin ranking; new rows imprinted, old rows frozen."""

    name = "lucir"
    head = "cosine"
    heads: ClassVar[tuple[str, ...]] = ("cosine",)
    final_relu = False

    less_forget: float = Field(5.0, ge=0)
    """Weight of the less-forget loss, before its factor sqrt(m/n); 10 for photos."""
    margin: float = Field(0.5, ge=0)
    negatives: int = Field(2, ge=1)
    """K: the number of nearest new classes in the margin ranking loss; all of them if there are fewer."""
    ranking: float = Field(1.0, ge=0)
    """Weight of the margin ranking loss."""
    imprint: bool = True
    """Initialise each new row of the head with the mean feature of its class or cluster."""

    def prepare(self, step: Step) -> None:
        """Imprint: each new row is the mean unit feature of its class, scaled to the mean norm of the old rows."""
        if step.initial or not self.imprint:
            return
        weight, known = step.head(CosineHead).weight, step.known
        means = class_means(step.features(step.new.images), step.new.labels, known + step.labelling.new)[known:]
        with torch.no_grad():
            weight[known:] = torch.from_numpy(means).to(weight) * weight[:known].norm(dim=1).mean()

    def plan(self, step: Step) -> list[Phase]:
        """One phase."""
        if step.initial:
            return [step.phase("train", step.new, classify)]
        head, known = step.head(CosineHead), step.known
        rows = head.weight.detach()[:known].clone()
        absent = known + step.labelling.new - step.delivered
        forget = self.less_forget * math.sqrt(absent / step.delivered)
        negatives = min(self.negatives, step.labelling.new)

        def loss(batch: Batch) -> Tensor:
            total = classify(batch) + forget * less_forget(batch.features, step.teacher(batch.images).features)
            if self.ranking == 0 or negatives == 0:
                return total
            cosines = head.cosines(batch.features)
            return total + self.ranking * margin_ranking(cosines, batch.labels, known, negatives, self.margin)

        def hold(_: Batch) -> None:
            """Undo any change of the old rows by gradient, momentum or weight decay."""
            with torch.no_grad():
                head.weight[:known] = rows

        return [replace(step.phase("train", step.new + step.exemplars, loss), after=hold)]

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The authors' schedules."""
        own: Tree = {
            "method": {"less_forget": 10.0 if conditions.photos else 5.0},
            "memory": {"mirror": not conditions.photos},
        }
        if conditions.recipe == "paper":
            epochs, milestones, decay = (90, [30, 60], 1e-4) if conditions.photos else (160, [80, 120], 5e-4)
            own["train"] = {"first_epochs": epochs, "epochs": epochs, "batch": 128}
            own["optim"] = {"lr": 0.1, "milestones": milestones, "weight_decay": decay}
        return merge(super().defaults(conditions), own)
