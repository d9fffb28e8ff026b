"""The report of a paper: every table and figure from whatever runs there are, in every setting they ran in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from whorl.errors import WhorlError
from whorl.papers import Paper
from whorl.papers.cells import Setting, cells
from whorl.report import export, plots
from whorl.report.done import Store, read
from whorl.report.figures import Plot, plot
from whorl.report.gather import Filled, fill
from whorl.report.grid import Grid, grid
from whorl.runs.files import write_bytes, write_text


@dataclass(frozen=True, eq=False)
class Report:
    """All that a report shows."""

    paper: Paper
    runs: Path
    store: Store
    filled: Filled
    grids: list[Grid]
    plots: list[Plot]

    @property
    def total(self) -> int:
        """How many cells the paper has; Avg and Last of a table are one."""
        return sum(1 for _ in cells(self.paper))

    def cells_in(self, setting: Setting) -> set[tuple[str, str, str]]:
        """The cells that have a number in a setting, by table or figure, row, and column."""
        tables = {
            (grid.name, row, column)
            for grid in self.grids
            if grid.setting == setting
            for (row, column, _), entry in grid.entries.items()
            if entry.value.mean is not None
        }
        figures = {
            (plot.name, f"{curve} {point.x if plot.figure.over else ''}", column)
            for plot in self.plots
            if plot.setting == setting
            for (column, curve), trace in plot.traces.items()
            for point in trace.points
        }
        return {(_without_mark(name), row, column) for name, row, column in tables | figures}

    @property
    def settings(self) -> list[Setting]:
        """Those in which something was run."""
        return [setting for setting in self.filled.settings if self.cells_in(setting)]

    @property
    def count(self) -> int:
        """How many cells have a number in any setting."""
        return len(set[tuple[str, str, str]]().union(*(self.cells_in(setting) for setting in self.settings)))

    def records(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        return {
            "paper": self.paper.name,
            "cells": self.total,
            "filled": self.count,
            "settings": {self.filled.mark(setting) or "paper": str(setting) for setting in self.settings},
            "tables": [record for grid in self.grids for record in export.records(grid)],
            "figures": [record for plot in self.plots for record in plot.records()],
            "unfinished": [run.name for run in self.store.unfinished],
            "other": [run.name for run, _ in self.filled.other],
            "left_out": self.store.left_out,
        }


def gather(paper: Paper, runs: Path) -> Report:
    """Read the runs and put their numbers into the paper's tables and figures."""
    store = read(runs)
    filled = fill(paper, store)
    by_part: dict[Setting, dict[str, list[Any]]] = {setting: {} for setting in filled.settings}
    for setting, parts in by_part.items():
        for cell in cells(paper, setting.stand_in):
            parts.setdefault(cell.part, []).append(cell)

    def shown(part: str) -> list[Setting]:
        found = [setting for setting in filled.settings if filled.shows(by_part[setting][part], setting)]
        return found or [Setting(None, "paper")]  # a table full of "not run"

    grids = [grid(filled, table, s) for table in paper.tables for s in shown(f"table {table.number}")]
    drawn = [plot(filled, figure, s) for figure in paper.figures for s in shown(f"figure {figure.number}")]
    return Report(paper, runs, store, filled, grids, drawn)


def write(paper: Paper, runs: Path, out: Path) -> Report:
    """Report on the runs in the folder ``runs`` as files in the folder ``out``; the page is ``report.html``."""
    from whorl.report.paper_page import render

    report = gather(paper, runs)
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()  # said before anything is written
    except OSError as error:
        raise WhorlError(f"cannot write to {out}: {error.strerror}; choose another --out") from None
    for table in paper.tables:
        grids = [grid for grid in report.grids if grid.table.number == table.number]
        name = f"table-{table.number}"
        write_text(out / f"{name}.md", "\n".join(map(export.markdown, grids)))
        write_text(out / f"{name}.tex", "\n".join(map(export.latex, grids)))
        write_text(out / f"{name}.csv", export.long_csv(grids))
    write_text(out / "report.md", _markdown(report))
    written = set[str]()
    for drawn in report.plots:
        if drawn.columns:
            written |= _draw(drawn, out)
    write_text(out / "report.html", render(report))
    for path in out.glob("figure-*.*"):  # of settings that have another letter now, or none
        if re.fullmatch(r"figure-\d+(-[a-z]+)?\.(png|svg)", path.name) and path.name not in written:
            path.unlink()
    return report


def _draw(drawn: Plot, out: Path) -> set[str]:
    note = f"Figure {drawn.figure.number}, {drawn.setting}" if drawn.mark else ""
    figure = plots.panels(drawn.panels, *drawn.labels, ground="white", note=note)
    write_bytes(out / f"{drawn.name}.png", plots.png(figure))
    write_text(out / f"{drawn.name}.svg", plots.svg(figure))
    return {f"{drawn.name}.png", f"{drawn.name}.svg"}


def _markdown(report: Report) -> str:
    paper = report.paper
    blocks = [f"# {paper.title}\n\n{paper.authors}, {paper.year}. {report.count} of {report.total} cells are filled.\n"]
    for table in paper.tables:
        blocks.append(f"## Table {table.number}\n")
        blocks += [export.markdown(grid) for grid in report.grids if grid.table.number == table.number]
    blocks.append("## Figures\n")
    for found in report.plots:
        where = f"setting {found.mark}: {export.plain(str(found.setting))}" if found.mark else "the paper's own setting"
        drawn = f"![{found.figure.title}]({found.name}.svg)\n\n{found.caption}" if found.columns else "not run"
        blocks.append(f"### Figure {found.figure.number}. {found.figure.title} ({where})\n\n{drawn}\n")
    return "\n".join(blocks)


def _without_mark(name: str) -> str:
    return "-".join(name.split("-")[:2])
