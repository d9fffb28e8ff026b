"""A grid: the plan, the order of the jobs, and that nothing is computed twice or stops the rest."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

import checks
from terminal import Watch, python_path
from whorl.config import ExperimentConfig
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import run, workload
from whorl.grid import messages
from whorl.grid.messages import Outcome, Setup, parse_event
from whorl.grid.pool import Pool, Worker
from whorl.grid.queue import GridState, Job, Plan, Queue, execute, plan
from whorl.runs.changed import earlier_data
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.sections import DataConfig


def setup(out: Path, workers: int = 0, **data_dirs: str) -> Setup:
    return Setup(out=str(out), threads=1, runtime=Runtime(workers=workers), data_dirs=data_dirs)


@pytest.fixture(scope="module")
def images() -> tuple[Any, Dataset]:
    return load_configured(checks.small_config().data, None, False, 0, lambda line: None)


def job(images: tuple[Any, Dataset], **changes: Any) -> Job:
    config = checks.small_config(**changes).model_copy(update={"data": images[0]})
    return Job("-".join(map(str, changes.values())), config, workload(config, images[1]), checks.small_config().data)


class Quiet:
    """A view that remembers."""

    def __init__(self) -> None:
        self.over: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def update(self, state: GridState) -> None: ...

    def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
        self.over.append((job.name, outcome.kind))

    def note(self, job: Job | None, line: str) -> None:
        self.notes.append(line)


def test_messages_keep_their_values(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    order = messages.Order(config=job(images).config, data=job(images).data, task1="there")
    assert messages.Order.model_validate_json(order.line()) == order
    sent = setup(tmp_path, 3, cifar100="data")
    assert Setup.model_validate_json(sent.line()) == sent
    for event in (
        messages.Ready(), messages.Note(text="a\nb"), messages.Begin(tasks=3, images=9, done=1), messages.Busy(),
        messages.Progress(images=4), messages.Scored(task=1, images=5), messages.Done(last=0.5),
        messages.Failed(reason="why"),
    ):  # fmt: skip
        assert event.line().count("\n") == 1
        assert parse_event(event.line()) == event
    for bad in ("", "{", "{}", '{"kind": "party"}', '{"kind": "progress"}', '{"kind": "ready", "more": 1}'):
        with pytest.raises(ValueError):
            parse_event(bad)


def test_a_plan_counts_what_is_there_and_what_is_shared(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    jobs = [
        job(images),  # finished
        job(images, labels="given"),  # reuses task 1 of the finished one
        job(images, seed=1),  # one task done
        job(images, seed=2),  # trains task 1
        job(images, seed=2, memory__select="random"),  # reuses it
        job(images, seed=2),  # the same again
        job(images, method__name="lwf", seed=2),  # trains another one
    ]
    run(jobs[0].config, images[1], tmp_path)
    with pytest.raises(InterruptedError):
        run(jobs[2].config, images[1], tmp_path, reporter=checks.StopsInTask2())
    found = plan(jobs, tmp_path)
    assert len(found.jobs) == 6
    assert [one.title for one in found.finished] == [jobs[0].title]
    assert [one.title for one in found.begun] == [jobs[2].title]
    assert [one.title for one in found.training_task1] == [jobs[3].title, jobs[6].title]
    assert [one.title for one in found.reusing_task1] == [jobs[1].title, jobs[4].title]
    assert jobs[0].passes == (80, 96, 112)  # 2 epochs of 40 images and 4 exemplars of each class so far
    assert found.saved == 2 * 80
    left = {one.title: sum(one.passes[behind:]) for one, behind in found.remaining()}
    assert [left[one.title] for one in (*jobs[1:5], jobs[6])] == [208, 208, 288, 208, 240]


def test_an_empty_store_is_no_store(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    found = plan([job(images)], tmp_path / "not there")
    assert (len(found.open), found.finished, found.saved) == (1, [], 0)


@dataclass(eq=False)
class Nobody:
    """Stands for a worker."""

    name: str


def workers(*names: str) -> list[Worker]:
    return [cast(Worker, Nobody(name)) for name in names]


def queue_of(planned: Plan, out: Path) -> tuple[Queue, GridState]:
    state = GridState(planned.open)
    return Queue(planned, out, state), state


def test_jobs_that_share_task_1_wait_until_it_is_stored(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    one, two, other = job(images), job(images, labels="given"), job(images, seed=1)
    queue, state = queue_of(plan([one, two, other], tmp_path), tmp_path)
    a, b, c = workers("a", "b", "c")
    order = queue.next_for(a)
    assert order is not None
    assert (order.config.labels, order.task1) == ("pseudo", None)
    order = queue.next_for(b)  # the second shares what is being trained, so the third is next
    assert order is not None
    assert order.config.seed == 1
    assert queue.next_for(c) is None
    queue.update(a, messages.Begin(tasks=3, images=288, done=0))
    queue.update(a, messages.Scored(task=1, images=80))
    order = queue.next_for(c)
    assert order is not None
    assert order.config.labels == "given"
    assert order.task1 == str(Run.at(tmp_path, one.config).path)
    assert state.waiting == []


def test_jobs_that_share_networks_wait_until_they_are_stored(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    networks: dict[str, Any] = {"pseudo__features": "networks", "pseudo__networks": 1}
    one, two = job(images, **networks), job(images, method__name="wa", **networks)
    assert one.task1 != two.task1
    queue, _ = queue_of(plan([one, two, job(images, method__name="icarl")], tmp_path), tmp_path)
    a, b, c = workers("a", "b", "c")
    queue.next_for(a)
    order = queue.next_for(b)  # the second needs the networks that are being trained, so the third is next
    assert order is not None
    assert order.config.method.name == "icarl"
    assert queue.next_for(c) is None
    queue.update(a, messages.Begin(tasks=3, images=288, done=0))
    queue.update(a, messages.Scored(task=1, images=80))
    order = queue.next_for(c)
    assert order is not None
    assert (order.config.method.name, order.task1) == ("wa", None)


def test_where_the_process_training_task_1_ends_the_next_job_trains_it(
    images: tuple[Any, Dataset], tmp_path: Path
) -> None:
    one, two = job(images), job(images, labels="given")
    queue, state = queue_of(plan([one, two], tmp_path), tmp_path)
    a, b = workers("a", "b")
    queue.next_for(a)
    assert queue.next_for(b) is None
    assert queue.close(a, messages.Ended(reason="gone")) == [one]
    assert state.failed == {one.title: (one, "gone")}
    order = queue.next_for(b)
    assert order is not None
    assert order.task1 is None


def test_a_task_1_that_fails_is_not_tried_again_by_the_jobs_that_share_it(
    images: tuple[Any, Dataset], tmp_path: Path
) -> None:
    one, two, other = job(images), job(images, labels="given"), job(images, seed=1)
    queue, state = queue_of(plan([one, two, other], tmp_path), tmp_path)
    (a,) = workers("a")
    queue.next_for(a)
    assert queue.close(a, messages.Failed(reason="diverged")) == [one, two]
    assert state.waiting == [other]
    assert state.failed == {one.title: (one, "diverged"), two.title: (two, "diverged")}


def test_a_run_that_another_process_holds_is_waited_for(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    held, free = job(images), job(images, seed=1)
    theirs = Run.at(tmp_path, held.config)
    theirs.lock()

    class Releaser(Quiet):
        def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
            super().ended(state, job, outcome)
            theirs.release()  # once the other one is done

    view = Releaser()
    state = execute(plan([held, free], tmp_path), setup(tmp_path), 1, view)
    assert view.over == [(free.name, "done"), (held.name, "done")]
    assert state.failed == {}


def test_runs_of_methods_that_are_gone_do_no_harm(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    one = job(images)
    done = run(one.config, images[1], tmp_path)
    gone = tmp_path / "gone"
    shutil.copytree(done.path, gone)
    text = (gone / "config.toml").read_text()
    (gone / "config.toml").write_text(text.replace('name = "ours"', 'name = "gone"').replace("temperature = 2.0", ""))
    found = plan([one, job(images, labels="given")], tmp_path)
    assert (len(found.finished), len(found.reusing_task1)) == (1, 1)
    (done.path / "task-01.safetensors").write_bytes(b"no tensors")
    found = plan([one, job(images, labels="given")], tmp_path)
    assert (len(found.training_task1), len(found.reusing_task1)) == (1, 0)  # a damaged task 1 cannot be reused


def test_a_grid_reads_photos_on_demand(tmp_path: Path) -> None:
    """ImageNet's images come from processes that a worker forks; here chosen by a list file, as another subset."""
    wnids = ["n01440764", "n01443537", "n01484850", "n01491361"]
    draws = np.random.default_rng(0)
    for part, count in (("train", 6), ("val", 3)):
        for number, wnid in enumerate(wnids):
            folder = tmp_path / "photos" / part / wnid
            folder.mkdir(parents=True)
            for name in range(count):
                pixels = draws.integers(0, 64, (24, 24, 3), dtype=np.uint8) + np.uint8(48 * number)
                Image.fromarray(pixels).save(folder / f"{name}.JPEG")
    (tmp_path / "list.txt").write_text("\n".join(wnids))
    wanted = DataConfig(name="imagenet100", resize=8, subset=str(tmp_path / "list.txt"))
    identified, data = load_configured(wanted, tmp_path / "photos", False, 0, lambda line: None)
    assert not data.train.resident
    config = checks.small_config(net__arch="tiny").model_copy(update={"data": identified})
    photos = setup(tmp_path / "runs", workers=2, imagenet100=str(tmp_path / "photos"))
    made = Job("photos", config, workload(config, data), wanted)
    state = execute(plan([made], tmp_path / "runs"), photos, 1, Quiet())
    assert state.failed == {}
    assert [one.title for one in state.finished] == [made.title]
    earlier = config.model_copy(update={"data": earlier_data(identified, data)})
    assert earlier.data.fingerprint == data.earlier_fingerprint != identified.fingerprint
    before = Job("photos", earlier, made.passes, wanted)
    assert not execute(plan([before], tmp_path / "runs"), photos, 1, Quiet()).failed


