"""Fine-tuning: train on what arrives and on nothing else. The lower bound."""

from __future__ import annotations

from whorl.config import Tree
from whorl.methods.base import PLAIN_FIRST_TASK, Method, Phase, Step
from whorl.methods.losses import classify


class Finetune(Method):
    """Cross-entropy (Eq. 2) on the new images only."""

    name = "finetune"
    needs_memory = False

    def plan(self, step: Step) -> list[Phase]:
        """One phase over the new images."""
        return [step.phase("train", step.new, classify)]

    @property
    def first_task(self) -> Tree:
        """Nothing but Eq. 2."""
        return PLAIN_FIRST_TASK
