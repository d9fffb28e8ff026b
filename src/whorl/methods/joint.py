"""Joint training: every image seen so far, each step. The upper bound."""

from __future__ import annotations

from whorl.methods.base import Method, Phase, Step
from whorl.methods.losses import classify


class Joint(Method):
    """Cross-entropy (Eq. 2) on all images so far, with the labels they were first learned with."""

    name = "joint"
    needs_memory = False
    needs_past = True

    def plan(self, step: Step) -> list[Phase]:
        """One phase over everything."""
        data = step.new
        for samples in step.past:
            data = data + samples
        return [step.phase("train", data, classify)]
