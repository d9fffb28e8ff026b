"""A learner stopped before a step's training, and ways to watch it train."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import checks
from references import Array, wide
from whorl import engine
from whorl.data.augment import Augment
from whorl.data.source import Dataset
from whorl.data.stream import Stream, Task
from whorl.engine import Learner
from whorl.fit import Epoch, fit
from whorl.methods.base import Batch, Phase, Samples, Step
from whorl.nets.model import Model, weights
from whorl.types import ImageSource, granted


@dataclass(frozen=True)
class Scene:
    """A step of which nothing has been trained yet."""

    learner: Learner
    stream: Stream
    step: Step
    old: Model
    """The whole model as the step before left it, in eval mode: what the teacher must be."""

    def phase(self) -> Phase:
        """The first phase of the plan."""
        return next(iter(self.learner.method.plan(self.step)))

    def batch(self, size: int = 12, number: int = 0, labels: Tensor | None = None) -> Batch:
        """Random images with random logits that can take a gradient; labels of all classes in turn."""
        draws = torch.Generator().manual_seed(size)
        classes = self.learner.model.classes
        return Batch(
            torch.randn(size, 3, 8, 8, generator=draws),
            torch.arange(size) % classes if labels is None else labels,
            (3 * torch.randn(size, classes, generator=draws)).requires_grad_(),
            torch.randn(size, self.learner.model.backbone.dim, generator=draws).requires_grad_(),
            number,
        )

    def teacher(self, batch: Batch) -> Array:
        """The logits the teacher must give."""
        with torch.no_grad():
            return wide(self.old(batch.images).logits)


def scene(data: Dataset, task: int, **changes: Any) -> Scene:
    """A learner that was given the tasks before ``task`` and stands before the first phase of that one."""
    config = checks.small_config(labels="given", **changes)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[: task - 1])
    return stop_before(learner, stream, task)


def stop_before(learner: Learner, stream: Stream, task: int) -> Scene:
    """The learner, which has learned all earlier ones, before the first phase of ``task``."""
    old = copy.deepcopy(learner.model).eval()
    return Scene(learner, stream, begin(learner, stream[task - 1]), old)


def begin(learner: Learner, task: Task) -> Step:
    """The step as the learner hands it to its method, and the model as the method wants it before the first phase."""
    samples = Samples(task.images, granted(task.labels))
    learner.model.grow(task.classes)
    step = learner._step(task, samples, learner._hold_out(task, samples.labels))
    learner.method.prepare(step)
    return step


def grown(model: Model, n: int) -> Model:
    """A copy with ``n`` more classes, as the seed draws them."""
    copied = copy.deepcopy(model)
    copied.grow(n)
    return copied


def seen_by(model: Model, batch: Batch) -> Batch:
    """The batch with what the model in training makes of its images."""
    out = model.train()(batch.images)
    return replace(batch, logits=out.logits, features=out.features)


def gradient(loss: Tensor, of: Tensor) -> Array:
    return wide(torch.autograd.grad(loss, of, retain_graph=True)[0])


def features_of(model: Model, images: Tensor, augment: Augment) -> Array:
    """What a model sees in stored images, by a plain forward pass in eval mode."""
    with torch.no_grad():
        return wide(copy.deepcopy(model).eval()(augment.look(images)).features)


def read_all(images: ImageSource) -> Tensor:
    return images.read(np.arange(len(images)))


def names_of(images: Tensor) -> list[bytes]:
    """Each image as one hashable thing."""
    return [image.numpy().tobytes() for image in images]


def stored_bytes(batch: Batch, augment: Augment) -> Tensor:
    """The bytes that a batch's images were made from, where the view is ``none``."""
    mean, std = (torch.tensor(values).view(3, 1, 1) * 255 for values in (augment.mean, augment.std))
    return (batch.images * std + mean).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@dataclass
class Ran:
    """A phase that was run, with the model's tensors at its begin and its end."""

    phase: Phase
    before: dict[str, Tensor]
    after: dict[str, Tensor] = field(default_factory=dict)


def watch(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Phase, Model], Phase] = lambda phase, model: phase
) -> list[Ran]:
    """Every phase that learners run from now on; ``change`` may put listeners into it."""
    ran: list[Ran] = []

    def spying(phase: Phase, model: Model, *rest: Any) -> Iterator[Epoch]:
        ran.append(Ran(phase, weights(model)))
        yield from fit(change(phase, model), model, *rest)
        ran[-1].after = weights(model)

    monkeypatch.setattr(engine, "fit", spying)
    return ran


def heard(phase: Phase, tell: Callable[[Batch], None]) -> Phase:
    """The phase, telling of each batch before its loss is taken."""

    def loss(batch: Batch) -> Tensor:
        tell(batch)
        return phase.loss(batch)

    return replace(phase, loss=loss)


def followed(phase: Phase, tell: Callable[[Batch], None]) -> Phase:
    """The phase, telling of each batch after its update and all that belongs to it."""

    def after(batch: Batch) -> None:
        if phase.after:
            phase.after(batch)
        tell(batch)

    return replace(phase, after=after)
