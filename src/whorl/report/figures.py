"""A figure of a paper in one setting: a panel for each column, a curve for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whorl.papers import Curve, Figure, Paper
from whorl.papers.cells import Setting, figure_cells
from whorl.report import plots
from whorl.report.gather import Filled, Group
from whorl.report.grid import column_name
from whorl.report.measure import Point, measured, points
from whorl.report.text import count, listed


@dataclass(frozen=True)
class Trace:
    """A curve in a panel: its points, and the runs they come from."""

    curve: Curve
    column: str
    points: list[Point]
    groups: tuple[Group, ...]

    @property
    def line(self) -> plots.Line:
        """As it is drawn."""
        means = [point.value.mean or 0.0 for point in self.points]
        spread = [point.value.sd for point in self.points]
        return plots.Line(self.curve.name, [point.x for point in self.points], means, spread)


@dataclass(frozen=True)
class Plot:
    """A figure in one setting."""

    paper: Paper
    figure: Figure
    setting: Setting
    mark: str
    traces: dict[tuple[str, str], Trace]
    """By column and curve."""

    @property
    def name(self) -> str:
        """As links and files call it."""
        return f"figure-{self.figure.number}" + (f"-{self.mark}" if self.mark else "")

    @property
    def columns(self) -> list[str]:
        """Those in which something was measured."""
        return [
            column for column in self.figure.panels if any(t.points for (c, _), t in self.traces.items() if c == column)
        ]

    @property
    def panels(self) -> list[plots.Panel]:
        """What is drawn; a column without runs has no panel."""
        curves = [curve.name for curve in self.figure.curves]
        return [
            plots.Panel(self.title(column), [self.traces[column, name].line for name in curves])
            for column in self.columns
        ]

    def title(self, column: str) -> str:
        """Of a panel."""
        name = column_name(self.paper, column)
        return f"{self.setting.stand_in} in place of {name}" if self.setting.stand_in else name

    @property
    def labels(self) -> tuple[str, str]:
        """Of the two axes."""
        scores = {self.paper.columns[column].score for column in self.figure.panels}
        accuracy = "top-5 accuracy" if scores == {"acc5"} else "accuracy (ACC)"
        if any(curve.score for curve in self.figure.curves):
            accuracy = "score"
        return ("classes seen", accuracy) if self.figure.over is None else (self.figure.over.label, f"Avg {accuracy}")

    @property
    def caption(self) -> str:
        """What is drawn, from how many seeds, and what was not run."""
        x, y = self.labels
        seeds = {len(point.value.seeds) for trace in self.traces.values() for point in trace.points}
        over = f"{min(seeds)} to {max(seeds)} seeds" if len(seeds) > 1 else count(max(seeds, default=0), "seed")
        bands = "; bands are one standard deviation" if max(seeds, default=0) > 1 else ""
        missing = [column_name(self.paper, column) for column in self.figure.panels if column not in self.columns]
        rest = f" Not run: {listed(missing)}." if missing else ""
        return f"{y[0].upper()}{y[1:]} over {x}, {over}{bands}.{rest}"

    def records(self) -> Iterator[dict[str, Any]]:
        """Every curve as plain values."""
        for trace in self.traces.values():
            column = self.paper.columns[trace.column]
            yield {
                "figure": self.figure.number,
                "curve": trace.curve.name,
                "data": column.group,
                "step": column.step,
                "setting": str(self.setting),
                "x": [point.x for point in trace.points],
                "mean": [point.value.mean for point in trace.points],
                "sd": [point.value.sd for point in trace.points],
                "seeds": [len(point.value.seeds) for point in trace.points],
                "runs": [run.name for group in trace.groups for run in group.runs.values()],
            }


def plot(filled: Filled, figure: Figure, setting: Setting) -> Plot:
    """A figure in one setting, whether anything was run or not."""
    traces = {
        (column, curve.name): _trace(filled, figure, curve, column, setting)
        for column in figure.panels
        for curve in figure.curves
    }
    return Plot(filled.paper, figure, setting, filled.mark(setting), traces)


def _trace(filled: Filled, figure: Figure, curve: Curve, column: str, setting: Setting) -> Trace:
    score = curve.score or filled.paper.columns[column].score
    found = figure_cells(filled.paper, figure, curve, column, setting.stand_in)
    groups = {x: group for x, cell in found.items() if (group := filled.group(cell.asked, setting))}
    drawn: list[Point] = []
    for x, group in groups.items():
        drawn += points(group, score, figure.from_task) if x is None else _average(x, group, score)
    return Trace(curve, column, drawn, tuple(groups.values()))


def _average(x: int, group: Group, score: str) -> Sequence[Point]:
    value = measured(group, score, "avg")
    return [] if value.mean is None else [Point(x, value, group)]
