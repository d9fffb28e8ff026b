"""Joint training: train on all samples so far in every step. The upper bound."""

from __future__ import annotations

from whorl.methods.base import PLAIN_TASK1, Method, Phase, Step
from whorl.methods.losses import classify
from whorl.tree import Tree


class Joint(Method):
    """Cross-entropy (Eq. 2) on all images so far, with the labels they were learned with."""

    name = "joint"
    needs_memory = False
    needs_past = True

    def plan(self, step: Step) -> list[Phase]:
        """One phase over all samples."""
        data = step.new
        for samples in step.past:
            data = data + samples
        return [step.phase("train", data, classify)]

    @property
    def task1(self) -> Tree:
        """Eq. 2 alone."""
        return PLAIN_TASK1
