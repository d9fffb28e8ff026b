"""The HTML page of a paper's report, and the environment of all templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whorl.config import write_toml
from whorl.errors import count
from whorl.papers.filled import Group
from whorl.papers.measure import score_key, summarised
from whorl.papers.stored import Done, versions
from whorl.report import plots
from whorl.report.export import ORDER_HEADS, order_cells
from whorl.report.figures import Plot
from whorl.report.paper import Report
from whorl.report.tables import METRICS, FilledTable
from whorl.report.text import listed, number
from whorl.scores import NAMES

Groups = Sequence[tuple[str, Sequence[object]]]
"""Neighbouring columns under one name; the name may be empty."""

_USUAL = {
    "pseudo.features": "current", "pseudo.refresh": "0", "cluster.name": "kmeans", "memory.quota": "20",
    "memory.select": "herding",
}  # fmt: skip
"""Config values that are not worth naming."""


def edges(groups: Groups) -> list[bool]:
    """Which columns have a line before them: the leftmost of each named group."""
    return [number == 0 and bool(name) for name, columns in groups for number in range(len(columns))]


PAGES = Environment(
    loader=PackageLoader("whorl.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters["number"] = number
PAGES.globals |= {
    "edges": edges, "count": count, "names": NAMES, "score_key": score_key, "summarised": summarised,
    "order_heads": ORDER_HEADS, "order_cells": order_cells,
}  # fmt: skip


@dataclass
class Shown:
    """The runs of a group, the scores they are shown with, and the numbers that use them."""

    group: Group
    scores: dict[str, None] = field(default_factory=dict)
    uses: dict[tuple[str, str], None] = field(default_factory=dict)
    """Links to the numbers: words and anchor."""
    bases: dict[tuple[str, str], None] = field(default_factory=dict)
    """Links to the runs that are subtracted."""

    @cached_property
    def runs(self) -> list[Done]:
        """Ordered by seed."""
        return list(self.group.runs.values())

    def summary(self, mark: str) -> str:
        """One line about the runs."""
        config, values = self.runs[0].config, self.runs[0].values
        words = [config.method.name, f"labels {config.labels_said}", config.data.name, f"step {config.stream.step}"]
        words += [f"{config.stream.first} classes in task 1"] if config.stream.first else []
        words += [f"{key} {values[key]}" for key, usual in _USUAL.items() if values[key] != usual]
        return ", ".join([*words, f"setting {mark}"] if mark else words) + f": {count(len(self.runs), 'seed')}"

    @property
    def version_lines(self) -> list[str]:
        """A warning if different versions of whorl computed the runs."""
        found = {v: [run.config.seed for run in self.runs if v in run.scores.versions] for v in versions(self.runs)}
        words = "; ".join(f"{version} (seed {listed(seeds)})" for version, seeds in found.items())
        return [f"Computed by different versions of whorl: {words}."] if len(found) > 1 else []

    @property
    def tasks(self) -> list[str]:
        """Each task of the longest run, with the number of classes seen."""
        longest = max((run.scores.steps for run in self.runs), key=len)
        return [f"{number} ({step.classes})" for number, step in enumerate(longest, 1)]

    @property
    def configs(self) -> list[tuple[str, list[str]]]:
        """The seeds and the TOML of each config; configs that differ only in the seed are shown once."""
        found: dict[str, list[Done]] = {}
        for run in self.runs:
            found.setdefault(run.config.model_copy(update={"seed": 0}).hash, []).append(run)
        return [
            (listed(run.config.seed for run in same), write_toml(same[0].config).splitlines())
            for same in found.values()
        ]


def render(report: Report) -> str:
    """The page."""
    unfinished = [(run, f"{count(len(run.scores.steps), 'task')} done") for run in report.store.unfinished]
    values = {"behind": _behind(report), "unfinished": unfinished, "head_groups": _head_groups, "drawn": _drawn}
    return PAGES.get_template("report.html").render(report=report, **values)


def _behind(report: Report) -> list[Shown]:
    """Every group of runs that a table or figure uses, in the order of the page."""
    found: dict[str, Shown] = {}

    def use(group: Group, score: str, words: str, anchor: str) -> Shown:
        shown = found.setdefault(group.name, Shown(group))
        shown.scores[score_key(score, group.asked.get("labels", "pseudo"))] = None
        shown.uses[words, anchor] = None
        return shown

    for table in report.tables:
        for entry in table.entries.values():
            words = f"Table {table.table.number}, {entry.row.name}, {table.place(entry.column, entry.metric)}"
            score = report.paper.columns[entry.column].score
            used = [use(group, score, words, entry.anchor) for group in entry.groups]
            if len(used) == 2:
                used[0].bases["the runs with labels", used[1].group.name] = None
    for plot in report.plots:
        for trace in plot.traces.values():
            for group in trace.groups:
                use(group, trace.score, f"Figure {plot.figure.number}", plot.name)
    return list(found.values())


def _head_groups(found: FilledTable) -> Groups:
    """Avg and Last under each column, or the step sizes under each data set."""
    metrics = [METRICS[metric] for metric in found.table.metrics]
    if len(metrics) > 1:
        return [(found.column_name(column), metrics) for column in found.table.columns]
    groups: dict[str, list[object]] = {}
    for column in (found.paper.columns[name] for name in found.table.columns):
        groups.setdefault(f"{column.group}, {metrics[0]}", []).append(f"step {column.step}")
    return list(groups.items())


def _drawn(plot: Plot) -> tuple[Markup, list[Markup]]:
    """The legend and the panels of a figure, as SVG that takes its colours from the page."""
    panels = plot.panels
    limits = plots.scale([line for panel in panels for line in panel.lines])
    figures = [plots.panels([panel], *plot.labels, key=False, limits=limits) for panel in panels]
    drawn = [Markup(plots.inline(plots.svg(f), f"{plot.name}-{n}")) for n, f in enumerate(figures)]
    return Markup(plots.inline(plots.svg(plots.key(panels)), f"{plot.name}-key")), drawn
