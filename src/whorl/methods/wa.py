"""WA, weight aligning (Zhao et al. 2020): the new rows of the head are scaled to the old rows' mean norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from whorl.config import Config, Tree, merge
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Method, Phase, Setting, Step
from whorl.methods.losses import distil


class Wa(Method):
    """WA: Eq. 3 with the head's weights kept at zero or above; after the step, its new rows are aligned."""

    name = "wa"
    head = "linear-nobias"
    heads = ("linear-nobias", "linear")

    temperature: float = Field(2.0, gt=0)
    norm: Literal[1, 2] = 2
    """The norm of a row: 2 as in most code, 1 as in the authors'."""
    clip: bool = True
    """Clip the head's weights to zero or above after each update."""
    reinit: bool = False
    """Draw the whole head anew before each step, as the authors' code does."""
    profile: Literal["practical", "full"] = "practical"
    """The schedule of ``--recipe paper`` for CIFAR: 170 epochs in batches of 128, or the authors' 250 of 32."""

    def prepare(self, step: Step) -> None:
        """Draw the head anew, where that was asked for."""
        if self.reinit and step.task > 1:
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
        """Align; a bias, where there is one, stays as it is."""
        if step.task == 1:
            return {}
        weight = step.model.head.weight
        gamma = alignment(weight, step.known, self.norm)
        with torch.no_grad():
            weight[step.known :] *= gamma
        return {"gamma": gamma}

    def check(self, config: Config, sizes: Sequence[int]) -> None:
        """A row's length says how large its logits are only where neither weights nor features are negative."""
        super().check(config, sizes)
        if self.clip and not config.net.final_relu:
            raise WhorlError(
                "wa keeps weights at zero or above and needs features that are too; "
                "leave net.final_relu=true, or set method.clip=false as well"
            )

    @classmethod
    def defaults(cls, setting: Setting) -> Tree:
        """The authors' schedule for ImageNet and in ``full``, a shorter one else."""
        own: Tree = {}
        if setting.recipe == "paper" and setting.imagenet:
            own = _schedule(100, 256, [30, 60, 80, 90], 1e-4, by_task=True)
        elif setting.recipe == "paper" and setting.options.get("profile") == "full":
            own = _schedule(250, 32, [100, 150, 200], 1e-4, by_task=True)
        elif setting.recipe == "paper":
            own = _schedule(170, 128, [60, 100, 140], 2e-4, by_task=False)
        return merge(super().defaults(setting), own)


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
