"""The report of a paper: its files, its page, and the page in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from browser import LOOKS, opened
from madeup import HE, SMALL, asked, put
from whorl.errors import WhorlError
from whorl.report.paper import Report, gather, write


def store(runs: Path) -> None:
    """Some of everything: the paper's setting, a small one, a stand-in, and what cannot be used."""
    scores: dict[str, Any] = {"nmi": [0.8, 0.5, 0.4], "ari": [0.7, 0.3, -0.02]}
    for seed, shift in enumerate((0.0, 0.02)):
        for features, acc in {"current": 0.5, "pca": 0.3, "scratch": 0.1}.items():
            accs = [0.9, acc + shift, acc - 0.05]
            put(runs, asked(pseudo={"features": features}), accs, seed, **scores)
        put(runs, asked("wa", labels="given"), [0.9, 0.6, 0.5], seed, acc_plain=[0.9, 0.6, 0.5])
        put(runs, asked("wa", labels="pseudo"), [0.9, 0.4, 0.3], seed)
        for quota in (10, 50):
            put(runs, asked(memory={"quota": quota, "select": "herding"}), [0.9, 0.5 + quota / 1000, 0.5], seed)
    for every in (0, 10):
        put(runs, asked(pseudo={"refresh": every}), [0.9, 0.5, 0.4], recipe="fast", budget=SMALL, **scores)
    put(runs, asked(stand_in="digits"), [0.9, 0.8, 0.7], recipe="demo", acc5=[1.0, 1.0, 0.9], **scores)
    put(runs, asked("eeil", labels="given"), [0.9], finished=False)
    put(runs, asked("finetune"), [0.9, 0.2, 0.1])
    (runs / "a & <b>").mkdir()


def reported(runs: Path, out: Path) -> Report:
    report = gather(HE, runs)
    write(report, out)
    return report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Path, str]:
    root = tmp_path_factory.mktemp("report")
    store(root / "runs")
    report = reported(root / "runs", root / "out")
    return report, root / "out", (root / "out" / "report.html").read_text("utf-8")


def test_it_counts_what_there_is(made: tuple[Report, Path, str]) -> None:
    report, _, _ = made
    paper, small, digits = report.settings
    # Table 2, wa in tables 1 and 3 and in figure 2, three places of figure 3, figures 6 and 7.
    assert len(report.cells_in(paper)) == 3 + 2 + 1 + 1 + 3 + 1 + 3
    assert len(report.cells_in(small)) == 2 + 1 + 1 + 3  # table 2, one place of figure 3, figures 6 and 7
    # Table 2 in three columns, which all become the same; figures 3 and 6 and 7 in one.
    assert len(report.cells_in(digits)) == 3 + 1 + 1 + 3
    assert report.total == 237
    assert [report.filled.mark(setting) for setting in report.settings] == ["", "a", "b"]
    assert len(report.store.unfinished) == len(report.filled.other) == len(report.store.left_out) == 1
    assert [found.name for found in report.tables] == ["table-1", "table-2", "table-2-a", "table-2-b", "table-3"]


def test_every_promised_file_is_there_and_nothing_is_left_behind(made: tuple[Report, Path, str]) -> None:
    _, out, _ = made
    tables = {f"table-{n}.{ending}" for n in (1, 2, 3) for ending in ("md", "tex", "csv")}
    names = ("2", "3", "3-a", "3-b", "6", "6-a", "6-b", "7", "7-a", "7-b")
    figures = {f"figure-{name}.{ending}" for name in names for ending in ("png", "svg")}
    assert {path.name for path in out.iterdir()} == tables | figures | {"report.html", "report.md", ".whorl-files.json"}
    for path in out.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in out.glob("*.png"):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    text = (out / "report.md").read_text("utf-8")
    assert text.count("### Table") == 5
    assert "Figure 5. Every step on ImageNet, without labels (the paper's own setting)\n\nnot run" in text
    assert all((out / name).is_file() for name in re.findall(r"\]\((figure-[^)]*)\)", text))


