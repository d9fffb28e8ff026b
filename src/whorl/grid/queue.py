"""A grid of runs: its jobs, the runs that are stored already, the sharing of task 1, and the order of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from whorl.config import ExperimentConfig
from whorl.errors import WhorlError
from whorl.grid.messages import (
    Begin,
    Busy,
    Done,
    Ended,
    Event,
    Failed,
    Note,
    Order,
    Outcome,
    Progress,
    Ready,
    Scored,
    Setup,
)
from whorl.grid.pool import Pool, Worker
from whorl.runs.networks import networks_key
from whorl.runs.run import Run, stored
from whorl.runs.task1 import task1_key
from whorl.sections import DataConfig


@dataclass(frozen=True)
class Job:
    """A run that a grid needs."""

    name: str
    """A name for people."""
    config: ExperimentConfig
    passes: tuple[int, ...]
    """Images that each task trains on in all epochs, with further views: :func:`whorl.experiment.workload`."""
    data: DataConfig
    """The images to load; ``config.data`` identifies the images that were found."""

    @cached_property
    def title(self) -> str:
        """The name of the run's folder."""
        return self.config.title

    @cached_property
    def task1(self) -> str:
        """Identifies the training of task 1; jobs with the same value share it."""
        return task1_key(self.config)

    @cached_property
    def networks(self) -> str | None:
        """Identifies the networks for pseudo labels, which task 1 begins with; None for a job without them."""
        return networks_key(self.config) if self.config.pseudo.networks else None


@dataclass(frozen=True)
class Plan:
    """The jobs of a grid, and how much of them the folder of runs already holds."""

    jobs: tuple[Job, ...]
    done: dict[str, int]
    """Number of finished tasks by the run's title; runs that are not stored are missing."""
    task1_runs: dict[str, Path]
    """A stored run with a finished task 1, by :func:`~whorl.runs.task1.task1_key`."""

    @property
    def finished(self) -> list[Job]:
        """Jobs whose runs are finished."""
        return [job for job in self.jobs if self.done.get(job.title, 0) == len(job.passes)]

    @property
    def open(self) -> list[Job]:
        """Jobs that still have to be run or resumed."""
        return [job for job in self.jobs if self.done.get(job.title, 0) < len(job.passes)]

    @property
    def begun(self) -> list[Job]:
        """Open jobs with at least one finished task."""
        return [job for job in self.open if self.done.get(job.title, 0)]

    @cached_property
    def training_task1(self) -> list[Job]:
        """The jobs that will train task 1, for themselves and for the jobs that share it."""
        found: dict[str, Job] = {}
        for job in self.open:
            if not self.done.get(job.title, 0) and job.task1 not in self.task1_runs:
                found.setdefault(job.task1, job)
        return list(found.values())

    @cached_property
    def reusing_task1(self) -> list[Job]:
        """The jobs that will reuse the task 1 of another run."""
        training = {job.title for job in self.training_task1}
        return [job for job in self.open if not self.done.get(job.title, 0) and job.title not in training]

    @property
    def saved(self) -> int:
        """Image passes that sharing task 1 saves."""
        return sum(job.passes[0] for job in self.reusing_task1)

    def remaining(self) -> Iterator[tuple[Job, int]]:
        """Each open job, and how many of its tasks are finished or will be reused."""
        reusing = {job.title for job in self.reusing_task1}
        for job in self.open:
            yield job, self.done.get(job.title, 0) or int(job.title in reusing)


def plan(jobs: Iterable[Job], out: Path) -> Plan:
    """The jobs without duplicates, and the runs that ``out`` already holds."""
    unique = {job.title: job for job in jobs}
    done, task1_runs = dict[str, int](), dict[str, Path]()
    for run, scores in stored(out)[0] if out.is_dir() else []:
        tasks = len(scores.steps)
        if (job := unique.get(run.path.name)) and job.title == run.config.title:
            total = len(job.passes)
            done[job.title] = total if scores.finished else min(tasks, total - 1)
        with suppress(WhorlError):  # a method that this version does not know
            if tasks and (key := task1_key(run.config)) not in task1_runs and run.has_task1():
                task1_runs[key] = run.path
    return Plan(tuple(unique.values()), done, task1_runs)


@dataclass(eq=False)
class Running:
    """A job that a worker is running."""

    job: Job
    trains_task1: bool
    images: int = 0
    """Image passes of the whole run."""
    done: int = 0
    """Image passes made so far."""
    start: int = 0
    """``done`` when the worker began."""
    task: int = 0
    """The last finished task."""
    tasks: int = 0


