"""A learner stopped before a step's training, and ways to watch it train."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import checks
from references import Array, wide
from whorl import training
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.data.stream import Stream
from whorl.engine import Learner
from whorl.fit import Epoch, fit
from whorl.methods.base import Batch, Phase, Step
from whorl.nets.model import Model, weights
from whorl.reporter import Silent
from whorl.training import Training
from whorl.types import Delivery, ImageSource


@dataclass(frozen=True)
class Scene:
    """A step of which nothing has been trained yet."""

    learner: Learner
    stream: Stream
    step: Step
    old: Model
    """The whole model as the step before left it, in eval mode: what the teacher must be."""

    @property
    def model(self) -> Model:
        """The model that the step trains."""
        return self.step.model

    def phase(self) -> Phase:
        """The first phase of the plan."""
        return next(iter(self.learner.method.plan(self.step)))

    def batch(self, size: int = 12, number: int = 0, labels: Tensor | None = None) -> Batch:
        """Random images with random logits that can take a gradient; labels of all classes in turn."""
        draws = torch.Generator().manual_seed(size)
        classes = self.model.classes
        return Batch(
            torch.randn(size, 3, 8, 8, generator=draws),
            torch.arange(size) % classes if labels is None else labels,
            (3 * torch.randn(size, classes, generator=draws)).requires_grad_(),
            torch.randn(size, self.model.dim, generator=draws).requires_grad_(),
            number,
        )

    def teacher(self, batch: Batch) -> Array:
        """The logits the teacher must give."""
        with torch.no_grad():
            return wide(self.old(batch.images).logits)


def scene(data: Dataset, task: int, **changes: Any) -> Scene:
    """A learner that has learned the tasks before ``task``, stopped before the initial phase of that one."""
    config = checks.small_config(labels="given", **changes)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[: task - 1])
    return stop_before(learner, stream, task)


def stop_before(learner: Learner, stream: Stream, task: int) -> Scene:
    """A learner that has learned all earlier tasks, before the initial phase of ``task``."""
    old = copy.deepcopy(learner.model).eval()
    return Scene(learner, stream, begin(learner, stream[task - 1]), old)


class _Stopped(Exception):
    pass


def stopped(learner: Learner, delivery: Delivery) -> Training:
    """The training of a delivery as the learner sets it up, before it has begun."""
    found: list[Training] = []

    def stop(training: Training, *_: object) -> None:
        found.append(training)
        raise _Stopped

    with pytest.MonkeyPatch.context() as patch, suppress(_Stopped):
        patch.setattr(Training, "run", stop)
        next(learner.learn(delivery, Silent()))
    return found[0]


def begin(learner: Learner, delivery: Delivery) -> Step:
    """The step as the learner hands it to its method, with the model prepared for the initial phase."""
    step = stopped(learner, delivery).step()
    learner.method.prepare(step)
    return step


def grown(model: Model, n: int) -> Model:
    """A copy with ``n`` more classes, drawn from the model's seed."""
    copied = copy.deepcopy(model)
    copied.grow(n)
    return copied


def seen_by(model: Model, batch: Batch) -> Batch:
    """The batch with the model's output for its images, in train mode."""
    out = model.train()(batch.images)
    return replace(batch, logits=out.logits, features=out.features)


def gradient(loss: Tensor, of: Tensor) -> Array:
    return wide(torch.autograd.grad(loss, of, retain_graph=True)[0])


def features_of(model: Model, images: Tensor, inputs: Inputs) -> Array:
    """The features of stored images, by a plain forward pass in eval mode."""
    with torch.no_grad():
        return wide(copy.deepcopy(model).eval()(inputs.fixed(images)).features)


def read_all(images: ImageSource) -> Tensor:
    return images.read(np.arange(len(images)))


def names_of(images: Tensor) -> list[bytes]:
    """Each image as bytes, which can be compared and counted."""
    return [image.numpy().tobytes() for image in images]


def stored_bytes(batch: Batch, inputs: Inputs) -> Tensor:
    """The bytes that a batch's images were made from, where the view is ``none``."""
    mean, std = (torch.tensor(values).view(3, 1, 1) * 255 for values in (inputs.mean, inputs.std))
    return (batch.images * std + mean).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@dataclass
class Ran:
    """A phase that was trained, with the model's tensors before and after it."""

    phase: Phase
    before: dict[str, Tensor]
    after: dict[str, Tensor] = field(default_factory=dict)


def watch(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Phase, Model], Phase] = lambda phase, model: phase
) -> list[Ran]:
    """Every phase that learners train from now on; ``change`` may add listeners to it."""
    ran: list[Ran] = []

    def spying(phase: Phase, model: Model, *rest: Any) -> Generator[Epoch, None, None]:
        ran.append(Ran(phase, weights(model)))
        yield from fit(change(phase, model), model, *rest)
        ran[-1].after = weights(model)

    monkeypatch.setattr(training, "fit", spying)
    return ran


def heard(phase: Phase, tell: Callable[[Batch], None]) -> Phase:
    """The phase, calling ``tell`` with each batch before its loss is computed."""

    def loss(batch: Batch) -> Tensor:
        tell(batch)
        return phase.loss(batch)

    return replace(phase, loss=loss)


def followed(phase: Phase, tell: Callable[[Batch], None]) -> Phase:
    """The phase, calling ``tell`` with each batch after its update, and after the phase's own ``after``."""

    def after(batch: Batch) -> None:
        if phase.after:
            phase.after(batch)
        tell(batch)

    return replace(phase, after=after)
