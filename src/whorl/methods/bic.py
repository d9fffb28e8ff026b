"""BiC, bias correction (Wu et al. 2019): two scalars, fitted on held-out images, correct the newest logits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from whorl.config import LearnerConfig
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Conditions, Load, Method, Phase, Step
from whorl.methods.losses import cross_entropy, distil
from whorl.nets.heads import CorrectedHead
from whorl.sections import MOST_RATE, OptimConfig, TrainConfig
from whorl.tree import Tree, merge


class Bic(Method):
    """BiC: Eq. 3 with the corrected previous model as teacher, then bias correction on held-out images."""

    name = "bic"
    head = "corrected"
    heads: ClassVar[tuple[str, ...]] = ("corrected",)

    temperature: float = Field(2.0, gt=0)
    every: int = Field(10, ge=2)
    """One in ``every`` exemplars of a class is held out; 10 is the authors' split of 9 to 1."""
    correction_epochs: int = Field(200, ge=0)
    correction_lr: float = Field(0.1, gt=0, le=MOST_RATE)
    penalty: float = Field(0.1, ge=0)
    """Weight of gamma² / 2 when the correction is fitted."""

    @property
    def hold_out_every(self) -> int:
        """The option ``every``."""
        return self.every

    def plan(self, step: Step) -> Iterator[Phase]:
        """Train the network; after the initial step, also train the two scalars alone."""
        if step.initial and not len(step.validation):
            raise WhorlError(
                f"bic holds out one in {self.every} images of a class, but every class has fewer; use more images"
                + (" or lower `method.every`" if self.every > 2 else "")
            )
        yield step.phase("train", step.new + step.exemplars, distil(step, self.temperature))
        if step.initial:
            return
        if not _can_fit(step):
            if step.labelling.new:
                warnings.warn(
                    f"bic: no images of old and new classes were held out for delivery {step.number}", stacklevel=1
                )
            return
        head = step.head(CorrectedHead)

        def loss(batch: Batch) -> Tensor:
            return cross_entropy(batch.logits, batch.labels) + self.penalty * head.gamma.square() / 2

        yield Phase(
            "correct",
            step.validation,
            loss,
            self.correction_epochs,
            step.train.batch,
            self._optim(),
            inputs=step.inputs.plain(),
            trains=(head.beta, head.gamma),
            mode="eval",
            rate_key="method.correction_lr",
        )

    def settle(self, step: Step) -> dict[str, float]:
        """Report the correction; the model is not changed."""
        head = step.head(CorrectedHead)
        return {"beta": float(head.beta), "gamma": float(head.gamma)} if _can_fit(step) else {}

    def _optim(self) -> OptimConfig:
        milestones = tuple(math.ceil(self.correction_epochs * tenths / 10) for tenths in (3, 6, 8, 9))
        return OptimConfig(lr=self.correction_lr, momentum=0.9, milestones=milestones)

    def passes(self, train: TrainConfig, load: Load) -> int:
        """Both phases."""
        held = load.balanced // self.every if load.number > 1 else 0
        return super().passes(train, load) + self.correction_epochs * held

    def check(self, config: LearnerConfig, sizes: Sequence[int], labelled: bool) -> None:
        """Each class must have an exemplar to hold out."""
        super().check(config, sizes, labelled)
        classes = max(sum(sizes), 1) if config.memory.policy == "total" else 1
        if config.memory.quota // classes < self.every:
            need = self.every * classes
            raise WhorlError(
                f"bic holds out one in {self.every} exemplars of a class, and `memory.quota={config.memory.quota}` "
                f"is too few for that; raise it to {need} or hold out more with `method.every=2`"
            )
        if not labelled and config.memory.reading == "recluster":
            raise WhorlError(
                "bic holds out images by pseudo label, and the reading recluster stores other ids; "
                "set `memory.reading` to aligned or reuse"
            )

    @classmethod
    def defaults(cls, conditions: Conditions) -> Tree:
        """The authors' schedules; the recipe demo fits the scalars in a fifth of the epochs."""
        own: Tree = {"method": {"correction_epochs": 40}} if conditions.recipe == "demo" else {}
        if conditions.recipe == "paper" and conditions.photos:
            own["train"] = {"first_epochs": 100, "epochs": 100, "batch": 256}
            # 1e-4 times the ten groups of its benchmark, divided by the number of the task.
            own["optim"] = {"lr": 0.1, "milestones": [30, 60, 80, 90], "weight_decay": 1e-3, "decay_by_task": True}
        elif conditions.recipe == "paper":
            own["train"] = {"first_epochs": 250, "epochs": 250, "batch": 128}
            own["optim"] = {"lr": 0.1, "milestones": [100, 150, 200], "weight_decay": 2e-4}
        return merge(super().defaults(conditions), own)


def _can_fit(step: Step) -> bool:
    """Whether images of both new and old classes were held out; very small clusters have none."""
    is_new = step.validation.labels >= step.known
    return bool(is_new.any() and not is_new.all())
