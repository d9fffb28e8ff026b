"""The one loop over batches: runs a phase, epoch by epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whorl.data.augment import Augment
from whorl.data.source import batches
from whorl.errors import WhorlError
from whorl.methods.base import Batch, Phase
from whorl.nets.model import Model, Output
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.schedule import learning_rate
from whorl.seeds import generator
from whorl.types import IntArray

CHECK_EVERY = 100
"""Batches between two looks at the loss, which stop the device for a moment."""


@dataclass(frozen=True)
class Epoch:
    """An epoch that has just ended."""

    epoch: int
    loss: float
    lr: float
    images: int
    seconds: float
    momenta: dict[str, Tensor]


def fit(
    phase: Phase,
    model: Model,
    augment: Augment,
    runtime: Runtime,
    seed: int,
    purpose: tuple[int, ...],
    ticker: Ticker,
    start: int = 0,
    momenta: Mapping[str, Tensor] = {},
) -> Generator[Epoch, None, None]:
    """Train ``model`` in place and stop after each epoch to say so.

    All that is random is drawn from (``seed``, ``purpose``, epoch), so starting at epoch ``start`` with the momenta
    of the epoch before continues exactly where an earlier call stopped.
    """
    augment = phase.augment or augment
    with _learning(phase, model) as parameters:
        optim, labels = phase.optim, torch.from_numpy(phase.data.labels)
        optimiser = torch.optim.SGD(
            parameters, optim.lr, optim.momentum, nesterov=optim.nesterov, weight_decay=optim.weight_decay
        )
        _restore(optimiser, model, momenta)
        forward = runtime.forward(model)
        model.train(phase.mode == "train")
        for epoch in range(start, phase.epochs):
            shuffle = generator(seed, "shuffle", *purpose, epoch)
            plan = phase.batches(shuffle) if phase.batches else _batches(phase, shuffle)
            draws = generator(seed, "augment", *purpose, epoch)
            noise = generator(seed, "noise", *purpose, epoch)
            total, seen, lr = torch.zeros((), device=runtime.device), 0, optim.lr
            started = time.perf_counter()
            for number, (index, images) in enumerate(
                zip(plan, batches(phase.data.images, plan, runtime.workers), strict=True)
            ):
                lr = learning_rate(optim, epoch * len(plan) + number, len(plan), phase.epochs)
                for group in optimiser.param_groups:
                    group["lr"] = lr
                x = runtime.inputs(augment.train(images.to(runtime.device), draws))
                y = labels[torch.from_numpy(index)].to(runtime.device)
                with runtime.autocast():
                    out: Output = forward(x)
                    batch = Batch(x, y, out.logits, out.features, number)
                    loss = phase.loss(batch)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                if phase.noise:
                    _disturb(optimiser, phase.noise(epoch, len(index)), noise)
                optimiser.step()
                if phase.after:
                    phase.after(batch)
                total += loss.detach() * len(index)
                seen += len(index)
                ticker.tick(len(index), loss.detach())
                if number % CHECK_EVERY == 0:
                    _check(loss, phase, epoch, optim.lr)
            _check(total, phase, epoch, optim.lr)
            seconds = time.perf_counter() - started
            yield Epoch(epoch, total.item() / max(seen, 1), lr, seen, seconds, _momenta(optimiser, model))


def _batches(phase: Phase, draws: torch.Generator) -> list[IntArray]:
    """A shuffled pass. A last batch of a single image is left out where batch norm learns, which cannot be from it."""
    n, learns = len(phase.data), phase.mode == "train"
    if learns and n < 2:
        raise WhorlError("there is a single image to learn from, and batch norm needs two; give more (--per-class)")
    parts = [part.numpy() for part in torch.split(torch.randperm(n, generator=draws), phase.batch)]
    return parts[:-1] if learns and len(parts) > 1 and len(parts[-1]) == 1 else parts


@contextmanager
def _learning(phase: Phase, model: Model) -> Iterator[list[nn.Parameter]]:
    """The parameters that learn in this phase; for as long as it lasts, no gradient is computed for any other."""
    before = {parameter: parameter.requires_grad for parameter in model.parameters()}
    chosen = set(phase.trains) if phase.trains is not None else {p for p, learns in before.items() if learns}
    for parameter in before:
        parameter.requires_grad_(parameter in chosen)
    try:
        yield [parameter for parameter in before if parameter in chosen]
    finally:
        for parameter, learns in before.items():
            parameter.requires_grad_(learns)


def _disturb(optimiser: torch.optim.SGD, deviation: float, draws: torch.Generator) -> None:
    """Gaussian noise on the gradient of every parameter."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.grad += deviation * torch.randn(parameter.shape, generator=draws).to(parameter)


def _momenta(optimiser: torch.optim.SGD, model: Model) -> dict[str, Tensor]:
    found = {name: optimiser.state[p].get("momentum_buffer") for name, p in model.named_parameters()}
    return {name: buffer.clone() for name, buffer in found.items() if buffer is not None}


def _restore(optimiser: torch.optim.SGD, model: Model, momenta: Mapping[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        if name in momenta:
            optimiser.state[parameter]["momentum_buffer"] = momenta[name].to(parameter)


def _check(loss: Tensor, phase: Phase, epoch: int, lr: float) -> None:
    if not math.isfinite(loss.item()):
        raise WhorlError(
            f"the loss is no longer a number in phase {phase.name!r}, epoch {epoch + 1}: training diverged; "
            f"try a lower rate, for instance --set {phase.rate_key}={lr / 4:g}. What was saved before is kept"
        )
