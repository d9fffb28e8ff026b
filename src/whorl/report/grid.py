"""A table of a paper in one setting: what was measured, beside what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from whorl.papers import Flag, Metric, Paper, Printed, Row, Table
from whorl.papers.cells import Setting, printed_anywhere, table_cell
from whorl.report.gather import Filled, Group
from whorl.report.measure import WHY, Value, difference, measured
from whorl.report.text import listed

NAMES: dict[Metric, str] = {"avg": "Avg", "last": "Last"}


@dataclass(frozen=True)
class Entry:
    """A cell of a table: one number."""

    row: Row
    column: str
    metric: Metric
    printed: Printed
    flag: Flag | None
    value: Value
    groups: tuple[Group, ...]
    """The runs it is made from; of a difference, the minuend's first."""

    @property
    def difference(self) -> float | None:
        """Measured less printed."""
        if self.value.mean is None or self.printed == "/":
            return None
        return self.value.mean - self.printed

    @property
    def printed_other(self) -> float | None:
        """What the paper prints for it elsewhere, where that contradicts."""
        if self.flag is None or self.flag.values[0] != self.printed:
            return None
        return self.flag.values[1]

    @property
    def runs(self) -> list[str]:
        """The folders of the runs behind the number, or of those that did not make one."""
        seeds = self.value.seeds
        return [
            run.name for group in self.groups for seed, run in group.runs.items() if not seeds or seed in seeds
        ]  # fmt: skip


@dataclass(frozen=True)
class Order:
    """The rows of a column by their numbers, lowest first."""

    column: str
    metric: Metric
    measured: str
    printed: str
    agreeing: int
    pairs: int


@dataclass(frozen=True)
class Grid:
    """A table in one setting."""

    paper: Paper
    table: Table
    setting: Setting
    mark: str
    entries: dict[tuple[str, str, Metric], Entry]

    @property
    def name(self) -> str:
        """As links and files call it."""
        return f"table-{self.table.number}" + (f"-{self.mark}" if self.mark else "")

    @property
    def legend(self) -> list[str]:
        """What the marks mean, what was done otherwise, and what is odd about the print."""
        return [*_setting_words(self.paper, self), *_missing_words(self), *_flag_words(self)]

    @property
    def orders(self) -> list[Order]:
        """Of every column in which at least two rows were measured; differences are ordered among themselves."""
        kinds = [[r for r in self.table.rows if (r.minus is None) == plain] for plain in (True, False)]
        columns = [(c, m) for c in self.table.columns for m in self.table.metrics]
        return [order for c, m in columns for rows in kinds if (order := self._order(rows, c, m))]

    def _order(self, rows: list[Row], column: str, metric: Metric) -> Order | None:
        both: dict[str, tuple[float, float]] = {}
        for row in rows:
            entry = self.entries[row.name, column, metric]
            if entry.value.mean is not None and entry.printed != "/":
                both[row.name] = entry.value.mean, entry.printed
        if len(both) < 2:
            return None
        told = [(a, b) for a, b in combinations(both.values(), 2) if a[1] != b[1]]  # what print ties, it does not order
        agreeing = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in told)
        ours, theirs = ({name: pair[i] for name, pair in both.items()} for i in (0, 1))
        return Order(column, metric, chain(ours), chain(theirs), agreeing, len(told))


def grid(filled: Filled, table: Table, setting: Setting) -> Grid:
    """A table in one setting."""
    paper, entries = filled.paper, dict[tuple[str, str, Metric], Entry]()
    for row in table.rows:
        for index, column in enumerate(table.columns):
            cell = table_cell(paper, table, row, column, setting.stand_in)
            there = printed_anywhere(table, row, column)
            group = filled.group(cell.asked, setting) if there else None
            base = filled.group(cell.base, setting) if there and cell.base else None
            score = paper.columns[column].score
            for metric in table.metrics:
                value = measured(group, score, metric)
                if cell.base is not None:
                    value = difference(group, base, score, metric)
                entries[row.name, column, metric] = Entry(
                    row,
                    column,
                    metric,
                    row.printed(metric)[index],
                    paper.flag(table.number, row.name, column, metric),
                    value,
                    tuple(found for found in (group, base) if found),
                )
    return Grid(paper, table, setting, filled.mark(setting), entries)


def chain(values: dict[str, float]) -> str:
    """``A < B = C``, lowest first."""
    ranked = sorted(values, key=lambda name: values[name])
    out = ranked[:1]
    for before, name in pairwise(ranked):
        out += ["=" if values[before] == values[name] else "<", name]
    return " ".join(out)


def _setting_words(paper: Paper, grid: Grid) -> Iterator[str]:
    setting = grid.setting
    if grid.mark:
        yield f"{grid.mark}: {setting}."
    if setting.stand_in:
        places = {}
        for column in grid.table.columns:
            tree = paper.place(column, setting.stand_in)["stream"]
            places[column_name(paper, column)] = f"{tree['first']} classes, then {tree['step']} at a time"
        yield f"{setting.stand_in} in place of " + "; ".join(f"{name}: {how}" for name, how in places.items()) + "."
    scaled = dict[str, int]()
    for entry in grid.entries.values():
        asked = entry.row.set.get("pseudo", {}).get("refresh", 0)
        for run in entry.groups[0].runs.values() if entry.groups else ():
            if run.config.pseudo.refresh != asked:
                scaled[f"{entry.row.name} every {run.config.pseudo.refresh}"] = run.config.train.epochs
    if scaled:
        epochs = listed(str(e) for e in sorted(set(scaled.values())))
        words = f"K of UPL-K is scaled to the epochs of a step, {epochs} in place of {paper.epochs}"
        yield f"{words}: {listed(scaled)} epochs."


def _missing_words(grid: Grid) -> Iterator[str]:
    used = dict.fromkeys(entry.value.missing for entry in grid.entries.values() if entry.printed != "/")
    yield from (f"{word}: {WHY[word]}." for word in used if word in WHY)
    if any(entry.printed == "/" for entry in grid.entries.values()):
        yield "/: the paper leaves this cell out."


def _flag_words(grid: Grid) -> Iterator[str]:
    for entry in grid.entries.values():
        if entry.flag:
            where = f"{entry.row.name}, {column_name(grid.paper, entry.column)}, {NAMES[entry.metric]}"
            yield f"† {where}: {entry.flag.why}."


def column_name(paper: Paper, column: str) -> str:
    """The data set and the step size as the paper has them."""
    found = paper.columns[column]
    return f"{found.group} step {found.step}"
