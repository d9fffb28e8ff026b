"""Fine-tuning: train on the new samples only. The lower bound."""

from __future__ import annotations

from whorl.methods.base import PLAIN_TASK1, Method, Phase, Step
from whorl.methods.losses import classify
from whorl.tree import Tree


class Finetune(Method):
    """Cross-entropy (Eq. 2) on the new images only."""

    name = "finetune"
    needs_memory = False

    def plan(self, step: Step) -> list[Phase]:
        """One phase over the new samples."""
        return [step.phase("train", step.new, classify)]

    @property
    def task1(self) -> Tree:
        """Eq. 2 alone."""
        return PLAIN_TASK1
