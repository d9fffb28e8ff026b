"""Learning rates against torch's own schedulers."""

from __future__ import annotations

import pytest
import torch

from whorl.schedule import learning_rate
from whorl.sections import OptimConfig


def reference(kind: str, epochs: int, per_epoch: int) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2)
    if kind == "onecycle":
        scheduler: torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, 0.2, total_steps=epochs * per_epoch, cycle_momentum=False
        )
    else:
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimiser, [2, 4], 0.1)
    rates = []
    for _ in range(epochs):
        for _ in range(per_epoch):
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            if kind == "onecycle":
                scheduler.step()
        if kind == "steps":
            scheduler.step()
    return rates


@pytest.mark.parametrize("kind", ["onecycle", "steps"])
@pytest.mark.parametrize(("epochs", "per_epoch"), [(6, 7), (20, 79), (5, 2)])
def test_against_torch(kind: str, epochs: int, per_epoch: int) -> None:
    optim = OptimConfig(lr=0.2, schedule=kind, milestones=(2, 4))
    ours = [learning_rate(optim, step, per_epoch, epochs) for step in range(epochs * per_epoch)]
    assert ours == pytest.approx(reference(kind, epochs, per_epoch), rel=1e-9, abs=1e-12)


def test_constant_and_the_shortest_phase() -> None:
    assert learning_rate(OptimConfig(lr=0.3, schedule="constant"), 5, 2, 4) == 0.3
    assert 0 < learning_rate(OptimConfig(lr=0.3, schedule="onecycle"), 0, 1, 1) <= 0.3
