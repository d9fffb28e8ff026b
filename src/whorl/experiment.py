"""The loop over tasks: learn, score, commit; resumed wherever it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from whorl import cluster
from whorl.config import Config, PseudoConfig
from whorl.data.augment import VIEWS, Augment
from whorl.data.source import Dataset
from whorl.data.stream import Stream, Task, class_incremental, split_sizes
from whorl.engine import Learner
from whorl.errors import WhorlError, unknown
from whorl.evaluate import Evaluator
from whorl.memory.memory import Memory
from whorl.memory.select import get_selector
from whorl.methods import method_of
from whorl.methods.base import Load
from whorl.nets.heads import HEADS
from whorl.nets.resnet import BACKBONES
from whorl.reporter import Reporter, Silent
from whorl.runs.store import Run, Spent
from whorl.runtime import Runtime, threads_for
from whorl.scores import RunScores, Summary, TaskScores


@dataclass(frozen=True)
class Result:
    """A finished run."""

    path: Path
    config: Config
    steps: tuple[TaskScores, ...]
    summary: Summary


def check(config: Config) -> None:
    """Names and combinations that a config's types cannot rule out."""
    for kind, name, known in (
        ("network", config.net.arch, BACKBONES),
        ("head", config.net.head, HEADS),
        ("augmentation", config.train.augment, {"auto", *VIEWS}),
    ):
        if name not in known:
            raise unknown(kind, name, known)
    get_selector(config.memory.select)
    cluster.create(**config.cluster.model_dump())
    method, pseudo = method_of(config), config.pseudo
    method.check(config, ())
    if config.labels == "given" and pseudo != PseudoConfig():
        raise WhorlError("--features and --refresh are about pseudo labels; leave them out with --labels given")
    if pseudo.refresh and pseudo.features != "current":
        raise WhorlError(f"--refresh clusters with the current model; it does not go with --features {pseudo.features}")
    if pseudo.refresh and (method.online or method.hold_out_every):
        reason = "sees each image once" if method.online else "holds images out by their first labels"
        raise WhorlError(f"{method.name} {reason}; it does not go with --refresh")
    if config.classifier == "nme" and config.memory.quota == 0:
        raise WhorlError("--classifier nme needs exemplars; set --quota or choose --classifier fc")


def run(
    config: Config,
    data: Dataset,
    out: Path,
    runtime: Runtime | None = None,
    reporter: Reporter | None = None,
    fresh: bool = False,
    task1: Run | None = None,
) -> Result:
    """Run a config to its end under ``out``: from the start, from where it stopped, or just read the result.

    ``task1`` is a run with the same :func:`whorl.runs.first.first_task`: its task 1 is taken over, not trained again.
    """
    check(config)
    stream, evaluator = _protocol(config, data)
    reporter = reporter or Silent()
    store = Run.at(out, config)
    store.lock()
    try:
        if fresh:
            store.clear()
        before = store.scores()
        store.tidy(len(before.steps), before.finished)
        store.begin()
        steps = list(before.steps)
        if not before.finished:
            runtime = replace(runtime or Runtime(), precision=config.precision)
            learner = Learner(config, Augment.of(data, config.train.augment), runtime)
            with threads_for(config.net.arch):
                for step in _continue(store, learner, stream, evaluator, steps, reporter, task1):
                    steps.append(step)
                    scores = RunScores(finished=len(steps) == len(stream), steps=tuple(steps))
                    store.save_task(learner.state(), scores)
                    reporter.scored(step)
        return Result(store.path, config, tuple(steps), Summary.of(steps))
    finally:
        store.release()


def _protocol(config: Config, data: Dataset) -> tuple[Stream, Evaluator]:
    given = config.labels == "given"
    spec = config.stream
    sizes = split_sizes(len(data.class_names), spec.step, spec.first, spec.tasks)
    Memory(config.memory.policy, config.memory.quota).per_class(sum(sizes))  # says now if that is too few
    method_of(config).check(config, sizes)
    stream, truth = class_incremental(data, sizes, spec.order, given)
    for task in stream:
        if len(task.images) < task.classes:
            raise WhorlError(
                f"task {task.index} has {len(task.images)} images for {task.classes} clusters; "
                "give more images (--per-class) or fewer classes a task (--step)"
            )
    return stream, Evaluator(truth, sizes, config.classifier, given)


def _continue(
    store: Run,
    learner: Learner,
    stream: Stream,
    evaluator: Evaluator,
    steps: list[TaskScores],
    reporter: Reporter,
    task1: Run | None,
) -> Iterator[TaskScores]:
    """The scores of every task that is still to be learned."""
    if task1 and not steps:
        store.forget_epochs()
        yield _taken_over(task1, learner, stream[0], evaluator)  # whoever takes a record adds it to ``steps``
    done = len(steps)
    if done and not learner.learned:
        learner.restore(store.load_task(done), stream[:done])
    halt, spent = store.load_epoch(done + 1)
    behind, ahead = sum(s.images for s in steps), sum(list(_passes(learner.config, stream, learner.augment))[done:])
    reporter.begin(len(stream), behind + ahead, behind + spent.images)
    for task in stream[done:]:
        reporter.task(task.index, task.classes)
        started = time.perf_counter() - spent.seconds
        for position in learner.learn(task, reporter, halt):
            record = position.record
            spent = Spent(
                time.perf_counter() - started,
                spent.training_seconds + record["seconds"],
                spent.images + record["images"],
            )
            store.save_epoch(task.index, position, spent)
            reporter.epoch(record)
        scores = evaluator.score(learner, task.index)
        seconds = time.perf_counter() - started
        rate = spent.images / spent.training_seconds if spent.training_seconds else None
        yield TaskScores(**scores, method=learner.settled, images=spent.images, seconds=seconds, images_per_second=rate)
        halt, spent = None, Spent()


def _taken_over(first: Run, learner: Learner, task: Task, evaluator: Evaluator) -> TaskScores:
    """Task 1 from a run that has learned it; only choosing exemplars and scoring are left to do."""
    started = time.perf_counter()
    learner.take_over(task, first.load_first(), first.scores().steps[0].method)
    return TaskScores(
        **evaluator.score(learner, task.index),
        method=learner.settled,
        taken_from=first.path.name,
        images=0,
        seconds=time.perf_counter() - started,
    )


def workload(config: Config, data: Dataset) -> tuple[int, ...]:
    """About how many images each task of a run will push through training. Raises where the config cannot be run."""
    check(config)
    stream, _ = _protocol(config, data)
    return tuple(_passes(config, stream, Augment.of(data, config.train.augment)))


def _passes(config: Config, stream: Stream, augment: Augment) -> Iterator[int]:
    known, seen, method = 0, 0, method_of(config)
    for task in stream:
        quota = config.memory.quota * (known if config.memory.policy == "per-class" else bool(known))
        replayed = seen if method.needs_past else min(quota, seen) * method.needs_memory
        load = Load(task.index, known, task.classes, len(task.images), replayed, augment)
        yield method.passes(config.train, load)
        known, seen = known + task.classes, seen + len(task.images)
