"""The learning rate as a pure function of the position in a phase, so that there is no scheduler state to save."""

from __future__ import annotations

import math

from whorl.sections import OptimConfig

# One cycle: increase for this share of the phase, starting at a fraction of the peak, then decrease to almost zero.
WARM, START, END = 0.3, 1 / 25, 1 / 250_000


def learning_rate(optim: OptimConfig, step: int, steps_per_epoch: int, epochs: int) -> float:
    """The learning rate of update ``step`` (from 0) in a phase of ``epochs`` epochs."""
    if optim.schedule == "constant":
        return optim.lr
    if optim.schedule == "steps":
        epoch = step // steps_per_epoch
        return optim.lr * optim.gamma ** sum(epoch >= milestone for milestone in optim.milestones)
    last = max(1, steps_per_epoch * epochs - 1)
    top = WARM * (last + 1) - 1
    if step <= top:
        return _cosine(optim.lr * START, optim.lr, step / max(top, 1))
    return _cosine(optim.lr, optim.lr * END, (step - top) / (last - top))


def _cosine(begin: float, end: float, share: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * min(share, 1.0))) / 2
