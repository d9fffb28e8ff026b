"""Fine-tuning: train on what arrives and on nothing else. The lower bound."""

from __future__ import annotations

from whorl.methods.base import Method, Phase, Step
from whorl.methods.losses import classify


class Finetune(Method):
    """Cross-entropy (Eq. 2) on the new images only."""

    name = "finetune"
    needs_memory = False

    def plan(self, step: Step) -> list[Phase]:
        """One phase over the new images."""
        return [step.phase("train", step.new, classify)]
