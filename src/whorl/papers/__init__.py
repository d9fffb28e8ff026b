"""Papers as data: the configs behind their tables and figures, and the printed numbers."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Literal

from pydantic import Field

from whorl.config import checked
from whorl.errors import WhorlError, unknown
from whorl.sections import Section
from whorl.tree import Tree, merge

Metric = Literal["avg", "last"]
Printed = float | Literal["/"]
"""A printed number, or ``/`` for a cell that the paper leaves empty."""


class Column(Section):
    """A data set and a step size."""

    group: str
    """The paper's name of the data set."""
    step: int
    classes: int
    score: Literal["acc", "acc5"]
    """Top-1 or top-5 accuracy."""
    set: Tree

    @property
    def data(self) -> str:
        """The name of the data set in whorl."""
        return str(self.set["data"]["name"])


class Elsewhere(Section):
    """A row of another table."""

    table: int
    row: str


class Row(Section):
    """A row of a table: its config values, and the printed number of each column."""

    name: str
    set: Tree
    minus: str | Elsewhere | None = None
    """The row that is subtracted, in a row of differences."""
    avg: tuple[Printed, ...]
    last: tuple[Printed, ...] | None = None

    def printed(self, metric: Metric) -> tuple[Printed, ...]:
        """The printed numbers, by column."""
        values = self.avg if metric == "avg" else self.last
        assert values is not None, "a table's metrics are those its rows have"
        return values


class Table(Section):
    """A table: rows × columns × metrics."""

    number: int
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Avg, and Last where the table has it."""
        return ("avg",) if self.rows[0].last is None else ("avg", "last")

    def row(self, name: str) -> Row:
        """The row of that name."""
        return next(row for row in self.rows if row.name == name)


class Curve(Section):
    """A curve of a figure."""

    name: str
    set: Tree
    score: Literal["nmi", "ari"] | None = None
    """Another score than the column's accuracy."""


class Over(Section):
    """The config key on the axis of a figure, where it is not the number of classes seen."""

    key: str
    values: tuple[int, ...]
    label: str

    def at(self, value: int) -> Tree:
        """The config values at one position on the axis."""
        tree: Tree = {}
        for part in reversed(self.key.split(".")):
            tree = {part: tree or value}
        return tree


class Figure(Section):
    """A figure: one panel per column, with the same curves in each."""

    number: int
    title: str
    panels: tuple[str, ...]
    curves: tuple[Curve, ...]
    over: Over | None = None
    from_task: int = 1


class Flag(Section):
    """A printed value that contradicts another."""

    table: int
    row: str
    column: str
    metric: Metric
    values: tuple[float, float]
    why: str


class StandIn(Section):
    """A small data set that replaces the paper's data."""

    budget: Tree
    """Config values of a reproduction on it, unless the user sets others."""
    columns: dict[str, Tree]
    """The config values of each column."""


class Paper(Section):
    """The parts of a paper that can be run."""

    name: str
    title: str
    authors: str
    year: int
    seeds: int
    epochs: int
    """Epochs per step of the baseline; ``pseudo.refresh`` of a row refers to a step of this length."""
    drawings: tuple[int, ...] = ()
    """Figures without measurements."""
    columns: dict[str, Column]
    stand_ins: dict[str, StandIn] = Field(default_factory=dict)
    """By data set."""
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    flags: tuple[Flag, ...] = ()

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets that the paper uses."""
        return tuple(dict.fromkeys(column.data for column in self.columns.values()))

    def table(self, number: int) -> Table:
        """The table of that number."""
        found = {table.number: table for table in self.tables}
        if number not in found:
            raise WhorlError(f"{self.name} has no table {number} that can be run; it has {_listed(found)}")
        return found[number]

    def figure(self, number: int) -> Figure:
        """The figure of that number."""
        found = {figure.number: figure for figure in self.figures}
        if number not in found:
            if number in self.drawings:
                raise WhorlError(
                    f"figure {number} of {self.name} is a drawing without measurements; "
                    f"the figures that can be run are {_listed(found)}"
                )
            raise WhorlError(f"{self.name} has no figure {number} that can be run; it has {_listed(found)}")
        return found[number]

    def base(self, table: Table, row: Row) -> Row | None:
        """The row that a row of differences subtracts; None for other rows."""
        if row.minus is None:
            return None
        if isinstance(row.minus, str):
            return table.row(row.minus)
        return self.table(row.minus.table).row(row.minus.row)

    def flag(self, table: int, row: str, column: str, metric: Metric) -> Flag | None:
        """The printed value that contradicts a cell, if there is one."""
        where = (table, row, column, metric)
        return next((flag for flag in self.flags if (flag.table, flag.row, flag.column, flag.metric) == where), None)

    def place(self, column: str, stand_in: str | None) -> Tree:
        """The config values of a column: on its own data, or on a stand-in."""
        if stand_in is None:
            return self.columns[column].set
        return merge({"data": {"name": stand_in}}, self.stand_ins[stand_in].columns[column])

    def refresh(self, every: int, epochs: int) -> int:
        """K of UPL-K for steps of another length: the same fraction of a step as in the paper, at least one epoch."""
        return max(1, round(every * epochs / self.epochs)) if every else 0


def names() -> list[str]:
    """The names of all papers."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load(name: str) -> Paper:
    """The paper of that name."""
    if name not in names():
        raise unknown("paper", name, names())
    text = (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    return checked(Paper, tomllib.loads(text))


def _listed(numbers: dict[int, Table] | dict[int, Figure]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))
