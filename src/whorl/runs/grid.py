"""A grid of runs: what there is to do, what is there already, what is shared, and who goes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from whorl.config import Config, DataConfig
from whorl.errors import WhorlError
from whorl.reporter import Record
from whorl.runs.first import first_task
from whorl.runs.pool import Pool, Worker
from whorl.runs.store import Run, stored


@dataclass(frozen=True)
class Job:
    """A run that a grid asks for."""

    name: str
    """How people call it."""
    config: Config
    passes: tuple[int, ...]
    """Images that each task pushes through training."""
    data: DataConfig
    """The images to load; the config names what was found there."""

    @cached_property
    def title(self) -> str:
        """The name of the run's folder."""
        return self.config.title

    @cached_property
    def first(self) -> str:
        """The training of its first task; jobs with the same share it."""
        return first_task(self.config)


@dataclass(frozen=True)
class Plan:
    """What a grid comes to, in a store that may hold parts of it."""

    jobs: tuple[Job, ...]
    done: dict[str, int]
    """Tasks that are finished, by the run's title; runs that are not there have none."""
    firsts: dict[str, Path]
    """Runs that have finished a first task, by which it is."""

    @property
    def finished(self) -> list[Job]:
        """Runs that are there."""
        return [job for job in self.jobs if self.done.get(job.title, 0) == len(job.passes)]

    @property
    def open(self) -> list[Job]:
        """Runs still to be made, or to be gone on with."""
        return [job for job in self.jobs if self.done.get(job.title, 0) < len(job.passes)]

    @property
    def begun(self) -> list[Job]:
        """Open runs of which at least a task is there."""
        return [job for job in self.open if self.done.get(job.title, 0)]

    @cached_property
    def training(self) -> list[Job]:
        """The jobs that will train a first task, for themselves and for others."""
        found: dict[str, Job] = {}
        for job in self.open:
            if not self.done.get(job.title, 0) and job.first not in self.firsts:
                found.setdefault(job.first, job)
        return list(found.values())

    @cached_property
    def taking_over(self) -> list[Job]:
        """The jobs that will take their first task over."""
        training = {job.title for job in self.training}
        return [job for job in self.open if not self.done.get(job.title, 0) and job.title not in training]

    @property
    def saved(self) -> int:
        """Image passes that sharing first tasks saves."""
        return sum(job.passes[0] for job in self.taking_over)

    def left(self) -> Iterator[tuple[Job, int]]:
        """Each open job, and how many of its tasks are behind it or will be taken over."""
        taking_over = {job.title for job in self.taking_over}
        for job in self.open:
            yield job, self.done.get(job.title, 0) or int(job.title in taking_over)


def plan(jobs: Iterable[Job], out: Path) -> Plan:
    """The jobs, each once, beside what is stored under ``out``."""
    unique = {job.title: job for job in jobs}
    done, firsts = dict[str, int](), dict[str, Path]()
    for run, scores in stored(out)[0] if out.is_dir() else []:
        tasks = len(scores["steps"])
        if (job := unique.get(run.path.name)) and job.title == run.config.title:
            whole = len(job.passes)
            done[job.title] = whole if scores["finished"] is True else min(tasks, whole - 1)
        with suppress(WhorlError):  # a method this whorl does not know, or a damaged file: nothing to take over there
            if tasks and (key := first_task(run.config)) not in firsts:
                run.load_first()
                firsts[key] = run.path
    return Plan(tuple(unique.values()), done, firsts)


@dataclass(eq=False)
class Running:
    """A job in a worker's hands."""

    job: Job
    trains_first: bool
    images: int = 0
    """Image passes that are to be made in all, and how many of them have been."""
    done: int = 0
    start: int = 0
    """``done`` as this sitting found it."""
    task: int = 0
    tasks: int = 0


@dataclass
class State:
    """How a grid stands."""

    waiting: list[Job]
    running: dict[Worker, Running] = field(default_factory=dict)
    finished: list[Job] = field(default_factory=list)
    failed: dict[str, tuple[Job, str]] = field(default_factory=dict)
    """By title: the job and the reason."""
    images: int = 0
    """Image passes that jobs which have ended made."""


