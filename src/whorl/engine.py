"""Algorithm 1: what a learner is, and how it takes one step."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whorl import cluster
from whorl.config import Config
from whorl.data.augment import Augment
from whorl.data.stream import Task
from whorl.fit import Epoch, fit
from whorl.labels.labeler import Labeler
from whorl.memory.holdout import hold_out, is_held_out, weave
from whorl.memory.memory import Memory
from whorl.memory.nme import class_means, nme_scores
from whorl.memory.select import exemplars, get_selector
from whorl.methods import method_of
from whorl.methods.base import Phase, Samples, Step
from whorl.nets.extract import extract
from whorl.nets.heads import MeansHead
from whorl.nets.model import Model, Output, weights
from whorl.reporter import Record, Ticker
from whorl.runtime import Runtime
from whorl.seeds import derive
from whorl.types import HIDDEN, FloatArray, ImageSource, IntArray, granted


@dataclass(frozen=True)
class Halt:
    """Where learning stands after an epoch inside a step; enough to go on from exactly there."""

    phase: int
    epoch: int
    labels: IntArray
    model: dict[str, Tensor]
    momenta: dict[str, Tensor]
    starts: tuple[dict[str, Tensor], ...]
    """The model as it was when phases 1, 2, … began (phase 0 begins with the model of the last step)."""
    record: Record = field(default_factory=dict)
    """What the log says of the epoch."""


@dataclass(frozen=True)
class State:
    """A learner between two steps, as tensors."""

    model: dict[str, Tensor]
    labels: list[Tensor]
    """The labels each task was learned with."""
    memory: dict[str, Tensor]
    first: dict[str, Tensor]
    """The model after task 1."""


class Learner:
    """A model that grows. Its state is the model, the memory and the labels each task was learned with."""

    def __init__(self, config: Config, augment: Augment, runtime: Runtime) -> None:
        self.config, self.augment, self.runtime = config, augment, runtime
        self.model = self._new_model(config.seed)
        self.frozen = self.first = self.model.frozen()
        """The last finished model, and the one after task 1."""
        self._first_weights = weights(self.model)
        self.memory = Memory(config.memory.policy, config.memory.quota)
        self.learned: list[Samples] = []
        self.sizes: list[int] = []
        """How many classes each task brought."""
        self.settled: dict[str, float] = {}
        """What the method had to report of the last step."""
        self.method = method_of(config)
        self.labeler = Labeler(config, augment, runtime, cluster.create(**config.cluster.model_dump()))

    @property
    def known(self) -> int:
        """How many classes have been learned."""
        return self.frozen.classes

    def features(self, images: ImageSource) -> FloatArray:
        """What the last finished model sees in the images."""
        return extract(self.frozen, images, self.augment, self.runtime)

    def learn(self, task: Task, ticker: Ticker, resume: Halt | None = None) -> Iterator[Halt]:
        """One step of Algorithm 1. Stops after each epoch to say where it stands; run it to the end."""
        labels = resume.labels if resume else self.labeler.labels(task, self.frozen, self.first)
        self.model.grow(task.classes)
        self.runtime.place(self.model)
        samples, held = Samples(task.images, labels), self._hold_out(task, labels)
        step, samples = yield from self._train(task, samples, held, ticker, resume)
        self._finish(task, samples, held, self.method.settle(step))

    def take_over(self, task: Task, model: dict[str, Tensor], settled: dict[str, float]) -> None:
        """Task 1 with the model that another run ended it with; what follows training is this run's own."""
        self.model = self._new_model(self.config.seed, model)
        labels = granted(task.labels)
        self._finish(task, Samples(task.images, labels), self._hold_out(task, labels), settled)

    def _finish(self, task: Task, samples: Samples, held: IntArray, settled: dict[str, float]) -> None:
        """What comes after training: the model is frozen, and exemplars are chosen with it."""
        self.settled = settled
        self.frozen = self.model.frozen()
        if task.index == 1:
            self.first, self._first_weights = self.frozen, weights(self.model)
        self._remember(task, samples, held)
        self.learned.append(samples)
        self.sizes.append(task.classes)

    def scores(self, images: ImageSource) -> dict[str, FloatArray | None]:
        """Scores [n, classes] by each classifier.

        ``fc`` are the head's logits, ``nme`` is nearness to the exemplars' means, and ``ncm`` nearness to the running
        class means, where the head keeps some.
        """
        features, head = self.features(images), self.frozen.head
        with torch.inference_mode():
            logits = head(torch.from_numpy(features).to(self.runtime.device)).cpu().numpy()
        scores: dict[str, FloatArray | None] = {"fc": logits, "nme": None}
        if len(self.memory):
            scores["nme"] = nme_scores(features, self.means())
        if isinstance(head, MeansHead):
            scores["ncm"] = nme_scores(features, F.normalize(head.means, dim=1).cpu().numpy())
        return scores

    def means(self) -> FloatArray:
        """The class means of the exemplars as the current model sees them."""
        seen, labels = [self.features(self.memory.source)], self.memory.labels
        if self.config.memory.mirror and self.augment.mirrors:
            seen.append(extract(self.frozen, self.memory.source, self.augment, self.runtime, mirror=True))
        return class_means(np.concatenate(seen), np.tile(labels, len(seen)), self.known)

    def state(self) -> State:
        """All that has to be kept to go on later."""
        labels = [torch.from_numpy(samples.labels) for samples in self.learned]
        return State(weights(self.model), labels, self.memory.state(), self._first_weights)

    def restore(self, state: State, tasks: Iterable[Task]) -> None:
        """Become the learner whose state this was; ``tasks`` are the ones it had learned."""
        self._first_weights = state.first
        self.first = self._new_model(self.config.seed, state.first).frozen()
        self.model = self._new_model(self.config.seed, state.model)
        self.frozen = self.model.frozen()
        self.memory = Memory.from_state(self.memory.policy, self.memory.quota, state.memory)
        pairs = list(zip(tasks, state.labels, strict=True))
        self.learned = [Samples(task.images, labels.numpy()) for task, labels in pairs]
        self.sizes = [task.classes for task, _ in pairs]

    def _hold_out(self, task: Task, labels: IntArray) -> IntArray:
        """Which of the new samples are kept for validation: as many of a class as the old classes have."""
        if not self.method.hold_out_every:
            return np.empty(0, dtype=np.int64)
        quota = self.memory.per_class(self.known or task.classes)
        return hold_out(labels, quota, self.method.hold_out_every, derive(self.config.seed, "hold out", task.index))

    def _step(self, task: Task, samples: Samples, held: IntArray) -> Step:
        every, kept = self.method.hold_out_every, Samples(self.memory.source, self.memory.labels)
        set_aside = is_held_out(self.memory.ranks, every) if every else held[:0]
        return Step(
            task=task.index,
            sizes=(*self.sizes, task.classes),
            model=self.model,
            teacher=Teacher(self.frozen, self.runtime),
            new=samples.without(held),
            exemplars=kept.without(set_aside),
            validation=samples[held] + kept[set_aside],
            memory=self.memory,
            past=tuple(self.learned) if self.method.needs_past else (),
            train=self.config.train,
            optim=self.config.optim.at(task.index),
            augment=self.augment,
            seed=derive(self.config.seed, "method", task.index),
            features=lambda images: extract(self.model.frozen(), images, self.augment, self.runtime),
            freeze=lambda: Teacher(self.model.frozen(), self.runtime),
        )

    def _new_model(self, seed: int, state: dict[str, Tensor] | None = None) -> Model:
        net = self.config.net
        model = Model(net.arch, net.head, net.final_relu, seed)
        if state is not None:
            model.restore(state)
        return self.runtime.place(model)

    def _train(
        self, task: Task, samples: Samples, held: IntArray, ticker: Ticker, resume: Halt | None
    ) -> Generator[Halt, None, tuple[Step, Samples]]:
        """Run the method's plan. When resuming, each phase is planned with the model that its start saw.

        Returns the step as its last phase saw it, and all samples of the task with their final labels.
        """
        step = self._step(task, samples, held)
        if resume is None:
            self.method.prepare(step)
        plan, starts = iter(self.method.plan(step)), list[dict[str, Tensor]]()
        for number in itertools.count():
            if resume and 0 < number <= resume.phase:
                self.model.load(resume.starts[number - 1])
            phase = next(plan, None)
            if phase is None:
                return step, samples
            if number > 0:
                starts.append(weights(self.model))
            if resume and number < resume.phase:
                continue
            begin, momenta = 0, dict[str, Tensor]()
            if resume and number == resume.phase:
                self.model.load(resume.model)
                begin, momenta = resume.epoch + 1, resume.momenta
            while begin < phase.epochs:
                begin, momenta, samples = yield from self._stretch(
                    task, samples, number, phase, begin, momenta, tuple(starts), ticker
                )
                if begin < phase.epochs:  # the labels have changed, and the plan with them
                    step = self._step(task, samples, held)
                    plan = iter(self.method.plan(step))
                    phase = next(plan)
        raise AssertionError("a plan ends")

    def _stretch(
        self,
        task: Task,
        samples: Samples,
        number: int,
        phase: Phase,
        begin: int,
        momenta: dict[str, Tensor],
        starts: tuple[dict[str, Tensor], ...],
        ticker: Ticker,
    ) -> Generator[Halt, None, tuple[int, dict[str, Tensor], Samples]]:
        """Epochs of one phase from ``begin`` on, to its end or to where labels were made anew; returns where it is."""
        purpose = (task.index, number)
        epochs = fit(phase, self.model, self.augment, self.runtime, self.config.seed, purpose, ticker, begin, momenta)
        for epoch in epochs:
            begin, momenta = epoch.epoch + 1, epoch.momenta
            due = number == 0 and self.labeler.due(task, begin, phase.epochs)
            if due:
                samples = self._refresh(task, samples, begin, momenta)
            yield self._halt(task, samples.labels, number, phase, epoch, starts)
            if due:
                break
        epochs.close()
        return begin, momenta, samples

    def _refresh(self, task: Task, samples: Samples, done: int, momenta: dict[str, Tensor]) -> Samples:
        """UPL-K: labels anew; where their names are new too, the head's new rows and their momenta start over (A30)."""
        labels = self.labeler.again(task, samples.labels, self.model.frozen(), done)
        if self.config.pseudo.ids == "reset":
            self.model.reset_head(self.known, done)
            for name in ("head.weight", "head.bias"):
                if name in momenta:
                    momenta[name][self.known :] = 0
        return Samples(task.images, labels)

    def _halt(
        self,
        task: Task,
        labels: IntArray,
        number: int,
        phase: Phase,
        epoch: Epoch,
        starts: tuple[dict[str, Tensor], ...],
    ) -> Halt:
        record = {
            "task": task.index,
            "phase": phase.name,
            "epoch": epoch.epoch + 1,
            "epochs": phase.epochs,
            "loss": epoch.loss,
            "lr": epoch.lr,
            "images": epoch.images,
            "seconds": epoch.seconds,
            "images_per_second": epoch.images / epoch.seconds,
        }
        return Halt(number, epoch.epoch, labels, weights(self.model), epoch.momenta, starts, record)

    def _remember(self, task: Task, samples: Samples, held: IntArray) -> None:
        """Algorithm 2. Where labels were granted, groups are the classes and nothing is clustered again."""
        quota = self.memory.per_class(self.known)
        if quota == 0:
            return
        config, before = self.config.memory, self.known - task.classes
        trained = np.setdiff1d(np.arange(len(samples)), held)
        chosen, ids = exemplars(
            self.features(samples[trained].images),
            samples.labels[trained] - before,
            task.classes,
            quota,
            get_selector(config.select),
            self.labeler.clusterer,
            config.reading if task.labels is HIDDEN else "reuse",
            derive(self.config.seed, "exemplars", task.index),
        )
        indices, ids = trained[chosen], ids + before
        if self.method.hold_out_every:
            both = [
                weave(indices[ids == j], held[samples.labels[held] == j], self.method.hold_out_every)
                for j in range(before, self.known)
            ]
            indices, ids = np.concatenate(both), np.repeat(np.arange(before, self.known), [len(one) for one in both])
        self.memory = self.memory.add(task.images.read(indices), np.asarray(ids, dtype=np.int64), task.index)


@dataclass(frozen=True)
class Teacher:
    """The model before the step, as losses call it: no gradient, and the student's precision."""

    model: Model
    runtime: Runtime

    def __call__(self, images: Tensor) -> Output:
        """Logits and features of a batch."""
        with torch.no_grad(), self.runtime.autocast():
            out: Output = self.model(images)
        return out
