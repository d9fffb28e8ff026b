"""WA, weight aligning (Zhao et al. 2020): scale the new rows of the head to the mean norm of the old rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from whorl.config import LearnerConfig
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Conditions, Method, Phase, Step
from whorl.methods.losses import distil
from whorl.tree import Tree, merge


class Wa(Method):
    """WA: Eq. 3 with non-negative weights in the head; after the step, the new rows are aligned."""

    name = "wa"
    head = "linear-nobias"
    heads: ClassVar[tuple[str, ...]] = ("linear-nobias", "linear")

    temperature: float = Field(2.0, gt=0)
    norm: Literal[1, 2] = 2
    """The norm of a row: 2 as in most implementations, 1 as in the authors' code."""
    clip: bool = True
    """Clip negative weights of the head to zero after each update."""
    reinit: bool = False
    """Reinitialise the whole head before each step, as the authors' code does."""
    profile: Literal["practical", "full"] = "practical"
    """The schedule of ``recipe=paper`` for small images: 170 epochs in batches of 128, or the authors' 250 of 32."""

    def prepare(self, step: Step) -> None:
        """Reinitialise the head, if ``reinit`` is set."""
        if self.reinit and not step.initial:
            step.model.reset_head()

    def plan(self, step: Step) -> list[Phase]:
        """One phase."""
        weight = step.model.head.weight

        def non_negative(_: Batch) -> None:
            with torch.no_grad():
                weight.clamp_(min=0)

        phase = step.phase("train", step.new + step.exemplars, distil(step, self.temperature))
        return [replace(phase, after=non_negative) if self.clip else phase]

    def settle(self, step: Step) -> dict[str, float]:
        """Align the new rows; a bias is not changed."""
        if step.initial or not step.labelling.new:
            return {}
        weight = step.model.head.weight
        gamma = alignment(weight, step.known, self.norm)
        with torch.no_grad():
            weight[step.known :] *= gamma
        return {"gamma": gamma}

    def check(self, config: LearnerConfig, sizes: Sequence[int], labelled: bool) -> None:
        """The norm of a row reflects the size of its logits only if weights and features are non-negative."""
        super().check(config, sizes, labelled)
        if self.clip and not config.net.final_relu:
            raise WhorlError(
                "wa clips negative weights and needs non-negative features; "
                "set `net.final_relu=true`, or `method.clip=false` as well"
            )

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The authors' schedule for photos and in ``full``, else a shorter one. No clipping for vectors."""
        own: Tree = {}
        if conditions.recipe == "paper" and conditions.photos:
            own = _schedule(100, 256, [30, 60, 80, 90], 1e-4, by_task=True)
        elif conditions.recipe == "paper" and conditions.option("profile", None) == "full":
            own = _schedule(250, 32, [100, 150, 200], 1e-4, by_task=True)
        elif conditions.recipe == "paper":
            own = _schedule(170, 128, [60, 100, 140], 2e-4, by_task=False)
        if conditions.vectors:
            own = merge(own, {"method": {"clip": False}, "net": {"final_relu": False}})
        return merge(super().defaults(conditions), own)


def alignment(weight: Tensor, known: int, norm: int = 2) -> float:
    """gamma: the mean norm of the old rows over that of the new ones, at most 1."""
    norms = weight.detach().norm(p=norm, dim=1)
    old, new = float(norms[:known].mean()), float(norms[known:].mean())
    return old / new if new > old else 1.0


def _schedule(epochs: int, batch: int, milestones: list[int], decay: float, by_task: bool) -> Tree:
    return {
        "train": {"first_epochs": epochs, "epochs": epochs, "batch": batch},
        "optim": {"lr": 0.1, "milestones": milestones, "weight_decay": decay, "decay_by_task": by_task},
    }
