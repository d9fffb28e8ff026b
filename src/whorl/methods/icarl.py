"""iCaRL (Rebuffi et al. 2017): sigmoid outputs, distillation, classification by the nearest mean of exemplars."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from whorl.methods.base import Conditions, Method, Phase, Step
from whorl.methods.losses import classify_and_distil, distil_sigmoids
from whorl.tree import Tree, merge


class Icarl(Method):
    """iCaRL: a sigmoid per class, distilled from the previous model; classifies by the nearest mean of exemplars."""

    name = "icarl"
    classifier = "nme"

    loss: Literal["bce", "ce_kd"] = "bce"
    """``bce`` is the original's sigmoid loss; ``ce_kd`` is PyCIL's, Eq. 2 + Eq. 1 with weight one."""
    width: int = Field(100, ge=1)
    """Divisor of the summed sigmoid loss: the number of classes of the benchmark."""
    temperature: float = Field(2.0, gt=0)
    """T of Eq. 1 in ``ce_kd``."""

    def plan(self, step: Step) -> list[Phase]:
        """One phase."""
        if self.loss == "bce":
            loss = distil_sigmoids(step, self.width)
        else:
            loss = classify_and_distil(step, self.temperature, weight=1.0)
        return [step.phase("train", step.new + step.exemplars, loss)]

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The original schedule and network for ``bce``, PyCIL's for ``ce_kd``; mirrored means except for photos."""
        own: Tree = {"memory": {"mirror": not conditions.photos}}
        if conditions.option("loss", "bce") == "bce":
            own = merge(own, {"net": {"final_relu": False}}, sigmoid_recipe(conditions))
        elif conditions.recipe == "paper":
            own = merge(own, _PYCIL)
        return merge(super().defaults(conditions), own)


_PYCIL: Tree = {
    "train": {"first_epochs": 200, "epochs": 170, "batch": 128},
    "optim": {
        "lr": 0.1, "weight_decay": 2e-4, "milestones": [80, 120],
        "first_weight_decay": 5e-4, "first_milestones": [60, 120, 170],
    },
}  # fmt: skip


def sigmoid_recipe(conditions: Conditions) -> Tree:
    """Constants for the sigmoid loss. Divided by ``width``, it needs about twenty times the learning rate of Eq. 2."""
    width = max(100, conditions.classes or 0)
    if conditions.recipe != "paper":
        return {"method": {"width": width}, "optim": {"lr": _SHORT_RATES[conditions.recipe], "weight_decay": 5e-5}}
    epochs, milestones, decay = (60, [20, 30, 40, 50], 1e-5) if conditions.photos else (70, [49, 63], 2e-5)
    return {
        "method": {"width": width},
        "train": {"first_epochs": epochs, "epochs": epochs, "batch": 128},
        "optim": {"lr": 2.0, "gamma": 0.2, "milestones": milestones, "weight_decay": decay},
    }


_SHORT_RATES = {"fast": 4.0, "demo": 2.0}