@dataclass
class GridState:
    """The progress of a grid."""

    waiting: list[Job]
    running: dict[Worker, Running] = field(default_factory=dict)
    finished: list[Job] = field(default_factory=list)
    failed: dict[str, tuple[Job, str]] = field(default_factory=dict)
    """The job and the reason, by title."""
    images: int = 0
    """Image passes made by jobs that have ended."""


class View(Protocol):
    """Shows the progress of a grid."""

    def update(self, state: GridState) -> None:
        """Called after every event, and at least once per second."""
        ...

    def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
        """Called when a job has finished or failed."""
        ...

    def note(self, job: Job | None, line: str) -> None:
        """Called with a line for the user."""
        ...


def execute(planned: Plan, setup: Setup, workers: int, view: View) -> GridState:
    """Run the open jobs, ``workers`` at a time. A job that fails is recorded, and the others continue."""
    state = GridState(planned.open)
    jobs = Queue(planned, Path(setup.out), state)
    with Pool(setup) as pool:
        for _ in range(min(workers, len(state.waiting))):
            pool.start()
        idle: set[Worker] = set()
        while state.waiting or state.running:
            for worker in list(idle):
                if order := jobs.next_for(worker):
                    idle.discard(worker)
                    worker.send(order)
            view.update(state)
            if (received := pool.next_event(timeout=1.0)) is None:
                continue
            worker, event = received
            if isinstance(event, Note):
                running = state.running.get(worker)
                view.note(running.job if running else None, event.text)
            elif isinstance(event, Done | Failed | Ended):
                for job in jobs.close(worker, event):
                    view.ended(state, job, event)
            else:
                jobs.update(worker, event)
            if isinstance(event, Ready | Busy | Done | Failed):
                worker.ready = True
                idle.add(worker)
            elif isinstance(event, Ended):
                idle.discard(worker)
                _replace(pool, worker, event.reason, state)
    return state


def _replace(pool: Pool, worker: Worker, reason: str, state: GridState) -> None:
    """Start a new worker for one that has ended, unless it ended before it was ready: the new one would too."""
    if worker.ready and state.waiting:
        pool.start()
    elif not worker.ready and not any(other.alive for other in pool.workers):
        raise WhorlError(f"a worker of the grid cannot start: {reason}")


class Queue:
    """Hands out jobs so that no task 1 is trained twice, and no networks for pseudo labels are."""

    def __init__(self, planned: Plan, out: Path, state: GridState) -> None:
        self._done, self._out, self._state = planned.done, out, state
        self._task1_runs = dict(planned.task1_runs)

    def next_for(self, worker: Worker) -> Order | None:
        """The next job whose task 1 is stored, or not being trained yet by others; None if every job has to wait."""
        in_training = {
            key
            for running in self._state.running.values()
            if running.trains_task1
            for key in (running.job.task1, running.job.networks)
        }
        for job in self._state.waiting:
            resumed = self._done.get(job.title, 0) > 0
            stored = resumed or job.task1 in self._task1_runs
            if not stored and not in_training.isdisjoint({job.task1, job.networks} - {None}):
                continue
            task1 = None if resumed else self._task1_runs.get(job.task1)
            self._state.waiting.remove(job)
            self._state.running[worker] = Running(job, trains_task1=not resumed and task1 is None)
            return Order(config=job.config, data=job.data, task1=str(task1) if task1 else None)
        return None

    def update(self, worker: Worker, event: Event) -> None:
        """Record the progress of a job."""
        if isinstance(event, Busy):  # another process works on it: it goes to the end and is tried again
            self._state.waiting.append(self._state.running.pop(worker).job)
        elif isinstance(event, Begin):
            running = self._state.running[worker]
            running.tasks, running.images = event.tasks, event.images
            running.done = running.start = event.done
        elif isinstance(event, Progress | Scored):
            running = self._state.running[worker]
            running.done = event.images
            if isinstance(event, Scored):
                running.task = event.task
                if event.task == 1:
                    self._task1_runs.setdefault(running.job.task1, Run.at(self._out, running.job.config).path)
                    running.trains_task1 = False

    def close(self, worker: Worker, outcome: Outcome) -> list[Job]:
        """Record that a job has ended; returns it, and the jobs that cannot be run because of it."""
        running = self._state.running.pop(worker, None)
        if running is None:
            return []
        self._state.images += running.done - running.start
        if isinstance(outcome, Done):
            self._state.finished.append(running.job)
            return [running.job]
        ended = [running.job]
        if isinstance(outcome, Failed) and running.trains_task1:  # the jobs that share it would fail in the same way
            ended += [job for job in self._state.waiting if job.task1 == running.job.task1]
        for job in ended:
            self._state.failed[job.title] = job, outcome.reason
        self._state.waiting[:] = [job for job in self._state.waiting if job.title not in self._state.failed]
        return ended
