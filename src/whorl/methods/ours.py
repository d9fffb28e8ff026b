"""The paper's own baseline: distillation from the previous model (Eq. 1 to 3) and exemplars (Algorithm 2)."""

from __future__ import annotations

from pydantic import Field

from whorl.methods.base import PLAIN_TASK1, Method, Phase, Step
from whorl.methods.losses import distil
from whorl.tree import Tree


class Ours(Method):
    """Cross-distillation (Eq. 3) on the new images and the exemplars, shuffled together."""

    name = "ours"

    temperature: float = Field(2.0, gt=0)
    """T of Eq. 1. The paper does not state it; 2 is common (docs/protocol.md, A2)."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase: Eq. 2 alone in the initial step, Eq. 3 afterwards."""
        return [step.phase("train", step.new + step.exemplars, distil(step, self.temperature))]

    @property
    def task1(self) -> Tree:
        """Eq. 2 alone."""
        return PLAIN_TASK1
