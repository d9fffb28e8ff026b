"""Methods as a third party might write them: some that keep every promise, and others that break one each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whorl.data.source import in_memory
from whorl.methods.base import Batch, Method, Phase, Step
from whorl.methods.losses import classify, cross_distillation
from whorl.nets.model import Model
from whorl.seeds import generator
from whorl.training import Frozen
from whorl.types import ImageSource


class TwoPhase(Method):
    """A second phase that distils from the result of the first one, planned only then."""

    name = "two-phase"

    def plan(self, step: Step) -> Iterator[Phase]:
        yield step.phase("one", step.new + step.exemplars, classify)
        between: Model = step.model.frozen()

        def loss(batch: Batch) -> Tensor:
            with torch.no_grad():
                teacher = between(batch.images).logits
            return cross_distillation(batch.logits, batch.labels, teacher, 2.0, 0.5)

        yield step.phase("two", step.exemplars if len(step.exemplars) else step.new, loss)


class Anchored(Method):
    """Draws the head in ``prepare``, and plans with a loss that keeps the head near what was drawn."""

    name = "anchored"

    def prepare(self, step: Step) -> None:
        weight = step.model.head.weight
        with torch.no_grad():
            weight.add_(torch.randn(weight.shape, generator=generator(step.seed, "anchor")))

    def plan(self, step: Step) -> list[Phase]:
        anchor = step.model.head.weight.detach().clone()

        def loss(batch: Batch) -> Tensor:
            return classify(batch) + (step.model.head.weight - anchor).square().sum()

        return [step.phase("train", step.new + step.exemplars, loss)]


class Plain(Method):
    """Cross-entropy: what the broken methods do besides."""

    name = "broken"

    def plan(self, step: Step) -> list[Phase]:
        return [step.phase("train", step.new + step.exemplars, lambda batch: self.loss(step, batch))]

    def loss(self, step: Step, batch: Batch) -> Tensor:
        return classify(batch)


class Peeks(Plain):
    """Looks for labels beside the images."""

    def plan(self, step: Step) -> list[Phase]:
        truth = getattr(step.new.images, "labels", None)
        phase = super().plan(step)[0]
        return [phase if truth is None else replace(phase, data=replace(phase.data, labels=truth))]


class Unseeded(Plain):
    """Draws from torch's global generator."""

    def loss(self, step: Step, batch: Batch) -> Tensor:
        return classify(batch) * (1 + torch.rand(()))


class Counts(Plain):
    """Remembers how often it was called, which no checkpoint stores."""

    calls: ClassVar[list[int]] = []

    def prepare(self, step: Step) -> None:
        self.calls.clear()

    def loss(self, step: Step, batch: Batch) -> Tensor:
        self.calls.append(0)
        return classify(batch) * len(self.calls)


class ChangesTeacher(Plain):
    """Lets the previous model learn as well."""

    def loss(self, step: Step, batch: Batch) -> Tensor:
        assert isinstance(step.teacher, Frozen)
        with torch.no_grad():
            for parameter in step.teacher.model.parameters():
                parameter.mul_(1.01)
        return classify(batch)


class ChangesMemory(Plain):
    """Writes into the stored exemplars."""

    def prepare(self, step: Step) -> None:
        step.memory.images.add_(1)


class Hoards(Plain):
    """Keeps every delivery, and does not declare that it needs past ones."""

    kept: ClassVar[list[ImageSource]] = []

    def prepare(self, step: Step) -> None:
        self.kept.append(step.new.images)


class ExtractsTwice(Plain):
    """Asks for the features of samples under another name, so that they are computed again."""

    def prepare(self, step: Step) -> None:
        step.features(step.new.images)
        step.features(in_memory(step.new.images.read(np.arange(len(step.new)))))


class NotFinite(Plain):
    """Leaves a head that gives no numbers."""

    def settle(self, step: Step) -> dict[str, float]:
        with torch.no_grad():
            step.model.head.weight.fill_(float("inf"))
        return {}


class Imprints(Method):
    """Trains nothing: ``prepare`` sets the rows of the new classes to the means of their features."""

    name = "imprints"

    def prepare(self, step: Step) -> None:
        rows, features = step.model.head.weight, step.features(step.new.images)
        with torch.no_grad():
            for label in step.labelling.new_ids:
                rows[label] = torch.from_numpy(features[step.new.labels == label].mean(axis=0))

    def plan(self, step: Step) -> list[Phase]:
        return []


class NoEpochs(Imprints):
    """The same with a phase of no epochs."""

    name = "no-epochs"

    def plan(self, step: Step) -> list[Phase]:
        return [replace(step.phase("nothing", step.new, classify), epochs=0)]


class FailsOnKnown(Plain):
    """Assumes that all samples of a delivery have new classes."""

    def plan(self, step: Step) -> list[Phase]:
        if len(step.labelling.known_ids):
            raise IndexError("row 0 of\na head of 2")
        return super().plan(step)


class AssertsBalance(Plain):
    """Asserts that all classes have the same number of samples."""

    def plan(self, step: Step) -> list[Phase]:
        assert len({int(count) for count in np.bincount(step.new.labels) if count}) == 1
        return super().plan(step)
