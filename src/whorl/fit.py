"""The one loop over batches: trains a phase, epoch by epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from whorl.data.inputs import Inputs, scaled
from whorl.data.source import batches
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Phase
from whorl.nets.model import Model, Output
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.schedule import learning_rate
from whorl.sections import MOST_RATE, OptimConfig
from whorl.seeds import generator
from whorl.types import IntArray

CHECK_EVERY = 100
"""Batches between two checks that the loss is finite; each check synchronises with the device."""


@dataclass(frozen=True)
class Epoch:
    """A finished epoch."""

    epoch: int
    loss: float
    lr: float
    images: int
    seconds: float
    optimiser: dict[str, Tensor]
    """The state of the optimiser, as ``PARAMETER/NAME``."""


@dataclass(frozen=True)
class Purpose:
    """What random numbers are drawn for: the seed, and the task and phase that is trained."""

    seed: int
    task: int
    phase: int

    def generator(self, use: str, epoch: int) -> torch.Generator:
        """The generator for one use in one epoch."""
        return generator(self.seed, use, self.task, self.phase, epoch)

    def generators(self, epoch: int) -> list[torch.Generator]:
        """Those for the order of samples, random views, noise on gradients, and asides."""
        return [self.generator(use, epoch) for use in ("shuffle", "augment", "noise", "aside")]


def fit(
    phase: Phase,
    model: Model,
    inputs: Inputs,
    runtime: Runtime,
    purpose: Purpose,
    ticker: Ticker,
    start: tuple[int, Mapping[str, Tensor]] = (0, {}),
) -> Generator[Epoch, None, None]:
    """Train ``model`` in place and yield after each epoch.

    All random numbers depend on ``purpose`` and the epoch alone, so starting from (epoch, state of the optimiser after
    the previous epoch) continues exactly where an earlier call stopped.
    """
    inputs = phase.inputs or inputs
    with _trainable(phase, model) as parameters:
        optimiser = _optimiser(parameters, phase.optim)
        _restore(optimiser, model, start[1])
        forward, labels = runtime.forward(model), torch.from_numpy(phase.data.labels)
        model.train(phase.mode == "train")
        paired = phase.mode == "train" and any(isinstance(one, _BatchNorm) for one in model.modules())
        for epoch in range(start[0], phase.epochs):
            shuffle, views, noise, aside_draws = purpose.generators(epoch)
            plan = phase.batches(shuffle) if phase.batches else _batches(phase, shuffle, paired)
            total, images, lr = torch.zeros((), device=runtime.device), 0, phase.optim.lr
            started = time.perf_counter()
            samples = batches(phase.data.images, plan, runtime.workers)
            for number, (index, stored) in enumerate(zip(plan, samples, strict=True)):
                lr = learning_rate(phase.optim, epoch * len(plan) + number, len(plan), phase.epochs)
                if not lr <= MOST_RATE:  # ``gamma`` may raise it without limit
                    raise _diverged(phase, epoch)
                for group in optimiser.param_groups:
                    group["lr"] = lr
                x = runtime.inputs(scaled(inputs.train(stored.to(runtime.device), views), phase.share(epoch)))
                y = labels[torch.from_numpy(index)].to(runtime.device)
                further = [aside.views(x, y, aside_draws) for aside in phase.asides]
                with runtime.autocast():
                    out: Output = forward(torch.cat([x, *(extra for extra, _ in further)]) if further else x)
                    batch = Batch(x, y, out.logits[: len(x)], out.features[: len(x)], number)
                    loss, others = phase.loss(batch), out.features[len(x) :]
                    for aside, (extra, targets) in zip(phase.asides, further, strict=True):
                        mine, others = others[: len(extra)], others[len(extra) :]
                        loss = loss + aside.loss(batch.features, mine, targets)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                if phase.noise:
                    _disturb(optimiser, phase.noise(epoch, len(index)), noise)
                optimiser.step()
                if phase.after:
                    phase.after(batch)
                total += loss.detach() * len(index)
                images += len(index)
                ticker.tick(len(x) + sum(len(extra) for extra, _ in further), loss.detach())
                if number % CHECK_EVERY == 0:
                    _check(loss, phase, epoch)
            _check(total, phase, epoch)
            seconds = time.perf_counter() - started
            yield Epoch(epoch, total.item() / max(images, 1), lr, images, seconds, _state(optimiser, model))


def _batches(phase: Phase, draws: torch.Generator, paired: bool) -> list[IntArray]:
    """All samples in random order. Where batch norm needs two samples (``paired``), a last batch of one is dropped."""
    n = len(phase.data)
    if paired and n < 2:
        raise WhorlError("there is only one image to train on, and batch norm needs two; use more images")
    parts = [part.numpy() for part in torch.split(torch.randperm(n, generator=draws), phase.batch)]
    return parts[:-1] if paired and len(parts) > 1 and len(parts[-1]) == 1 else parts


@contextmanager
def _trainable(phase: Phase, model: Model) -> Iterator[list[nn.Parameter]]:
    """The parameters that the phase trains; meanwhile no other parameter has a gradient."""
    before = {parameter: parameter.requires_grad for parameter in model.parameters()}
    chosen = set(phase.trains) if phase.trains is not None else {p for p, trains in before.items() if trains}
    for parameter in before:
        parameter.requires_grad_(parameter in chosen)
    try:
        yield [parameter for parameter in before if parameter in chosen]
    finally:
        for parameter, trains in before.items():
            parameter.requires_grad_(trains)


def _optimiser(parameters: list[nn.Parameter], optim: OptimConfig) -> torch.optim.Optimizer:
    if optim.name == "adamw":
        return torch.optim.AdamW(parameters, optim.lr, weight_decay=optim.weight_decay)
    return torch.optim.SGD(
        parameters, optim.lr, optim.momentum, nesterov=optim.nesterov, weight_decay=optim.weight_decay
    )


def _disturb(optimiser: torch.optim.Optimizer, deviation: float, draws: torch.Generator) -> None:
    """Add Gaussian noise to every gradient. A parameter that the loss does not depend on has none."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            parameter.grad += deviation * torch.randn(parameter.shape, generator=draws).to(parameter)


def _state(optimiser: torch.optim.Optimizer, model: Model) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.detach().to("cpu", copy=True)
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _restore(optimiser: torch.optim.Optimizer, model: Model, state: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for full, value in state.items():
        name, _, key = full.rpartition("/")
        parameter = parameters[name]
        # AdamW counts its steps in a tensor on the CPU.
        optimiser.state[parameter][key] = value.clone() if key == "step" else value.to(parameter, copy=True)


def _check(loss: Tensor, phase: Phase, epoch: int) -> None:
    if not math.isfinite(loss.item()):
        raise _diverged(phase, epoch)


class Diverged(WhorlError):
    """The loss of a phase is not finite."""


def _diverged(phase: Phase, epoch: int) -> Diverged:
    lower = f"`{phase.rate_key}={phase.optim.lr / 4:g}`"
    return Diverged(
        f"the loss is not finite in phase {phase.name!r}, epoch {epoch + 1}: training diverged; "
        f"try a lower learning rate, for instance {lower}. Everything saved before is kept"
    )
