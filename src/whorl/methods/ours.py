"""The paper's own baseline: distillation from the last model (Eq. 1 to 3) and exemplars (Algorithm 2)."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from whorl.methods.base import Batch, Method, Phase, Step
from whorl.methods.losses import cross_distillation, cross_entropy


class Ours(Method):
    """Cross-distillation (Eq. 3) on the new images and the exemplars, shuffled together."""

    name = "ours"

    temperature: float = Field(2.0, gt=0)
    """T of Eq. 1. The paper does not state it; 2 is what the methods it builds on use (A2)."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase: Eq. 2 alone in task 1, Eq. 3 afterwards."""

        def loss(batch: Batch) -> Tensor:
            if step.task == 1:
                return cross_entropy(batch.logits, batch.labels)
            teacher = step.teacher(batch.images).logits
            return cross_distillation(batch.logits, batch.labels, teacher, self.temperature)

        return [step.phase("train", step.new + step.exemplars, loss)]