def test_figures_of_letters_that_are_gone_go_and_other_files_stay(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    put(runs, asked(), [0.9, 0.5, 0.4], recipe="fast", budget=SMALL)
    reported(runs, out)
    assert list(out.glob("figure-?-a.png"))
    mine = {"figure-2-c.png", "figure-of-mine.png", "figure-9.svg", "figure-2-c.pdf", "notes.md"}
    for name in mine:
        (out / name).write_text("mine")
    shutil.rmtree(runs)
    runs.mkdir()
    reported(runs, out)
    assert {path.name for path in out.glob("figure*")} == mine - {"notes.md"}
    assert {(out / name).read_text() for name in mine} == {"mine"}


def test_nothing_run_is_a_report_full_of_not_run(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    report = reported(tmp_path / "runs", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert (report.count, report.settings) == (0, [])
    assert page.count(">not run<small>print ") == 12 * 12 + 7 * 12 - 2 + 6 * 6
    assert page.count("<p>not run</p>") == len(HE.figures)
    assert "0 of 237 cells" in page
    json.dumps(report.records(), allow_nan=False)


def test_the_page_says_what_there_is_first(made: tuple[Report, Path, str]) -> None:
    report, _, page = made
    begin = html.unescape(page[: page.index("<h2")])
    assert f"{report.count} of 237 cells" in begin
    assert "recipe fast, 200 images per class, images of 16×16, 3 tasks" in begin
    assert "1 run did not finish" in begin
    assert "a & <b> is not a run" in begin
    assert "a & <b>" not in page
    assert page.index("Unfinished runs") < page.index("Other runs")
    assert "cifar100-finetune-pseudo" in page[page.index("Other runs") :]


def test_numbers_stand_with_their_print_difference_seeds_and_mark(made: tuple[Report, Path, str]) -> None:
    _, _, page = made
    assert "0.480 ± 0.007</a><small>print 0.482</small><small>−0.002, 2 seeds</small>" in page  # 0.475 and 0.485
    assert "0.450</a><sup>a</sup><small>print 0.482</small><small>−0.032, 1 seed</small>" in page
    assert "−0.200 ± 0.000</a><small>print −0.110</small><small>−0.090, 2 seeds</small>" in page
    assert "print −0.135 or −0.132†" in page


def test_a_cell_leads_to_its_runs_and_back(made: tuple[Report, Path, str]) -> None:
    _, _, page = made
    cell = re.search(r'<td id="(table-1-9-2)"[^>]*><a href="#(runs-\d+)">', page)  # WA's difference at step 10
    assert cell
    section = page[page.index(f'<details id="{cell[2]}">') :]
    section = section[: section.index("<details id=", 10)]
    assert f'href="#{cell[1]}"' in section
    assert re.search(r'Subtracted: <a href="#runs-\d+">', section)
    assert section.count("cifar100-wa-pseudo-step10-seed") == 2  # a row for each seed
    assert section.count("<pre>") == 1  # one config for both
    assert "name = &#34;wa&#34;" in section


def test_each_number_of_a_figure_leads_to_its_own_runs_and_the_seeds_are_said(made: tuple[Report, Path, str]) -> None:
    report, out, page = made
    figure = page[page.index('id="figure-3"') :]
    cells = re.findall(r'<td[^>]*><a href="#(runs-\d+)">(0\.\d+)</a>', figure[: figure.index("</details>")])
    assert [text for _, text in cells] == ["0.505", "0.480", "0.525"]  # q 10, 20 and 50; 100 was not run
    summaries = [re.search(rf'<details id="{name}"><summary>([^<]*)', page) for name, _ in cells]
    quotas = [re.search(r"memory.quota (\d+)", found[1]) for found in summaries if found]
    assert [found and found[1] for found in quotas] == ["10", None, "50"]  # 20 is the usual one
    captions = {plot.name: plot.caption for plot in report.plots}
    missing = "Not run: CIFAR-100 step 5, CIFAR-100 step 20 and CIFAR-100 step 50."
    bands = "2 seeds; bands are one standard deviation"
    assert captions["figure-3"] == f"Avg accuracy (ACC) over exemplars per class q, {bands}. {missing}"
    assert captions["figure-6-a"] == f"Accuracy (ACC) over classes seen, 1 seed. {missing}"
    assert captions["figure-3"] in (out / "report.md").read_text("utf-8")


def test_every_link_leads_somewhere_and_nothing_comes_from_outside(made: tuple[Report, Path, str]) -> None:
    _, _, page = made
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="#([^"]*)"', page)
    assert len(targets) > 50
    assert set(targets) <= set(ids)
    assert "http:" not in page
    assert "https:" not in page


def test_damaged_steps_do_not_stop_it(tmp_path: Path) -> None:
    runs, place = tmp_path / "runs", {"task": 2, "classes": 20}
    for seed, step in enumerate(({}, {**place, "acc": None}, {**place, "acc": 0.5}, {**place, "acc": float("nan")})):
        config = put(runs, asked(), [0.9], seed)
        steps = [{"task": 1, "classes": 10, "acc": 0.9}, step]
        (runs / config.title / "scores.json").write_text(json.dumps({"format": 1, "finished": True, "steps": steps}))
    report = reported(runs, tmp_path / "out")
    value = next(found for found in report.tables if found.table.number == 2).entries["Ours", "cifar-10", "avg"].value
    assert (value.mean, value.seeds) == (0.5, (2,))
    assert len(report.store.left_out) == 2
    json.dumps(report.records(), allow_nan=False)


def test_numbers_of_different_versions_are_marked(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed, version in enumerate(("0.1.0", "0.2.0", "0.1.0")):
        put(runs, asked(), [0.9, 0.5], seed, version=version)
    for seed in range(2):
        put(runs, asked(pseudo={"features": "pca"}), [0.9, 0.4], seed, version="0.2.0")
    put(runs, asked("wa", labels="given"), [0.9, 0.6], acc_plain=[0.9, 0.6])  # format 1: not recorded
    put(runs, asked("wa", labels="pseudo"), [0.9, 0.4], version="0.2.0")
    report = reported(runs, tmp_path / "out")
    both = "‡: the runs of this number were computed by different versions of whorl: 0.1.0 and 0.2.0."
    first, second = report.tables[:2]
    marked = {e.row.name for e in (*first.entries.values(), *second.entries.values()) if len(e.versions) > 1}
    assert marked == {"Ours", "WA+Ours (w/o, Δ)"}
    assert both in second.legend
    assert both.replace("0.1.0 and 0.2.0", "0.2.0 and not recorded") in first.legend
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "0.500 ± 0.000<sup>‡</sup> (print 0.482" in text
    assert f"* {both}" in text
    assert "Some points mix runs of different versions of whorl: 0.1.0 and 0.2.0." in text
    assert r"\textsuperscript{\ddag{}}" in (tmp_path / "out" / "table-2.tex").read_text("utf-8")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "0.500 ± 0.000</a><sup>‡</sup>" in page
    assert "Computed by different versions of whorl: 0.1.0 (seed 0 and 2); 0.2.0 (seed 1)." in page
    record = next(r for r in report.records()["tables"] if (r["row"], r["step"], r["metric"]) == ("Ours", 10, "avg"))
    assert record["versions"] == ["0.1.0", "0.2.0"]


def test_a_damaged_manifest_is_a_line_and_its_runs_are_placed_by_their_configs(tmp_path: Path) -> None:
    put(tmp_path / "runs", asked(), [0.9, 0.5])
    (tmp_path / "runs" / "reproduce-he2021.json").write_text("{")
    report = reported(tmp_path / "runs", tmp_path / "out")
    assert report.count > 0
    (line,) = report.store.left_out
    assert "reproduce-he2021.json cannot be read" in line
    assert "reproduce-he2021.json cannot be read" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):  # the last is there, and takes no file
        with pytest.raises(WhorlError, match=r"cannot write to .*; choose another|is a file; set `out` to a folder"):
            reported(tmp_path / "runs", out)
    with pytest.raises(WhorlError, match="there is no folder"):
        reported(tmp_path / "nowhere", tmp_path / "out")


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium: apt-get install chromium")
def test_a_browser_sorts_follows_links_and_needs_nothing(made: tuple[Report, Path, str]) -> None:
    with opened(made[1] / "report.html", LOOKS) as tabs:
        for tab, (width, _) in zip(tabs, LOOKS, strict=True):
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            assert tab.evaluate(
                "[...document.querySelectorAll('a[href^=\"#\"]')]"
                ".every(a => document.getElementById(a.getAttribute('href').slice(1)))"
            )
            ink = tab.evaluate("getComputedStyle(document.querySelector('.abreast svg')).color")
            assert ink == tab.evaluate("getComputedStyle(document.body).color")
            # The first column stays in view while its table scrolls.
            box = tab.locator(".scroll.wide").nth(1)
            box.evaluate("box => { box.scrollLeft = 300 }")
            shift = "(box) => box.querySelector('tbody th').getBoundingClientRect().x - box.getBoundingClientRect().x"
            assert box.evaluate(shift) == 0
        table = tab.locator("#table-2 + .scroll table")
        heads = table.locator("thead tr").nth(1).locator("th")
        head = heads.nth(3)  # Avg at step 10

        def names() -> list[str]:
            return [text.strip() for text in table.locator("tbody th").all_inner_texts()]

        printed = [row.name for row in HE.table(2).rows]
        rest = ["FFE", "UPL-10", "UPL-20", "UPL-30"]  # not run: last, whichever way
        assert names() == printed
        assert head.get_attribute("aria-sort") == "none"
        for way, order in {
            "ascending": ["Scratch", "PCA", "Ours", *rest],
            "descending": ["Ours", "PCA", "Scratch", *rest],
            "none": printed,
        }.items():
            head.locator("button").click()
            assert (head.get_attribute("aria-sort"), names()) == (way, order)
        head.locator("button").press("Enter")
        heads.nth(0).locator("button").press("Space")
        assert names() == sorted(printed)
        assert [h.get_attribute("aria-sort") for h in heads.all()].count("none") == 12
        first = tab.locator("#table-1 + .scroll table")
        first.locator("thead tr").nth(1).locator("th").nth(3).locator("button").click()
        # As numbers: -0.200 before 0.550, though its minus sign comes after the digits as text.
        assert first.locator("tbody th").all_inner_texts()[:2] == ["WA+Ours (w/o, Δ)", "WA (w/)"]
        link = table.locator("tbody a").first
        target = str(link.get_attribute("href"))
        assert not tab.locator(target).evaluate("fold => fold.open")
        link.click()
        tab.locator(f"{target}[open]").wait_for()
        assert tab.locator(target).locator("table").first.is_visible()
