"""Joint training: every image seen so far, each step. The upper bound."""

from __future__ import annotations

from whorl.config import Tree
from whorl.methods.base import PLAIN_FIRST_TASK, Method, Phase, Step
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

    @property
    def first_task(self) -> Tree:
        """Nothing but Eq. 2."""
        return PLAIN_FIRST_TASK
