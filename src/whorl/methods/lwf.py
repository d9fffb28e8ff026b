"""LwF (Li & Hoiem 2016) with one growing head: distillation without exemplars."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from whorl.methods.base import Conditions, Method, Phase, Step
from whorl.methods.icarl import sigmoid_recipe
from whorl.methods.losses import classify_and_distil, distil, distil_sigmoids
from whorl.tree import Tree, merge


class Lwf(Method):
    """LwF: distillation from the previous model on the new images alone; three variants of the loss."""

    name = "lwf"
    needs_memory = False

    variant: Literal["mc_bce", "local_ce", "eq3"] = "mc_bce"
    """``mc_bce`` is iCaRL's loss without exemplars (LwF.MC), ``local_ce`` PyCIL's, ``eq3`` the paper's Eq. 3."""
    width: int = Field(100, ge=1)
    """Divisor of the summed sigmoid loss of ``mc_bce``: the number of classes of the benchmark."""
    temperature: float = Field(2.0, gt=0)
    """T of Eq. 1 in ``local_ce`` and ``eq3``."""
    weight: float = Field(3.0, ge=0)
    """Weight of distillation in ``local_ce``."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase. In ``local_ce``, cross-entropy is computed over the classes of the delivery only."""
        if self.variant == "mc_bce":
            loss = distil_sigmoids(step, self.width)
        elif self.variant == "local_ce":
            loss = classify_and_distil(step, self.temperature, self.weight, own=True)
        else:
            loss = distil(step, self.temperature)
        return [step.phase("train", step.new, loss)]

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """iCaRL's schedule for ``mc_bce``, PyCIL's for ``local_ce``, the recipe's for ``eq3``."""
        own: Tree = {}
        variant = conditions.option("variant", "mc_bce")
        if variant == "mc_bce":
            own = sigmoid_recipe(conditions)
        elif variant == "local_ce" and conditions.recipe == "paper":
            own = _PYCIL
        return merge(super().defaults(conditions), own)


_PYCIL: Tree = {
    "train": {"first_epochs": 200, "epochs": 250, "batch": 128},
    "optim": {
        "lr": 0.1, "weight_decay": 2e-4, "milestones": [60, 120, 180, 220],
        "first_weight_decay": 5e-4, "first_milestones": [60, 120, 160],
    },
}  # fmt: skip
