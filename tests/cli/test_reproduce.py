"""``whorl reproduce``: the whole paper in small, kills, interrupts, and wrong input."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from conftest import Call, Start
from terminal import whorl
from whorl.papers import manifest
from whorl.runs.run import stored

TINY = ["--data", "digits", "--seeds", "1", "--per-class", "12", "--set", "train.first_epochs=1"]
LONG = [
    "reproduce", "he2021", "--data", "digits", "--table", "2", "--step", "10", "--seeds", "1", "--per-class", "40",
    "--jobs", "2", "--set", "train.first_epochs=4", "--set", "train.epochs=8",
]  # fmt: skip
"""Six runs of 24 to 28 epochs. A run moves a file into place per epoch, three per task, and one at its start."""


def test_the_whole_paper_in_small(tmp_path: Path) -> None:
    words = ["reproduce", "he2021", *TINY, "--set", "train.epochs=2", "--recipe", "demo"]
    plan = whorl(*words, "--dry-run", cwd=tmp_path).stdout  # with 2 epochs, UPL-10, -20 and -30 are the same runs
    assert "237 cells need 100 runs" in plan
    assert "task 1 is trained in 21 runs and reused by 79" in plan
    assert re.search(r"time +about \S+ of training with \d+ jobs? \(tiny 8×8 fp32: \d+ images/s", plan)
    assert not (tmp_path / "runs").exists()

    done = whorl(*words, cwd=tmp_path)
    assert "finished  100 of 100 runs" in done.stdout
    runs, left_out = stored(tmp_path / "runs")
    assert (len(runs), left_out) == (100, [])
    assert all(scores.finished for _, scores in runs)
    trained = sum(any(record["task"] == 1 for record in run.log()) for run, _ in runs)
    assert trained == 21
    assert sum(scores.steps[0].taken_from is not None for _, scores in runs) == 79
    (entry,) = manifest.read(tmp_path / "runs", "he2021").entries
    assert {title for cell in entry.cells for title in cell.runs.values()} == {run.path.name for run, _ in runs}
    found = json.loads(whorl("report", "--json", cwd=tmp_path).stdout)
    assert found["filled"] == found["cells"] == 237
    assert len(found["settings"]) == 1  # also for ilio, whose runs have no epochs to set
    page = (tmp_path / "report" / "report.html").read_text()
    assert "12 images per class" in page
    assert {path.name for path in (tmp_path / "report").glob("table-*.csv")} == {f"table-{n}.csv" for n in (1, 2, 3)}

    again = whorl(*words, cwd=tmp_path)
    assert "100 runs finished, 0 to do" in again.stdout


def test_killed_in_the_middle_and_started_again(start: Start, tmp_path: Path) -> None:
    process = start(*LONG, cwd=tmp_path, halt="rename 90")  # a worker is in its third run, and other runs are open
    process.until_halted()
    process.send(signal.SIGKILL)
    process.watch.wait()  # the workers notice that their parent is gone and end
    before = stored(tmp_path / "runs")[0]
    finished = {run.path.name: _stamps(run.path) for run, scores in before if scores.finished}
    assert 2 <= len(finished) < 6
    again = whorl(*LONG, cwd=tmp_path)
    assert "finished  6 of 6 runs" in again.stdout
    assert {name: _stamps(tmp_path / "runs" / name) for name in finished} == finished
    for run, scores in stored(tmp_path / "runs")[0]:
        assert scores.finished
        epochs = [(record["task"], record["epoch"]) for record in run.log()]
        assert len(epochs) == len(set(epochs))
        assert epochs == [(t, e) for t in (1, 2, 3, 4) for e in range(1, (4 if t == 1 else 8) + 1) if (t, e) in epochs]
    assert sum(any(record["task"] == 1 for record in run.log()) for run, _ in stored(tmp_path / "runs")[0]) == 1


def test_ctrl_c_stops_cleanly(start: Start, tmp_path: Path) -> None:
    process = start(*LONG, cwd=tmp_path, halt="rename 50")
    process.until_halted()
    assert process.send(signal.SIGINT) == 130
    assert f"to resume: whorl {' '.join(LONG)}" in process.stderr
    assert "Traceback" not in process.stderr
    assert "finished  6 of 6 runs" in whorl(*LONG, cwd=tmp_path).stdout


def _stamps(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in path.iterdir() if file.name != "lock"}


def test_a_failing_run_is_listed_and_tried_again(tmp_path: Path) -> None:
    words = [
        "reproduce", "he2021", *TINY, "--figure", "6", "--step", "50", "--set", "train.epochs=1", "--set",
        "optim.lr=1e30",
    ]  # fmt: skip
    done = whorl(*words, cwd=tmp_path, code=1)
    assert "finished  0 of 2 runs" in done.stdout
    assert "failed    figure 6, K-means, cifar-50, seed 0: the loss is not finite" in done.stderr
    assert "2 runs failed; the same command tries them again" in done.stderr
    assert (tmp_path / "report" / "report.html").exists()
    assert "finished  0 of 2 runs" in whorl(*words, cwd=tmp_path, code=1).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["he2020"], "unknown paper 'he2020'; did you mean 'he2021'?"),
        (["he2021", "--table", "4"], "he2021 has no table 4 that can be run; it has 1, 2, 3"),
        (["he2021", "--figure", "4"], "drawing"),
        (["he2021", "--data", "digits", "--table", "2", "--labels", "given"], "no cell of he2021 matches"),
        (["he2021", "--labels", "none"], "unknown labels 'none'"),
        (["he2021", "--recipe", "slow"], "unknown recipe 'slow'"),
        (["he2021", "--seeds", "0"], "--seeds"),
        (["he2021", "--jobs", "0"], "--jobs"),
        (["he2021", "--data", "digits", "--set", "train.epoch=1"], "did you mean 'train.epochs'?"),
        (["he2021", "--data", "cifar100", "--data-dir", "nowhere"], "nowhere"),
        (
            [
                "he2021",
                "--data",
                "digits",
                "--table",
                "2",
                "--set",
                "classifier=nme",
                "--set",
                "memory.policy=total",
                "--set",
                "memory.quota=0",
            ],
            "--set memory.quota",
        ),
        (["he2021", "--data", "digits", "--set", "precision=fp8"], "unknown precision value 'fp8'"),
        (["he2021", "--data", "digits", "--set", "seed=3"], "decides which cell a run fills"),
        (["he2021", "--data", "digits", "--set", "cluster.name=gmm"], "decides which cell a run fills"),
        (["he2021", "--data", "digits", "--set", "memory.quota=7"], "decides which cell a run fills"),
        (["he2021", "--data", "digits", "--table", "2", "--out", "file/runs"], "cannot write to file/runs: "),
        (
            ["he2021", "--data", "digits", "--table", "2", "--report", "file"],
            "file is a file; set --report to a folder",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_end_in_one_line(words: list[str], message: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    _, stderr = call("reproduce", *words, code=2)
    assert message in stderr
    assert len(stderr.splitlines()) == 1
    assert not list(tmp_path.glob("runs/*"))