def test_a_grid_runs_everything_once_and_failures_stop_nobody(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    jobs = [
        job(images),
        job(images, optim__lr=1e30),  # diverges
        job(images, labels="given"),
        job(images, memory__select="random"),
        job(images, cluster__name="agglomerative"),
    ]
    view = Quiet()
    state = execute(plan(jobs, tmp_path), setup(tmp_path), 2, view)
    assert {one.name for one in state.finished} == {jobs[k].name for k in (0, 2, 3, 4)}
    ((failed, reason),) = state.failed.values()
    assert failed.name == jobs[1].name
    assert "training diverged" in reason
    assert sorted(how for _, how in view.over) == ["done"] * 4 + ["failed"]
    trained = [r["task"] for one in (jobs[0], *jobs[2:]) for r in _log(tmp_path, one.config)]
    assert trained.count(1) == 2  # both epochs of one task 1, for four runs
    for one in jobs[2:]:
        alone = run(one.config, images[1], tmp_path / "alone")
        assert checks.same(checks.stored(alone.path), checks.stored(tmp_path / one.title))

    times = _times(tmp_path)
    again = execute(plan(jobs, tmp_path), setup(tmp_path), 2, Quiet())
    assert again.finished == []
    assert [one.name for one, _ in again.failed.values()] == [failed.name]
    assert {path: when for path, when in _times(tmp_path).items() if failed.title not in path} == {
        path: when for path, when in times.items() if failed.title not in path
    }


@pytest.fixture
def halting(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Workers stop after their first update until the test opens the gate."""
    for name, value in watch.env("update 1").items():
        monkeypatch.setenv(name, value)
    return watch


@pytest.mark.parametrize("seeds", [(0, 1), (0,)])
def test_a_worker_that_is_killed_costs_its_run_only(
    seeds: tuple[int, ...], images: tuple[Any, Dataset], tmp_path: Path, halting: Watch
) -> None:
    class Killer(Quiet):
        """Kills the worker that has stopped, and lets the next one train."""

        killed = False

        def update(self, state: GridState) -> None:
            if halting.halted and not self.killed:
                self.killed = True
                (worker,) = state.running
                assert [worker.process.pid] == halting.halted
                os.kill(worker.process.pid, signal.SIGKILL)
                halting.open()

    jobs = [job(images, seed=seed) for seed in seeds]
    state = execute(plan(jobs, tmp_path), setup(tmp_path), 1, Killer())
    assert [one.name for one in state.finished] == [one.name for one in jobs[1:]]
    assert "ended unexpectedly (signal 9)" in state.failed[jobs[0].title][1]


def test_a_worker_that_is_killed_while_it_waits_is_replaced(
    images: tuple[Any, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halting: Watch
) -> None:
    pools = list[Pool]()

    class Watched(Pool):
        def __init__(self, setup: Setup) -> None:
            super().__init__(setup)
            pools.append(self)

    class Killer(Quiet):
        """Kills a worker that is ready while the other one has stopped in task 1, which both jobs share."""

        killed = False

        def update(self, state: GridState) -> None:
            waiting = [w for w in pools[0].workers if w.ready and w not in state.running]
            if halting.halted and waiting and not self.killed:
                self.killed = True
                os.kill(waiting[0].process.pid, signal.SIGKILL)
            if len(pools[0].workers) == 3:
                halting.open()

    monkeypatch.setattr("whorl.grid.queue.Pool", Watched)
    jobs = [job(images), job(images, labels="given")]
    view = Killer()
    state = execute(plan(jobs, tmp_path), setup(tmp_path), 2, view)
    assert view.killed
    assert (len(state.finished), state.failed) == (2, {})
    assert len(pools[0].workers) == 3


def test_workers_that_cannot_start_are_said_to(
    images: tuple[Any, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    (tmp_path / "torch.py").write_text("raise ImportError('a broken torch')")
    with pytest.raises(WhorlError, match=r"a worker of the grid cannot start: .*ImportError: a broken torch"):
        execute(plan([job(images)], tmp_path / "runs"), setup(tmp_path / "runs"), 1, Quiet())


def test_a_task_1_that_cannot_be_read_is_trained_again(images: tuple[Any, Dataset], tmp_path: Path) -> None:
    giver, taker = job(images, labels="given"), job(images)
    run(giver.config, images[1], tmp_path)
    planned, view = plan([taker], tmp_path), Quiet()
    assert planned.reusing_task1 == [taker]
    (tmp_path / giver.title / "task-01.safetensors").write_bytes(b"no tensors")
    state = execute(planned, setup(tmp_path), 1, view)
    assert [one.title for one in state.finished] == [taker.title]
    assert [r["task"] for r in _log(tmp_path, taker.config)].count(1) == 2
    assert any("is trained again" in note for note in view.notes)


def _log(out: Path, config: ExperimentConfig) -> list[dict[str, Any]]:
    return Run.at(out, config).log()


def _times(out: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.glob("*/*.safetensors")}


def test_a_bug_in_one_run_leaves_its_traceback_in_the_folder(
    images: tuple[Any, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in that raises anything at all, in the worker's own process."""
    package = tmp_path / "site"
    (package / "broken-1.dist-info").mkdir(parents=True)
    (package / "broken.py").write_text(
        "class Broken:\n"
        "    def __init__(self, **options): pass\n"
        "    def fit_predict(self, *_): raise ZeroDivisionError('on purpose')\n"
    )
    (package / "broken-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (package / "broken-1.dist-info" / "entry_points.txt").write_text("[whorl.cluster]\nbroken = broken:Broken\n")
    monkeypatch.setenv("PYTHONPATH", python_path(package))
    monkeypatch.syspath_prepend(str(package))
    bad, good = job(images, cluster__name="broken"), job(images, labels="given")
    state = execute(plan([bad, good], tmp_path / "runs"), setup(tmp_path / "runs"), 1, Quiet())
    assert [one.title for one in state.finished] == [good.title]
    ((_, reason),) = state.failed.values()
    assert reason.startswith("ZeroDivisionError: on purpose (a bug; ")
    assert "fit_predict" in (tmp_path / "runs" / bad.title / "error.txt").read_text()
    assert json.loads((tmp_path / "runs" / bad.title / "scores.json").read_text())["finished"] is False
