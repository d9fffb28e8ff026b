"""The report of a paper: every table and figure, in every setting that has runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whorl.errors import WhorlError
from whorl.papers import Paper, manifest
from whorl.papers.cells import Cell, Setting, cells
from whorl.papers.filled import PAPER, Filled, fill
from whorl.papers.stored import Done, Store, read
from whorl.report import export, plots
from whorl.report.figures import Plot, plot
from whorl.report.tables import FilledTable, filled_table
from whorl.runs.owned import Owned


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a report shows."""

    paper: Paper
    runs: Path
    store: Store
    filled: Filled
    tables: list[FilledTable]
    plots: list[Plot]

    @property
    def total(self) -> int:
        """The number of cells of the paper; Avg and Last of a table are one cell."""
        return sum(1 for _ in cells(self.paper))

    def cells_in(self, setting: Setting) -> set[tuple[str, str, str]]:
        """The cells that have a number in a setting, by table or figure, row, and column."""
        tables = {
            (f"table {found.table.number}", row, column)
            for found in self.tables
            if found.setting == setting
            for (row, column, _), entry in found.entries.items()
            if entry.value.mean is not None
        }
        figures = {
            (f"figure {found.figure.number}", f"{curve} {point.x if found.figure.over else ''}", column)
            for found in self.plots
            if found.setting == setting
            for (column, curve), trace in found.traces.items()
            for point in trace.points
        }
        return tables | figures

    def runs_in(self, setting: Setting) -> set[Done]:
        """The runs behind the numbers of a setting."""
        return {run for g in self.filled.groups.values() if g.setting == setting for run in g.runs.values()}

    @property
    def settings(self) -> list[Setting]:
        """The settings with at least one number."""
        return [setting for setting in self.filled.settings if self.cells_in(setting)]

    @property
    def count(self) -> int:
        """The number of cells that have a number in any setting."""
        return len(set[tuple[str, str, str]]().union(*(self.cells_in(setting) for setting in self.settings)))

    def records(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return {
            "paper": self.paper.name,
            "cells": self.total,
            "filled": self.count,
            "settings": {self.filled.mark(setting) or "paper": str(setting) for setting in self.settings},
            "tables": [record for found in self.tables for record in export.records(found)],
            "figures": [record for found in self.plots for record in found.records()],
            "unfinished": [run.name for run in self.store.unfinished],
            "other": [run.name for run, _ in self.filled.other],
            "left_out": self.store.left_out,
        }


def gather(paper: Paper, runs: Path) -> Report:
    """Read the runs and put their numbers into the paper's tables and figures."""
    store = read(runs)
    try:
        named = manifest.read(runs, paper.name)
    except WhorlError as error:
        store.left_out.append(str(error))
        named = None
    filled = fill(paper, store, named)
    parts: dict[tuple[str, Setting], list[Cell]] = {}
    for setting in filled.settings:
        for cell in cells(paper, setting.stand_in):
            parts.setdefault((cell.part, setting), []).append(cell)

    def shown(part: str) -> list[Setting]:
        return [s for s in filled.settings if filled.shows(parts[part, s], s)] or [PAPER]  # a table full of "not run"

    tables = [filled_table(filled, table, s) for table in paper.tables for s in shown(f"table {table.number}")]
    drawn = [plot(filled, figure, s) for figure in paper.figures for s in shown(f"figure {figure.number}")]
    return Report(paper, runs, store, filled, tables, drawn)


def file_names(paper: Paper) -> list[str]:
    """The files of every report of a paper; figures depend on the runs."""
    tables = [f"table-{table.number}.{ending}" for table in paper.tables for ending in ("md", "tex", "csv")]
    return ["report.html", "report.md", *tables]


def write(report: Report, out: Path, key: str = "out") -> None:
    """Write a report as files in ``out``; the page is ``report.html``. Files that are not whorl's are not touched.

    ``key`` is the option that chose ``out``, for messages.
    """
    from whorl.report.page import render

    owned = Owned(out, key)
    owned.prepare(file_names(report.paper))
    files = dict[str, str | bytes]()
    for table in report.paper.tables:
        found = [each for each in report.tables if each.table is table]
        name = f"table-{table.number}"
        files[f"{name}.md"] = "\n".join(map(export.markdown, found))
        files[f"{name}.tex"] = "\n".join(map(export.latex, found))
        files[f"{name}.csv"] = export.long_csv(found)
    files["report.md"] = _markdown(report)
    for drawn in report.plots:
        if drawn.columns:
            note = f"Figure {drawn.figure.number}, {drawn.setting}" if drawn.mark else ""
            figure = plots.panels(drawn.panels, *drawn.labels, ground="white", note=note)
            files[f"{drawn.name}.png"], files[f"{drawn.name}.svg"] = plots.png(figure), plots.svg(figure)
    files["report.html"] = render(report)
    ready = {name: made if isinstance(made, bytes) else _encoded(made) for name, made in files.items()}
    # Figures of an earlier report, whose settings had other letters, are removed.
    owned.write(ready, stale=lambda name: bool(re.fullmatch(r"figure-\d+(-[a-z]+)?\.(png|svg)", name)))


def _encoded(text: str) -> bytes:
    """The text as UTF-8; bytes of file names that are no text are shown as escapes."""
    return text.encode("utf-8", "backslashreplace")


def _markdown(report: Report) -> str:
    paper = report.paper
    blocks = [f"# {paper.title}\n\n{paper.authors}, {paper.year}. {report.count} of {report.total} cells are filled.\n"]
    for table in paper.tables:
        blocks.append(f"## Table {table.number}\n")
        blocks += [export.markdown(found) for found in report.tables if found.table is table]
    blocks.append("## Figures\n")
    for found in report.plots:
        drawn = f"![{found.figure.title}]({found.name}.svg)\n\n{found.caption}" if found.columns else "not run"
        title = f"Figure {found.figure.number}. {found.figure.title} ({export.plain(found.where)})"
        blocks.append(f"### {title}\n\n{drawn}\n")
    return "\n".join(blocks)
