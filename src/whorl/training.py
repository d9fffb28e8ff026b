"""Running a method's plan for one step, and resuming it after any epoch."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whorl.config import LearnerConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.fit import Epoch, Purpose, fit
from whorl.labels.labeler import Labeler
from whorl.memory.holdout import is_held_out
from whorl.memory.memory import Memory
from whorl.methods.base import Method, Phase, Step
from whorl.nets.extract import Features
from whorl.nets.model import Model, Output, weights
from whorl.reporter import EpochRecord, Ticker
from whorl.runtime import Runtime
from whorl.seeds import derive
from whorl.types import Delivery, IntArray, Labelling

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Halt:
    """The position inside a step after an epoch: everything needed to continue from there."""

    phase: int
    epoch: int
    labels: Labelling
    model: Tensors
    optimiser: Tensors
    starts: tuple[Tensors, ...]
    """The model as each phase so far was planned, beginning with phase 0."""
    record: EpochRecord | None = None
    networks: tuple[Tensors, ...] = ()
    """In the initial step: the networks for pseudo labels that are trained already. The model comes after them."""


@dataclass(frozen=True)
class Frozen:
    """A frozen model as losses call it: no gradient, and the precision of the training."""

    model: Model
    runtime: Runtime

    def __call__(self, images: Tensor) -> Output:
        """Logits and features of a batch."""
        with torch.no_grad(), self.runtime.autocast():
            out: Output = self.model(images)
        return out


@dataclass
class Training:
    """One step in progress. ``labels`` change when pseudo labels are refreshed; everything else stays."""

    config: LearnerConfig
    method: Method
    inputs: Inputs
    runtime: Runtime
    labeler: Labeler
    number: int
    delivery: Delivery
    labels: Labelling
    held: IntArray
    """The samples of the delivery that are held out for validation."""
    model: Model
    """The model in training: a copy, already grown by the new classes."""
    features: Features
    """Of the model in training."""
    previous: Model
    """The frozen model from before the step."""
    memory: Memory
    sizes: tuple[int, ...]
    past: tuple[Samples, ...]
    networks: tuple[Tensors, ...] = ()
    """The networks for pseudo labels that the initial step has trained before the model."""

    def step(self) -> Step:
        """What the method sees."""
        every, kept = self.method.hold_out_every, Samples(self.runtime.hold(self.memory.source), self.memory.labels)
        samples = Samples(self.delivery.images, self.labels.ids)
        held_exemplars = is_held_out(self.memory.ranks, every) if every else self.held[:0]
        return Step(
            number=self.number,
            sizes=(*self.sizes, self.labels.new),
            labelling=self.labels,
            model=self.model,
            teacher=Frozen(self.previous, self.runtime),
            new=samples.without(np.union1d(self.held, self.labels.unsure)),
            exemplars=kept.without(held_exemplars),
            validation=samples[self.held] + kept[held_exemplars],
            memory=self.memory,
            past=self.past,
            train=self.config.train,
            optim=self.config.optim.at(self.number),
            inputs=self.inputs,
            seed=derive(self.config.seed, "method", self.number),
            features=self.features,
            freeze=lambda: Frozen(self.model.frozen(), self.runtime),
        )

    def run(self, ticker: Ticker, resume: Halt | None) -> Generator[Halt, None, Step]:
        """Train all phases of the plan; yields after each epoch and returns the step as the last phase saw it.

        A resumed plan is made again, each phase with the model that it was originally planned with.
        """
        step, starts = self.step(), list[Tensors]()
        if resume is None:
            self.method.prepare(step)
        else:
            self.model.load(resume.starts[0])
        plan: Iterator[Phase] = iter(self.method.plan(step))
        for number in itertools.count():
            if resume and 0 < number <= resume.phase:
                self.model.load(resume.starts[number])
            starts.append(weights(self.model))
            phase = next(plan, None)
            if phase is None:
                return step
            if resume and number < resume.phase:
                continue
            begin: tuple[int, Mapping[str, Tensor]] = (0, {})
            if resume and number == resume.phase:
                self.model.load(resume.model)
                begin = resume.epoch + 1, resume.optimiser
            while begin[0] < phase.epochs:
                begin = yield from self._stretch(number, phase, begin, starts, ticker)
                if begin[0] < phase.epochs:  # the labels have changed, so the plan has too
                    step = self.step()
                    plan = iter(self.method.plan(step))
                    phase = next(plan)
        raise AssertionError("unreachable")

    def _stretch(
        self,
        number: int,
        phase: Phase,
        begin: tuple[int, Mapping[str, Tensor]],
        starts: list[Tensors],
        ticker: Ticker,
    ) -> Generator[Halt, None, tuple[int, Mapping[str, Tensor]]]:
        """Train a phase to its end or to the next refresh of the labels; returns the position to continue from."""
        purpose = Purpose(self.config.seed, self.number, number)
        epochs = fit(phase, self.model, self.inputs, self.runtime, purpose, ticker, begin)
        for epoch in epochs:
            done, optimiser = epoch.epoch + 1, epoch.optimiser
            due = number == 0 and self.labeler.due(self.delivery, done, phase.epochs)
            if due:
                optimiser = self._refresh(done, optimiser)
                starts[0] = weights(self.model)
            begin = done, optimiser
            yield self._halt(number, phase, epoch, optimiser, starts)
            if due:
                break
        epochs.close()
        return begin

    def _refresh(self, done: int, optimiser: Tensors) -> Tensors:
        """UPL-K: cluster again. With ``pseudo.ids=reset``, the head's new rows start again (docs/protocol.md, A30)."""
        known = self.labels.known
        features = self.labeler.features(self.delivery.images, self.features, self.inputs)
        self.labels = self.labeler.refreshed(self.labels, features, self.number, done)
        if self.config.pseudo.ids == "aligned":
            return optimiser
        self.model.reset_head(known, done)
        kept = dict(optimiser)
        for name, value in optimiser.items():
            if name.startswith(("head.weight/", "head.bias/")) and value.ndim:
                kept[name] = torch.cat([value[:known], torch.zeros_like(value[known:])])
        return kept

    def _halt(self, number: int, phase: Phase, epoch: Epoch, optimiser: Tensors, starts: list[Tensors]) -> Halt:
        record = recorded(epoch, self.number, phase)
        position = number, epoch.epoch, self.labels
        return Halt(*position, weights(self.model), optimiser, tuple(starts), record, self.networks)


def recorded(epoch: Epoch, task: int, phase: Phase) -> EpochRecord:
    """What the log stores about an epoch."""
    return EpochRecord(
        task=task,
        phase=phase.name,
        epoch=epoch.epoch + 1,
        epochs=phase.epochs,
        loss=epoch.loss,
        lr=epoch.lr,
        images=epoch.images,
        seconds=epoch.seconds,
    )
