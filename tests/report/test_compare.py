"""Runs beside each other: values and differences by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from madeup import asked, put
from whorl.errors import WhorlError
from whorl.papers.stored import Done
from whorl.report.compare import comparison
from whorl.runs.run import Run


def run(runs: Path, what: Any, accs: list[Any], **more: Any) -> Done:
    return Done.of(Run.open(runs / put(runs, what, accs, **more).title))


def test_values_that_differ_and_scores_after_each_task(tmp_path: Path) -> None:
    per_task = [[0.9], [0.8, 0.4], [0.6, 0.5, 0.2]]
    a = run(tmp_path, asked(), [0.9, 0.6, 0.4], per_task=per_task)
    b = run(tmp_path, asked("wa", labels="given"), [0.8, 0.5], seed=4, recipe="fast")
    made = comparison([a, b], "acc")
    assert made.after == {1: [0.9, 0.8], 2: [0.6, 0.5], 3: [0.4, None]}
    assert made.summary["avg"] == [pytest.approx(0.5), 0.5]
    assert made.summary["last"] == [0.4, 0.5]
    # Task 1 fell from 0.9 to 0.6, task 2 rose from 0.4 to 0.5; the other run does not say.
    assert made.summary["forgetting"] == [pytest.approx((0.3 - 0.1) / 2), None]
    differing = made.differing
    assert differing["method.name"] == ["ours", "wa"]
    assert differing["labels"] == ["pseudo", "given"]
    assert differing["seed"] == ["0", "4"]
    assert differing["optim.schedule"] == ["steps", "onecycle"]
    assert "data.name" not in differing
    assert made.names == ["1 ours, labels pseudo, paper", "2 wa, labels given, fast"]


def test_the_plot_has_a_curve_for_each_run_over_the_classes_seen(tmp_path: Path) -> None:
    a = run(tmp_path, asked(), [0.9, None, 0.4])
    b = run(tmp_path, asked(column="cifar-20"), [0.8, 0.5])
    (axes,) = comparison([a, b], "acc").figure().axes
    assert [line.get_xydata().tolist() for line in axes.get_lines()] == [
        [[10, 0.9], [30, 0.4]], [[20, 0.8], [40, 0.5]],
    ]  # fmt: skip
    assert axes.get_ylabel() == "ACC"


def test_another_score_and_runs_that_are_the_same_but_for_the_seed(tmp_path: Path) -> None:
    a = run(tmp_path, asked(), [0.9, 0.5], label_acc=[None, 0.3])
    b = run(tmp_path, asked(), [0.9, 0.5], seed=1, label_acc=[None, 0.2])
    made = comparison([a, b], "label_acc")
    assert made.after == {1: [None, None], 2: [0.3, 0.2]}
    assert made.summary["avg"] == [0.3, 0.2]
    assert made.differing == {"seed": ["0", "1"]}


def test_what_three_values_do_not_tell_apart_a_fourth_does(tmp_path: Path) -> None:
    same: dict[str, Any] = {"labels": "pseudo", "memory": {"quota": 20, "select": "random"}}
    runs = [
        run(tmp_path, asked("wa", "cifar-20", labels="given"), [0.9, 0.5]),
        run(tmp_path, asked(**same), [0.9, 0.5]),
        run(tmp_path, asked(pseudo={"features": "pca"}, **same), [0.9, 0.5]),
    ]
    assert comparison(runs, "acc").names == [
        "1 wa, labels given, step 20, features current",
        "2 ours, labels pseudo, step 10, features current",
        "3 ours, labels pseudo, step 10, features pca",
    ]


def test_runs_of_one_name_in_two_stores_are_two_runs(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, asked(), [0.9, acc]) for name, acc in (("here", 0.5), ("there", 0.6))]
    made = comparison(runs, "acc")
    assert made.after[2] == [0.5, 0.6]
    assert made.differing == {}
    assert made.folders == [str(tmp_path / name / runs[0].name) for name in ("here", "there")]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    a = run(tmp_path, asked(), [0.9, 0.5])
    b = run(tmp_path, asked(), [], seed=1, finished=False)
    for runs, score, said in (
        ([a], "acc", "at least two runs"),
        ([a, a], "acc", "named twice"),
        ([a, b], "acc", "no finished task"),
        ([a, a], "accc", "did you mean 'acc'"),
        ([a, run(tmp_path, asked(), [0.9], seed=2)], "nmi", "none of these runs has the score nmi"),
    ):
        with pytest.raises(WhorlError, match=said):
            comparison(runs, score)


def test_the_versions_of_each_run_are_listed(tmp_path: Path) -> None:
    a = run(tmp_path, asked(), [0.9, 0.5], version="0.1.0")
    b = run(tmp_path, asked(), [0.9, 0.5], seed=1)
    made = comparison([a, b], "acc")
    assert made.versions == made.records()["versions"] == [["0.1.0"], ["not recorded"]]
