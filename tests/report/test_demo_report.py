"""``whorl demo`` from end to end, with very few epochs: what it prints, and what stands in its report."""

from __future__ import annotations

import contextlib
import html
import importlib
import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from browser import LOOKS, opened
from whorl import cli
from whorl.data import DataOptions, load
from whorl.data.order import class_order
from whorl.runs.files import read_tensors
from whorl.runs.run import Run
from whorl.scores import TaskScores

command = importlib.import_module("whorl.cli.demo")  # the name in the package is the function
FEW = {**command.SETTING, "train.first_epochs": 2, "train.epochs": 1}


@dataclass(frozen=True)
class Made:
    """A finished demo."""

    out: Path
    printed: list[str]
    page: str
    given: Run
    pseudo: Run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    out = tmp_path_factory.mktemp("demo") / "a & <b>"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "SETTING", FEW)
        printed = _demo(out)
        found = {run.config.labels: run for run in map(Run.open, sorted((out / "runs").iterdir()))}
        yield Made(out, printed, (out / "report.html").read_text("utf-8"), found["given"], found["pseudo"])


def _demo(out: Path, seed: int = 0, fresh: bool = False) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as stdout, contextlib.redirect_stderr(io.StringIO()):
        command.demo(out, seed, fresh)
    return stdout.getvalue().splitlines()


def _rows(page: str, table: int) -> list[list[str]]:
    """The text of the cells of a page's table, row by row."""
    body = re.findall(r"<tbody>(.*?)</tbody>", page, re.S)[table]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)]
    return [[html.unescape(cell) for cell in row] for row in rows]


def _steps(made: Made) -> list[tuple[TaskScores, TaskScores]]:
    return list(zip(made.given.scores().steps, made.pseudo.scores().steps, strict=True))


def test_the_table_holds_the_numbers_of_both_runs(made: Made) -> None:
    expected = [
        [
            *(str(a.task), str(a.classes), f"{a.acc:.3f}", f"{a.acc_nme:.3f}"),
            *(f"{b.acc:.3f}", f"{b.acc_nme:.3f}", "–" if b.task == 1 else f"{b.label_acc:.3f}"),
        ]
        for a, b in _steps(made)
    ]
    assert [row[1] for row in expected] == ["6", "8", "10"]
    assert _rows(made.page, 0) == expected


def test_the_summary_holds_avg_and_last_of_both_runs(made: Made) -> None:
    given, pseudo = (run.scores().summary for run in (made.given, made.pseudo))
    rows = {row[0]: row[1:] for row in _rows(made.page, 1)}
    assert rows["Avg (steps 2 to 3)"] == [f"{given.avg:.3f}", f"{pseudo.avg:.3f}"]
    assert rows["Last"] == [f"{given.last:.3f}", f"{pseudo.last:.3f}"]
    assert rows["Forgetting"] == [f"{given.forgetting:.3f}", f"{pseudo.forgetting:.3f}"]


def test_the_clusters_are_those_of_the_run_beside_the_truth(made: Made) -> None:
    digits = load("digits", None, DataOptions())
    order = class_order("A", 10)
    for number, ids in ((2, (6, 7)), (3, (8, 9))):
        truth = digits.train_labels[np.isin(digits.train_labels, [order[id] for id in ids])]
        truth = np.random.default_rng(number).permutation(truth)  # in the order in which a hidden task arrives
        labels = read_tensors(made.pseudo.path / f"task-{number:02}.safetensors")[0]["labels"].numpy()
        for row, label in zip(_rows(made.page, number), ids, strict=True):
            counts = np.bincount(truth[labels == label])
            share = f"{counts.max() / counts.sum():.1%}"
            words = f"<b>Pseudo label {label}</b>{counts.sum()} images, {share} of them of class {counts.argmax()}"
            assert row[0] == words
            assert row[1].count("<img ") == 2
            assert f'alt="10 of the {counts.sum()} images of cluster {label}' in row[1]


def test_it_says_which_classes_were_taught_with_labels(made: Made) -> None:
    assert "was taught the classes 8, 3, 9, 1, 6 and 2 of the data set digits with labels" in made.page


def test_the_figure_says_its_values_in_words(made: Made) -> None:
    given, pseudo = (", ".join(f"{step.acc:.3f}" for step in steps) for steps in zip(*_steps(made), strict=True))
    assert f'aria-label="ACC after steps 1 to 3: with labels {given}; without labels {pseudo}."' in made.page


def test_the_page_needs_nothing_from_outside(made: Made) -> None:
    assert "http:" not in made.page
    assert "https:" not in made.page
    assert "<script" not in made.page
    links = re.findall(r'(?:src|href)="([^"]*)"', made.page) + re.findall(r"url\(([^)]*)\)", made.page)
    assert len(links) > 8
    assert all(link.startswith(("data:", "#")) for link in links)


def test_text_is_escaped(made: Made) -> None:
    assert "a & <b>" not in made.page
    assert "a &amp; &lt;b&gt;" in made.page


def test_the_commands_on_the_page_name_the_stored_runs(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    lines = html.unescape(re.findall(r"<pre><code>(.*?)</code></pre>", made.page, re.S)[0]).splitlines()
    before = {path: path.stat().st_mtime_ns for path in made.out.glob("runs/*/scores.json")}
    for line, run in zip(lines, (made.given, made.pseudo), strict=True):
        words = shlex.split(line)
        assert words[:2] == ["whorl", "run"]
        cli.app(words[1:], standalone_mode=False)
        assert str(run.path) in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in made.out.glob("runs/*/scores.json")} == before
    assert len(before) == 2


def test_it_prints_a_table_and_ends_with_the_place_of_the_report(made: Made) -> None:
    words = [line.split() for line in made.printed]
    for row, (given, pseudo) in zip(words[1:4], _steps(made), strict=True):
        quality = "–" if pseudo.task == 1 else f"{pseudo.label_acc:.3f}"
        assert row == [
            str(given.task), str(given.classes), f"{given.acc:.3f}", f"{pseudo.acc:.3f}", quality,
        ]  # fmt: skip
    assert made.printed[-1] == f"The report is in {made.out / 'report.html'}"


def test_again_it_reads_what_is_stored_and_fresh_starts_over(made: Made, tmp_path: Path) -> None:
    out = tmp_path / "again"
    shutil.copytree(made.out, out)
    scores = out / "runs" / made.pseudo.path.name / "scores.json"
    before = scores.stat().st_mtime_ns
    assert _demo(out)[:-1] == made.printed[:-1]
    assert scores.stat().st_mtime_ns == before
    assert _demo(out, fresh=True)[:-1] == made.printed[:-1]
    assert scores.stat().st_mtime_ns != before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "taken"], "taken is a file; set --out to a folder"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file")
    monkeypatch.setattr(sys, "argv", ["whorl", "demo", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("whorl: ")
    assert said in lines[-1]
    assert sum("whorl: " in line for line in lines) == 1


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium: apt-get install chromium")
def test_a_browser_shows_it_without_a_request_an_error_or_a_sideways_scroll(made: Made) -> None:
    with opened(made.out / "report.html", LOOKS) as tabs:
        for tab, (width, scheme) in zip(tabs, LOOKS, strict=True):
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            assert tab.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
            strip = tab.locator(".strips img").first.bounding_box()
            assert strip is not None
            assert strip["width"] > 340  # of 360: the digits stay large on a phone too
            ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}[scheme]
