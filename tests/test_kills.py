"""Two hundred SIGKILLs: runs of every method and a grid are killed at chosen points and end with the same bits."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import checks
from terminal import Watch
from whorl.config import ExperimentConfig
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.experiment import run, workload
from whorl.grid.messages import Outcome, Setup
from whorl.grid.queue import GridState, Job, execute, plan
from whorl.methods import METHODS
from whorl.runs.run import Run
from whorl.runtime import Runtime

KILLS = 18
"""Kills per method; there are ten methods."""
GRID_KILLS = 20
CHANGES = "open", "os.rename", "os.remove", "os.truncate"


def _run_until_killed(config: ExperimentConfig, data: Dataset, out: Path, event: int) -> None:
    """Run a config; the process kills itself at the given change of a file or update of the optimiser."""
    torch.set_num_threads(1)
    count = checks.killer(event)

    def audit(name: str, values: tuple[Any, ...]) -> None:
        if name in CHANGES and str(values[0]).startswith(str(out)) and (name != "open" or values[1] != "rb"):
            count()

    sys.addaudithook(audit)
    register_optimizer_step_post_hook(count)
    run(config, data, out)


def _same_run(path: Path, whole: Path) -> None:
    assert checks.same(checks.stored(path), checks.stored(whole))
    assert checks.numbers(Run.open(path).scores().steps) == checks.numbers(Run.open(whole).scores().steps)
    lines = [[(r["task"], r["phase"], r["epoch"]) for r in Run.open(each).log()] for each in (path, whole)]
    assert lines[0] == lines[1]
    assert {file.name for file in path.iterdir()} == {file.name for file in whole.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_runs_of_every_method(method: str, small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(method__name=method)
    whole = run(config, small_data, tmp_path / "whole").path
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["whorl.experiment"])
    draws, kills, ended = np.random.default_rng(sorted(METHODS).index(method)), 0, 0
    while kills < KILLS:
        out = tmp_path / str(ended)
        process = context.Process(target=_run_until_killed, args=(config, small_data, out, int(draws.integers(1, 25))))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            _same_run(out / config.title, whole)
            ended += 1
    run(config, small_data, tmp_path / str(ended))
    _same_run(tmp_path / str(ended) / config.title, whole)


class Quiet:
    """A view that counts workers that were killed."""

    kills = 0

    def update(self, state: GridState) -> None: ...

    def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
        self.kills += outcome.kind == "ended" and "signal 9" in outcome.reason

    def note(self, job: Job | None, line: str) -> None: ...


@pytest.mark.slow
def test_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Workers kill themselves before they put a file into place; the grid is started again until it is finished."""
    monkeypatch.chdir(tmp_path)
    wanted = checks.small_config().data
    identified, data = load_configured(wanted, None, False, 0, lambda line: None)
    jobs = list[Job]()
    for changes in ({}, {"labels": "given"}, {"memory__select": "random"}, {"seed": 1}):
        config = checks.small_config(**changes).model_copy(update={"data": identified})
        jobs.append(Job(str(changes), config, workload(config, data), wanted))
    setup, view, ended = Setup(out="", threads=1, runtime=Runtime()), Quiet(), 0
    draws = np.random.default_rng(0)
    while view.kills < GRID_KILLS:
        out = tmp_path / str(ended)
        for name, value in watch.env(f"kill {draws.integers(1, 9)}").items():
            monkeypatch.setenv(name, value)
        planned = plan(jobs, out)
        ended += not planned.open
        execute(planned, setup.model_copy(update={"out": str(out)}), 2, view)
    monkeypatch.delenv("WHORL_HALT")
    state = execute(plan(jobs, out), setup.model_copy(update={"out": str(out)}), 2, view)
    assert state.failed == {}
    for job in jobs:
        whole = run(job.config, data, tmp_path / "whole").path
        assert checks.same(checks.stored(out / job.title), checks.stored(whole))