class View(Protocol):
    """Is shown how a grid goes."""

    def update(self, state: State) -> None:
        """Something has moved."""
        ...

    def ended(self, state: State, job: Job, outcome: Record) -> None:
        """A job has finished or failed."""
        ...

    def note(self, job: Job | None, line: str) -> None:
        """A job has something to say."""
        ...


def execute(planned: Plan, out: Path, setup: Record, workers: int, view: View) -> State:
    """Run what is open, ``workers`` at a time. What fails is noted, and the others go on."""
    state = State(planned.open)
    desk = _Desk(planned, out, state)
    with Pool({**setup, "out": str(out)}) as pool:
        for _ in range(min(workers, len(state.waiting))):
            pool.start()
        idle: set[Worker] = set()
        while state.waiting or state.running:
            for worker in list(idle):
                if order := desk.next_for(worker):
                    idle.discard(worker)
                    worker.send(order)
            view.update(state)
            if (said := pool.next_event(timeout=1.0)) is None:
                continue
            worker, event = said
            kind = event["event"]
            if kind == "note":
                running = state.running.get(worker)
                view.note(running.job if running else None, event["line"])
            elif kind == "ready":
                worker.ready = True
                idle.add(worker)
            elif kind == "busy":
                desk.put_back(worker)
                idle.add(worker)
            elif kind in ("done", "failed", "ended"):
                for job in desk.close(worker, event):
                    view.ended(state, job, event)
                if kind == "ended":
                    idle.discard(worker)
                    _replace(pool, worker, event["reason"], state)
                else:
                    idle.add(worker)
            else:
                desk.moved(worker, event)
    return state


def _replace(pool: Pool, worker: Worker, reason: str, state: State) -> None:
    """A new worker for one that has ended, unless it ended before it was ready, as the new one would too."""
    if worker.ready and state.waiting:
        pool.start()
    elif not any(other.alive for other in pool.workers):
        raise WhorlError(f"a worker of the grid cannot start: {reason}")


class _Desk:
    """Hands out jobs so that no first task is trained twice."""

    def __init__(self, planned: Plan, out: Path, state: State) -> None:
        self._done, self._out, self._state = planned.done, out, state
        self._firsts = dict(planned.firsts)

    def next_for(self, worker: Worker) -> Record | None:
        """The next job whose first task is there, or that nobody is training yet; None if all have to wait."""
        busy = {running.job.first for running in self._state.running.values() if running.trains_first}
        for job in self._state.waiting:
            own = self._done.get(job.title, 0) > 0
            if not own and job.first not in self._firsts and job.first in busy:
                continue
            first = None if own else self._firsts.get(job.first)
            self._state.waiting.remove(job)
            self._state.running[worker] = Running(job, trains_first=not own and first is None)
            order = {"config": job.config.tree(), "data": job.data.model_dump(mode="json")}
            return {**order, "first": str(first) if first else None}
        return None

    def moved(self, worker: Worker, event: Record) -> None:
        """A job has come further."""
        running = self._state.running[worker]
        if event["event"] == "begin":
            running.tasks, running.images, running.done = event["tasks"], event["images"], event["done"]
            running.start = event["done"]
        elif event["event"] == "scored":
            running.task = event["task"]
            if event["task"] == 1:
                self._firsts.setdefault(running.job.first, Run.at(self._out, running.job.config).path)
                running.trains_first = False
        if "images" in event and event["event"] != "begin":
            running.done = event["images"]

    def put_back(self, worker: Worker) -> None:
        """A job that another process is working on comes last, and is looked at again."""
        self._state.waiting.append(self._state.running.pop(worker).job)

    def close(self, worker: Worker, event: Record) -> list[Job]:
        """A job has ended, one way or the other; returns it, and those that cannot be made because of it."""
        running = self._state.running.pop(worker, None)
        if running is None:
            return []
        self._state.images += running.done - running.start
        if event["event"] == "done":
            self._state.finished.append(running.job)
            return [running.job]
        ended = [running.job]
        if event["event"] == "failed" and running.trains_first:  # it would fail again in the same way
            ended += [job for job in self._state.waiting if job.first == running.job.first]
        for job in ended:
            self._state.failed[job.title] = job, event["reason"]
        self._state.waiting[:] = [job for job in self._state.waiting if job.title not in self._state.failed]
        return ended
