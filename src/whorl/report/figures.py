"""A figure of a paper in one setting: one panel per column, the same curves in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whorl.errors import count
from whorl.papers import Curve, Figure
from whorl.papers.cells import Setting, figure_cells
from whorl.papers.filled import Filled, Group
from whorl.papers.measure import Point, measured, points
from whorl.papers.stored import versions
from whorl.report import plots
from whorl.report.tables import Part
from whorl.report.text import listed


@dataclass(frozen=True)
class Trace:
    """A curve in a panel: its points, and the runs they come from."""

    curve: Curve
    column: str
    score: str
    points: list[Point]
    groups: tuple[Group, ...]

    @property
    def line(self) -> plots.Line:
        """The curve as it is drawn."""
        values = [point.value for point in self.points]
        means, spread = [value.mean or 0.0 for value in values], [value.sd for value in values]
        return plots.Line(self.curve.name, [point.x for point in self.points], means, spread)

    def at(self, x: int) -> Point | None:
        """The point at ``x``, if there is one."""
        return next((point for point in self.points if point.x == x), None)


@dataclass(frozen=True)
class Plot(Part):
    """A figure in one setting."""

    figure: Figure
    traces: dict[tuple[str, str], Trace]
    """By column and curve."""

    @property
    def name(self) -> str:
        """The anchor of the figure on the page, and the name of its files."""
        return self.anchor(f"figure-{self.figure.number}")

    def row(self, column: str) -> list[Trace]:
        """The curves of a panel."""
        return [self.traces[column, curve.name] for curve in self.figure.curves]

    def places(self, column: str) -> list[int]:
        """The positions on the axis at which a panel has points."""
        return sorted({point.x for trace in self.row(column) for point in trace.points})

    @property
    def columns(self) -> list[str]:
        """The columns with at least one measured point; the others have no panel."""
        return [column for column in self.figure.panels if any(trace.points for trace in self.row(column))]

    @property
    def panels(self) -> list[plots.Panel]:
        """The panels as they are drawn."""
        return [plots.Panel(self.title(c), [trace.line for trace in self.row(c)]) for c in self.columns]

    def title(self, column: str) -> str:
        """The title of a panel."""
        instead = f"{self.setting.stand_in} in place of " if self.setting.stand_in else ""
        return instead + self.column_name(column)

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of the two axes."""
        scores = {self.paper.columns[column].score for column in self.figure.panels}
        accuracy = "top-5 accuracy" if scores == {"acc5"} else "accuracy (ACC)"
        if any(curve.score for curve in self.figure.curves):
            accuracy = "score"
        return ("classes seen", accuracy) if self.figure.over is None else (self.figure.over.label, f"Avg {accuracy}")

    @property
    def caption(self) -> str:
        """The axes, the number of seeds, missing columns, and points that mix versions of whorl."""
        x, y = self.labels
        seeds = {len(point.value.seeds) for trace in self.traces.values() for point in trace.points}
        over = f"{min(seeds)} to {max(seeds)} seeds" if len(seeds) > 1 else count(max(seeds, default=0), "seed")
        bands = "; bands are one standard deviation" if max(seeds, default=0) > 1 else ""
        missing = [self.column_name(column) for column in self.figure.panels if column not in self.columns]
        rest = f" Not run: {listed(missing)}." if missing else ""
        mixed = {v for t in self.traces.values() for g in t.groups if len(v := tuple(versions(g.runs.values()))) > 1}
        rest += "".join(f" Some points mix runs of different versions of whorl: {listed(v)}." for v in sorted(mixed))
        return f"{y[0].upper()}{y[1:]} over {x}, {over}{bands}.{rest}"

    def records(self) -> Iterator[dict[str, Any]]:
        """One record per curve, for ``--json``."""
        for trace in self.traces.values():
            column, runs = self.paper.columns[trace.column], [r for g in trace.groups for r in g.runs.values()]
            values = [point.value for point in trace.points]
            yield {
                "figure": self.figure.number, "curve": trace.curve.name, "data": column.group, "step": column.step,
                "setting": str(self.setting), "x": [point.x for point in trace.points],
                "mean": [value.mean for value in values], "sd": [value.sd for value in values],
                "seeds": [len(value.seeds) for value in values], "runs": [run.name for run in runs],
                "versions": versions(runs),
            }  # fmt: skip


def plot(filled: Filled, figure: Figure, setting: Setting) -> Plot:
    """A figure in one setting, with or without runs."""
    traces = {
        (column, curve.name): _trace(filled, figure, curve, column, setting)
        for column in figure.panels
        for curve in figure.curves
    }
    return Plot(filled.paper, setting, filled.mark(setting), figure, traces)


def _trace(filled: Filled, figure: Figure, curve: Curve, column: str, setting: Setting) -> Trace:
    score = curve.score or filled.paper.columns[column].score
    found = figure_cells(filled.paper, figure, curve, column, setting.stand_in)
    groups = {x: group for x, cell in found.items() if (group := filled.group(cell.asked, setting))}
    drawn: list[Point] = []
    for x, group in groups.items():
        if x is None:
            drawn += points(group, score, figure.from_task)
        elif (value := measured(group, score, "avg")).mean is not None:
            drawn.append(Point(x, value, group))
    return Trace(curve, column, score, drawn, tuple(groups.values()))
