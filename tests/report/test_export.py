"""Tables to take away say what the grid says."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from madeup import HE, SMALL, asked, put
from whorl.errors import count
from whorl.papers.filled import fill
from whorl.papers.stored import read
from whorl.report import export
from whorl.report.tables import FilledTable, filled_table
from whorl.report.text import listed, number


@pytest.fixture
def grids(tmp_path: Path) -> list[FilledTable]:
    put(tmp_path, asked("icarl", labels="given"), [0.9, 0.6], acc_plain=[0.9, 0.6])
    put(tmp_path, asked("icarl", labels="pseudo"), [0.9, 0.5])
    for seed, acc in enumerate((0.3, 0.4, 0.5, 0.6, 0.7)):
        put(tmp_path, asked("lwf", labels="given"), [0.9, acc], seed, "fast", SMALL, acc_plain=[0.9, acc])
    filled = fill(HE, read(tmp_path))
    return [filled_table(filled, HE.table(1), setting) for setting in filled.settings]


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_markdown(grids: list[FilledTable]) -> None:
    paper, small = (rows_of(export.markdown(found)) for found in grids)
    assert paper[0] == [
        "Avg",
        *(f"CIFAR-100 step {n}" for n in (5, 10, 20, 50)),
        "ImageNet step 10",
        "ImageNet step 100",
    ]
    found = {row[0]: row[2] for row in reversed(paper)}  # the first of its name: Avg at step 10
    assert found["ICARL (w/)"] == "0.600 (print 0.626, −0.026, 1 seed)"
    assert found["ICARL+Ours (w/o, Δ)"] == "−0.100 (print −0.135 or −0.132†, +0.035, 1 seed)"
    assert found["WA (w/)"] == "not run (print 0.649)"
    spread = {row[0]: row[2] for row in reversed(small)}["LWF (w/)"]
    assert spread == "0.500 ± 0.158<sup>a</sup> (print 0.393, +0.107)"  # five seeds are the paper's: not said
    assert "* a: recipe fast, 200 images per class, images of 16×16, 3 tasks." in export.markdown(grids[1])
    assert all(len(row) == 7 for row in paper[:28])


def test_latex_has_the_same_columns_in_every_line_and_nothing_that_needs_a_package(grids: list[FilledTable]) -> None:
    for found in grids:
        text = export.latex(found)
        bodies = re.findall(r"\\begin\{tabular\}\{@\{\}(l(r+))@\{\}\}(.*?)\\end\{tabular\}", text, re.S)
        assert len(bodies) == 2
        for columns, _, body in bodies:
            lines = [line for line in body.splitlines() if line.endswith(r"\\")]
            assert len(lines) > 24
            assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}
        code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert code.isascii()
        assert code.count("{") - code.count(r"\{") == code.count("}") - code.count(r"\}")
        assert set(re.findall(r"\\([a-zA-Z]+)", code)) <= {
            "begin", "end", "hline", "noindent", "par", "medskip", "scriptsize", "setlength", "tabcolsep", "pm",
            "Delta", "dag", "times", "textsuperscript",
        }  # fmt: skip
    assert r"ICARL+Ours (w/o, $\Delta$)" in export.latex(grids[0])
    assert r"0.500 $\pm$ 0.158\textsuperscript{a} &" in export.latex(grids[1])


def test_markdown_shows_what_it_reserves_as_it_stands() -> None:
    assert export.plain("net a_<b> *c* `d` [e] A < B") == r"net a\_\<b> \*c* \`d` \[e] A < B"


def test_latex_escapes_what_it_reserves() -> None:
    assert export.escape(r"50% & a_b #1 {x} $ ~ ^ \ Δ ×") == (
        r"50\% \& a\_b \#1 \{x\} \$ \textasciitilde{} \textasciicircum{} \textbackslash{} $\Delta$ $\times$"
    )


def test_csv_gives_every_number_back(grids: list[FilledTable]) -> None:
    lines = list(csv.DictReader(io.StringIO(export.long_csv(grids))))
    assert tuple(lines[0]) == export.FIELDS
    assert len(lines) == 2 * 12 * 6 * 2
    by_name = {(line["setting"], line["row"], line["data"], line["step"], line["metric"]): line for line in lines}
    assert len(by_name) == len(lines)
    small = "recipe fast, 200 images per class, images of 16×16, 3 tasks"
    lwf = by_name[small, "LWF (w/)", "CIFAR-100", "10", "avg"]
    assert float(lwf["mean"]) == pytest.approx(0.5)
    assert float(lwf["sd"]) == pytest.approx(0.025**0.5)
    assert (lwf["table"], lwf["seeds"], lwf["printed"], lwf["printed_other"]) == ("1", "5", "0.393", "")
    assert float(lwf["difference"]) == pytest.approx(0.107)
    assert len(lwf["runs"].split()) == 5
    drop = by_name["as in the paper", "ICARL+Ours (w/o, Δ)", "CIFAR-100", "10", "avg"]
    assert (drop["printed"], drop["printed_other"], drop["sd"]) == ("-0.135", "-0.132", "")
    assert float(drop["mean"]) == pytest.approx(-0.1)
    nothing = by_name["as in the paper", "WA (w/)", "ImageNet", "100", "last"]
    assert (nothing["mean"], nothing["seeds"], nothing["printed"], nothing["runs"]) == ("", "0", "0.811", "")
    assert (nothing["missing"], lwf["missing"]) == ("not run", "")
    assert by_name[small, "LWF+Ours (w/o, Δ)", "CIFAR-100", "10", "avg"]["missing"] == "not paired"


def test_numbers_as_people_read_them() -> None:
    assert [number(value) for value in (0.5, -0.0711, -0.0001, None)] == ["0.500", "−0.071", "0.000", "–"]
    assert [number(value, sign=True) for value in (0.0034, -0.5, 0.0)] == ["+0.003", "−0.500", "+0.000"]
    assert [count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert [listed(words) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]
