"""Selects cells of a paper and lists the runs they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whorl.errors import WhorlError, unknown
from whorl.papers import Paper
from whorl.papers.cells import Cell, cells
from whorl.tree import Tree


@dataclass(frozen=True)
class Choice:
    """A selection of cells. An empty field selects everything."""

    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()
    data: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    labels: str | None = None

    def __str__(self) -> str:
        named = {
            "table": self.tables, "figure": self.figures, "data": self.data, "method": self.methods,
            "step": self.steps, "labels": (self.labels,) if self.labels else (),
        }  # fmt: skip
        return " ".join(f"{name} {value}" for name, values in named.items() for value in values)


@dataclass(frozen=True)
class Need:
    """A run that a cell needs, before recipe, budget and seed."""

    cell: Cell
    asked: Tree

    @property
    def name(self) -> str:
        """A name for people."""
        extra = " with labels" if self.asked is self.cell.base else ""
        return f"{self.cell.part}, {self.cell.name}{extra}, {self.cell.column}"


def stand_in(paper: Paper, data: Sequence[str]) -> str | None:
    """The selected data set if it is a stand-in for the paper's data, else None."""
    for name in data:
        if name not in paper.data and name not in paper.stand_ins:
            there, instead = ", ".join(paper.data), ", ".join(paper.stand_ins)
            raise WhorlError(f"{paper.name} has no data set {name!r}; it has {there}, and {instead} can stand in")
    found = [name for name in data if name in paper.stand_ins]
    if found and len(data) > 1:
        raise WhorlError(f"{found[0]} stands in for all data of {paper.name}; leave out the other data sets")
    return found[0] if found else None


def chosen(paper: Paper, choice: Choice) -> list[Need]:
    """The runs that the selected cells need, in the paper's order; the same run may be listed several times."""
    for number in choice.tables:
        paper.table(number)
    for number in choice.figures:
        paper.figure(number)
    everything = list(cells(paper, stand_in(paper, choice.data)))
    methods = sorted({_method(cell.asked) for cell in everything})
    for name in choice.methods:
        if name not in methods:
            raise unknown(f"method in {paper.name}", name, methods)
    steps = sorted({column.step for column in paper.columns.values()})
    for step in choice.steps:
        if step not in steps:
            raise WhorlError(f"{paper.name} has no step {step}; it has {', '.join(map(str, steps))}")
    found = [need for cell in everything if _wanted(paper, cell, choice) for need in _needs(cell, choice)]
    if not found:
        raise WhorlError(f"no cell of {paper.name} matches {choice}; remove one of these filters")
    return found


def _wanted(paper: Paper, cell: Cell, choice: Choice) -> bool:
    parts = {f"table {number}" for number in choice.tables} | {f"figure {number}" for number in choice.figures}
    column = paper.columns[cell.column]
    own_data = choice.data if not stand_in(paper, choice.data) else ()
    return (
        (not parts or cell.part in parts)
        and (not own_data or column.data in own_data)
        and (not choice.methods or _method(cell.asked) in choice.methods)
        and (not choice.steps or column.step in choice.steps)
    )


def _needs(cell: Cell, choice: Choice) -> Iterator[Need]:
    for asked in (cell.base, cell.asked):
        if asked is not None and choice.labels in (None, asked.get("labels", "pseudo")):
            yield Need(cell, asked)


def _method(asked: Tree) -> str:
    return str(asked["method"]["name"])
