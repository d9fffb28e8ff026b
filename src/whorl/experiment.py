"""An experiment: learn the tasks of a stream, score and store each of them, and resume wherever it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from whorl.check import check_learner
from whorl.config import ExperimentConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset, Samples
from whorl.data.stream import Stream, class_incremental, split_sizes
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.evaluate import Evaluator
from whorl.memory.memory import Memory
from whorl.methods import method_of
from whorl.methods.base import Load
from whorl.nets.backbone import Backbone
from whorl.nets.pretrained import named
from whorl.networks import label_passes
from whorl.provenance import now, provenance
from whorl.refine import NO_EXEMPLARS
from whorl.reporter import Counted, Reporter, Silent, Ticker
from whorl.runs.checkpoint import Spent, task_file
from whorl.runs.features import feature_folder
from whorl.runs.files import OWN_FILE, START_OVER
from whorl.runs.networks import trained_networks
from whorl.runs.run import Run
from whorl.runs.task1 import task1_key
from whorl.runtime import Runtime, threads_for
from whorl.scores import RunScores, Summary, TaskScores
from whorl.sections import PseudoConfig
from whorl.seeds import derive
from whorl.training import Halt
from whorl.types import Delivery, IntArray


@dataclass(frozen=True)
class Result:
    """A finished run."""

    path: Path
    config: ExperimentConfig
    steps: tuple[TaskScores, ...]

    @property
    def summary(self) -> Summary:
        """One number each for the whole run."""
        return Summary.of(self.steps)


def check(config: ExperimentConfig) -> None:
    """Raise a ``WhorlError`` if a name is unknown or two values exclude each other. Needs no data."""
    stream = config.stream
    sizes = (stream.first or stream.step, stream.step)
    check_learner(config, sizes[: stream.tasks], config.labelled)
    if (config.labels == "corrupted") != (config.label_acc is not None):
        raise WhorlError("`labels=corrupted` and `label_acc` need each other, for instance `label_acc=0.7`")
    if config.labels == "corrupted" and config.pseudo.refresh:
        raise WhorlError("`labels=corrupted` makes labels once per task; leave out `pseudo.refresh`")
    if config.labels == "corrupted" and config.pseudo.trust < 1:
        raise WhorlError("`labels=corrupted` learns labels of the asked accuracy; leave out `pseudo.trust`")
    if config.labels != "given" and config.pseudo.refine and not config.memory.quota:
        raise WhorlError(NO_EXEMPLARS)
    if config.labels == "given" and config.pseudo != PseudoConfig():
        raise WhorlError(
            "`labeler`, `pseudo.features` and `pseudo.refresh` are about pseudo labels; "
            "leave them out with `labels=given`"
        )


def run(
    config: ExperimentConfig,
    data: Dataset,
    out: Path,
    runtime: Runtime | None = None,
    reporter: Reporter | None = None,
    fresh: bool = False,
    task1: Run | None = None,
    backbone: Backbone | None = None,
) -> Result:
    """Run a config to its end below ``out``: from the start, from where it stopped, or just read the result.

    ``backbone`` is the pretrained one that the config names.

    ``task1`` is a run with the same :func:`whorl.runs.task1.task1_key`; its task 1 is reused instead of trained.
    """
    check(config)
    stream, evaluator = _protocol(config, data)
    if task1 is not None and task1_key(task1.config) != task1_key(config):
        raise WhorlError(f"task 1 of {task1.path} was trained with other settings than {config.title} needs")
    if task1 is not None and not task1.scores().steps:
        raise WhorlError(f"{task1.path} has not finished task 1, so it cannot be reused")
    store = Run.at(out, config)
    if not fresh and (done := store.finished()) and len(done.steps) == len(stream):
        store.tidy_finished(len(done.steps))
        return Result(store.path, config, done.steps)
    store.lock()
    try:
        store.require_files(len(stream))
        if fresh:
            store.clear(len(stream))
        store.require_scores(len(stream))
        before = _checked(store, len(stream))
        if before.finished:
            _begin(store, reporter or Silent())
            store.tidy(len(before.steps), finished=True)
            return Result(store.path, config, before.steps)
        if backbone is None:
            backbone = named(config.net.arch, None, config.net.size)
        learner = Learner(config, data.inputs, runtime or Runtime(), backbone, feature_folder())
        _require_weights(config, learner)
        stream, evaluator = _protocol(config, _seen(data, learner))
        session = _Session(store, learner, stream, evaluator, reporter or Silent(), before)
        with threads_for(config.net.arch):
            return Result(store.path, config, session.finish(task1))
    finally:
        store.release()


def _require_weights(config: ExperimentConfig, learner: Learner) -> None:
    """Raise if the pretrained weights are not those that the config was made for."""
    found = learner.origin.weights if learner.origin else ""
    if found != config.net.fingerprint:
        raise WhorlError(
            f"the weights of {config.net.arch} are {found or 'none'}, and this run needs {config.net.fingerprint}; "
            "set `net.arch` or `weights` to those"
        )


def _seen(data: Dataset, learner: Learner) -> Dataset:
    """The data set as the learner learns it: with features for images, if its backbone is frozen."""
    if learner.fixed is None:
        return data
    train, test = learner.fixed(data.train, data.train_labels), learner.fixed(data.test, data.test_labels)
    return replace(data, train=train, test=test)


def _checked(store: Run, tasks: int) -> RunScores:
    """The stored scores; raises if they are not those of a run of so many tasks."""
    scores = store.scores()
    if len(scores.steps) > tasks or scores.finished != (len(scores.steps) == tasks):
        raise WhorlError(
            f"{store.path / 'scores.json'} is damaged ({len(scores.steps)} of {tasks} tasks are stored, and it says "
            f"{'finished' if scores.finished else 'unfinished'}); {START_OVER}"
        )
    return scores


def _begin(store: Run, reporter: Reporter) -> None:
    """Write the config, and report it if the stored one was damaged."""
    if line := store.begin():
        reporter.note(line)


def _protocol(config: ExperimentConfig, data: Dataset) -> tuple[Stream, Evaluator]:
    spec = config.stream
    sizes = split_sizes(len(data.class_names), spec.step, spec.first, spec.tasks)
    Memory(config.memory.policy, config.memory.quota).per_class(sum(sizes))  # raises if the quota is too small
    method_of(config).check(config, sizes, config.labelled)
    given = config.labels == "given"
    stream, truth = class_incremental(data, sizes, spec.order, given)
    for task, delivery in enumerate(stream, 1):
        if len(delivery.images) < (delivery.new or 0):
            raise WhorlError(
                f"task {task} has {len(delivery.images)} images for {delivery.new} clusters; "
                "raise `data.per_class` or lower `stream.step`"
            )
    return stream, Evaluator(truth, sizes, given)


class _Session:
    """The part of a run that is computed in one process."""

    def __init__(
        self,
        store: Run,
        learner: Learner,
        stream: Stream,
        evaluator: Evaluator,
        reporter: Reporter,
        before: RunScores,
    ) -> None:
        self.store, self.learner, self.stream = store, learner, stream
        self.evaluator, self.reporter = evaluator, reporter
        self.steps, self.done_before, self.earlier = list(before.steps), len(before.steps), before.provenance
        self.learned: list[IntArray] = store.labels(len(self.steps))
        self.started = now()
        if self.steps:
            self._restore()

    def _restore(self) -> None:
        """Read the state after the last finished task. Nothing has been written yet."""
        done = len(self.steps)
        state = self.store.load_task(done, self.learner.inputs)
        for number, (delivery, labels) in enumerate(zip(self.stream[:done], self.learned, strict=True), 1):
            if len(delivery.images) != len(labels):
                file = task_file(self.store.path, number)
                raise WhorlError(
                    f"{file} does not belong here ({len(labels)} labels, {len(delivery.images)} images); {START_OVER}"
                )
        pairs = zip(self.stream[:done], self.learned, strict=True)
        past = tuple(Samples(delivery.images, labels) for delivery, labels in pairs)
        try:
            self.learner.restore(replace(state, past=past if self.learner.method.needs_past else ()))
        except WhorlError as error:
            raise WhorlError(f"{task_file(self.store.path, done)}: {error}") from None

    def _position(self, number: int) -> tuple[Halt | None, Spent]:
        """Where task ``number`` was stopped. A damaged epoch file costs the epochs of this task, not the run."""
        store, delivery = self.store, self.stream[number - 1]
        try:
            halt, spent, length = store.load_epoch(number)
            if halt is not None:
                self.learner.check_position(delivery, halt)
        except WhorlError as error:
            why = str(error).removesuffix(f"; {START_OVER}").removesuffix(f"; {OWN_FILE}")
            self.reporter.note(f"{store.path / 'epoch.safetensors'} is not used ({why}); task {number} starts again")
            halt, spent, length = None, Spent(), store.log_before(number)
        _begin(store, self.reporter)
        store.tidy(number - 1, finished=False)
        store.cut_log(length)
        return halt, spent

    def finish(self, task1: Run | None) -> tuple[TaskScores, ...]:
        """Learn all tasks that are missing; returns the scores of all tasks."""
        if task1 and not self.steps:
            self._take_over(task1)
        done, learner = len(self.steps), self.learner
        halt, spent = self._position(done + 1) if done < len(self.stream) else (None, Spent())
        passes = list(_passes(self.store.config, self.stream, learner.inputs))
        if done == 0 and halt is None:
            spent = self._take_networks()
        self.reporter.begin(len(self.stream), sum(passes), sum(passes[:done]) + spent.passes)
        recorded = {session.started for session in self.earlier}
        interrupted = tuple(session for session in spent.sessions if session.started not in recorded)
        self.earlier += interrupted
        for number, delivery in enumerate(self.stream[done:], done + 1):
            self.reporter.task(number, delivery.new or 0)
            started, ticker = time.perf_counter() - spent.seconds, Counted(self.reporter, spent.passes)
            for position in learner.learn(self._delivered(number, delivery, halt, ticker), ticker, halt):
                assert position.record is not None
                spent = Spent(
                    time.perf_counter() - started,
                    spent.training_seconds + position.record.seconds,
                    spent.images + position.record.images,
                    (*interrupted, provenance(learner.runtime, self.started, ())),
                    ticker.images,
                    spent.networks_from,
                )
                self.store.save_epoch(number, position, spent)
                self.reporter.epoch(position.record)
            self._score(started, spent)
            halt, spent = None, Spent()
        return tuple(self.steps)

    def _take_networks(self) -> Spent:
        """Networks for pseudo labels that another run has trained; returns where they are from and the work saved."""
        config = self.store.config
        found = trained_networks(self.store.path.parent, config)
        if found is None:
            return Spent()
        try:
            self.learner.take_networks(found.networks)
        except WhorlError:  # of a damaged or foreign file, which that run reports when it is used
            return Spent()
        self.reporter.note(f"the networks for pseudo labels are those of {found.run}")
        saved = label_passes(config, len(self.stream[0].images), unlabelled=False, initial=True)
        return Spent(passes=saved, networks_from=found.run)

    def _delivered(self, number: int, delivery: Delivery, halt: Halt | None, ticker: Ticker) -> Delivery:
        """What the learner receives: the delivery of the stream, with corrupted labels if the config asks for them."""
        config, learner = self.store.config, self.learner
        if config.label_acc is None or number == 1:
            return delivery
        if halt is not None:
            return replace(delivery, labels=halt.labels.ids)
        found = learner.label(delivery, ticker)
        seed = derive(config.seed, "corrupt", number)
        return replace(delivery, labels=self.evaluator.corrupted(number, found, config.label_acc, seed))

    def _take_over(self, task1: Run) -> None:
        """Task 1 from a run that has learned it; selecting exemplars and scoring are still done here."""
        started = time.perf_counter()
        settled, (model, networks) = dict(task1.scores().steps[0].method), task1.task1_networks()
        try:
            self.learner.take_over(self.stream[0], model, settled, networks)
        except WhorlError as error:
            raise WhorlError(f"{task_file(task1.path, 1)}: {error}") from None
        _begin(self.store, self.reporter)
        self.store.cut_log(0)
        self._score(started, Spent(), taken_from=task1.path.name)

    def _score(self, started: float, spent: Spent, taken_from: str | None = None) -> None:
        """Score the task that was just learned, and store it."""
        learner = self.learner
        assert learner.labels is not None
        self.learned.append(learner.labels.ids)
        scores = self.evaluator.score(learner.classifier, self.learned)
        step = scores.model_copy(
            update={
                "method": learner.settled,
                "taken_from": taken_from,
                "networks_from": spent.networks_from,
                "images": spent.images,
                "seconds": time.perf_counter() - started,
                "images_per_second": spent.images / spent.training_seconds if spent.training_seconds else None,
            }
        )
        self.steps.append(step)
        tasks = tuple(range(self.done_before + 1, len(self.steps) + 1))
        stored = RunScores(
            finished=len(self.steps) == len(self.stream),
            steps=tuple(self.steps),
            provenance=(*self.earlier, provenance(learner.runtime, self.started, tasks)),
        )
        self.store.save_task(learner.state(), learner.labels, stored)
        self.reporter.scored(step)


def workload(config: ExperimentConfig, data: Dataset) -> tuple[int, ...]:
    """An estimate of how many images, with further views, each task trains on. Raises if the config cannot be run."""
    check(config)
    stream, _ = _protocol(config, data)
    return tuple(_passes(config, stream, data.inputs.viewed(config.train.augment)))


def _passes(config: ExperimentConfig, stream: Stream, inputs: Inputs) -> Iterator[int]:
    known, seen, method = 0, 0, method_of(config)
    for number, delivery in enumerate(stream, 1):
        new = delivery.new or 0
        quota = config.memory.quota * (known if config.memory.policy == "per-class" else bool(known))
        replayed = seen if method.needs_past else min(quota, seen) * method.needs_memory
        load = Load(number, known, new, len(delivery.images), replayed, inputs)
        unlabelled = config.labels != "given" and number > 1
        for_labels = label_passes(config, len(delivery.images), unlabelled, number == 1)
        yield for_labels + method.passes(config.train, load)
        known, seen = known + new, seen + len(delivery.images)
