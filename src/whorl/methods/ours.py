"""The paper's own baseline: distillation from the last model (Eq. 1 to 3) and exemplars (Algorithm 2)."""

from __future__ import annotations

from pydantic import Field

from whorl.config import Tree
from whorl.methods.base import PLAIN_FIRST_TASK, Method, Phase, Step
from whorl.methods.losses import distil


class Ours(Method):
    """Cross-distillation (Eq. 3) on the new images and the exemplars, shuffled together."""

    name = "ours"

    temperature: float = Field(2.0, gt=0)
    """T of Eq. 1. The paper does not state it; 2 is what the methods it builds on use (A2)."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase: Eq. 2 alone in task 1, Eq. 3 afterwards."""
        return [step.phase("train", step.new + step.exemplars, distil(step, self.temperature))]

    @property
    def first_task(self) -> Tree:
        """Nothing but Eq. 2."""
        return PLAIN_FIRST_TASK
