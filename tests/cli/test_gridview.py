"""What a grid shows while it runs: counts and the time left, by hand."""

from __future__ import annotations

from typing import Any, cast

import pytest

import checks
from whorl.cli.gridview import Live, Plain
from whorl.grid.messages import Done, Failed
from whorl.grid.pool import Worker
from whorl.grid.queue import GridState, Job, Plan, Running


def jobs() -> list[Job]:
    configs = [checks.small_config(seed=seed) for seed in range(4)]
    return [Job(f"job {config.seed}", config, (100, 100), config.data) for config in configs]


def standing(four: list[Job]) -> tuple[Plan, GridState]:
    """One was there, one is finished, one has made 50 of its 200 image passes, one waits."""
    planned = Plan(tuple(four), {four[0].title: 2}, {})
    state = GridState(waiting=[four[3]], finished=[four[1]], images=200)
    state.running[cast(Worker, object())] = Running(four[2], True, images=200, done=50, task=0, tasks=2)
    return planned, state


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("whorl.cli.gridview.time.monotonic", lambda: now[0])
    return now


def test_the_time_left_is_told_from_what_has_been_done(clock: list[float]) -> None:
    planned, state = standing(jobs())
    view = Plain(planned)
    assert view.left(GridState(planned.open)) == "…"
    clock[0] += 100  # 250 passes took 100 s; 150 of the running job and 200 of the waiting one are left
    assert view.left(state) == "2m20s"


def test_lines_say_how_runs_ended(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    four = jobs()
    planned, state = standing(four)
    view = Plain(planned)
    clock[0] += 100
    view.ended(state, four[1], Done(avg=0.25, last=0.125))
    state.failed[four[3].title] = four[3], "gone"
    view.ended(state, four[3], Failed(reason="gone"))
    view.note(four[2], "a word")
    assert capsys.readouterr().err.splitlines() == [
        "[2/4] job 1: avg 0.250  last 0.125  (2m20s left)",
        "[3/4] job 3: FAILED: gone  (2m20s left)",
        "job 2: a word",
    ]


def test_a_terminal_shows_the_whole_grid_in_a_line(clock: list[float]) -> None:
    planned, state = standing(jobs())
    view = Live(planned)
    try:
        clock[0] += 100
        assert view.counts(state) == "2 finished  1 running  1 waiting  0 failed  2m20s left"
        columns: Any = view._table(state).columns
        assert [list(map(str, column.cells)) for column in columns] == [[" 25%"], ["task 1/2"], ["job 2"]]
    finally:
        view.close()
