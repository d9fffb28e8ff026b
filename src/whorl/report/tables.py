"""A table of a paper in one setting: the measured numbers beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from whorl.papers import Flag, Metric, Paper, Printed, Row, Table
from whorl.papers.cells import Setting, printed_anywhere, table_cell
from whorl.papers.filled import Filled, Group
from whorl.papers.stored import Done, versions
from whorl.report.measure import WHY, Value, difference, measured
from whorl.report.text import count, listed, number

METRICS: dict[Metric, str] = {"avg": "Avg", "last": "Last"}


@dataclass(frozen=True)
class Entry:
    """One number of a table."""

    row: Row
    column: str
    metric: Metric
    printed: Printed
    flag: Flag | None
    value: Value
    groups: tuple[Group, ...]
    """The runs it is computed from; the second group of a difference is subtracted."""

    @property
    def difference(self) -> float | None:
        """Measured minus printed."""
        return None if self.value.mean is None or self.printed == "/" else self.value.mean - self.printed

    @property
    def printed_other(self) -> float | None:
        """The contradicting number that the paper prints for the same value elsewhere."""
        return self.flag.values[1] if self.flag and self.flag.values[0] == self.printed else None

    @property
    def runs(self) -> list[Done]:
        """The runs behind the number; without a number, the runs that did not give one."""
        seeds = self.value.seeds
        return [run for group in self.groups for seed, run in group.runs.items() if not seeds or seed in seeds]

    @property
    def versions(self) -> list[str]:
        """The versions of whorl that computed these runs."""
        return versions(self.runs)

    @property
    def number(self) -> str:
        """The measured number with its deviation, or the reason why there is none."""
        if self.value.mean is None:
            return "/" if self.printed == "/" else self.value.missing
        return number(self.value.mean) + ("" if self.value.sd is None else f" ± {self.value.sd:.3f}")

    @property
    def print(self) -> str:
        """The printed number, and the contradicting one; empty if the paper leaves the cell out."""
        if self.printed == "/":
            return ""
        other = "" if self.printed_other is None else f" or {number(self.printed_other)}"
        return f"print {number(self.printed)}{other}" + ("†" if self.flag else "")

    def notes(self, usual: int) -> str:
        """The difference to print, and the number of seeds if it is not the ``usual`` one."""
        seeds = len(self.value.seeds)
        found = [] if self.difference is None else [number(self.difference, sign=True)]
        return ", ".join(found + ([count(seeds, "seed")] if seeds not in (0, usual) else []))


@dataclass(frozen=True)
class Order:
    """The rows of a column, ordered by their numbers."""

    column: str
    metric: Metric
    measured: str
    printed: str
    agreeing: int
    pairs: int


@dataclass(frozen=True)
class FilledTable:
    """A table in one setting."""

    paper: Paper
    table: Table
    setting: Setting
    mark: str
    entries: dict[tuple[str, str, Metric], Entry]

    @property
    def name(self) -> str:
        """The anchor of the table on the page."""
        return f"table-{self.table.number}" + (f"-{self.mark}" if self.mark else "")

    def anchor(self, entry: Entry) -> str:
        """The anchor of a number on the page."""
        row = [row.name for row in self.table.rows].index(entry.row.name)
        columns = [(column, metric) for column in self.table.columns for metric in self.table.metrics]
        return f"{self.name}-{row}-{columns.index((entry.column, entry.metric))}"

    def line(self, row: str, metric: Metric) -> list[Entry]:
        """The entries of a row."""
        return [self.entries[row, column, metric] for column in self.table.columns]

    def mark_of(self, entry: Entry) -> str:
        """The marks beside a number: the letter of the setting, and ‡ for different versions of whorl."""
        return "" if entry.value.mean is None else self.mark + ("‡" if len(entry.versions) > 1 else "")

    @property
    def legend(self) -> list[str]:
        """What the marks and words of the table mean."""
        return [*_setting_words(self), *_missing_words(self), *_version_words(self), *_flag_words(self)]

    @property
    def orders(self) -> list[Order]:
        """One for each column with at least two measured rows; differences are ordered among themselves."""
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
        ordered = [(a, b) for a, b in combinations(both.values(), 2) if a[1] != b[1]]  # leaves out ties in print
        agreeing = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in ordered)
        ours, theirs = ({name: pair[i] for name, pair in both.items()} for i in (0, 1))
        return Order(column, metric, chain(ours), chain(theirs), agreeing, len(ordered))


def filled_table(filled: Filled, table: Table, setting: Setting) -> FilledTable:
    """A table in one setting."""
    paper, entries = filled.paper, dict[tuple[str, str, Metric], Entry]()
    for row in table.rows:
        for index, column in enumerate(table.columns):
            cell, score = table_cell(paper, table, row, column, setting.stand_in), paper.columns[column].score
            there = printed_anywhere(table, row, column)
            group = filled.group(cell.asked, setting) if there else None
            base = filled.group(cell.base, setting) if there and cell.base else None
            groups = tuple(found for found in (group, base) if found)
            for metric in table.metrics:
                value = difference(group, base, score, metric) if cell.base else measured(group, score, metric)
                flag = paper.flag(table.number, row.name, column, metric)
                entries[row.name, column, metric] = Entry(
                    row, column, metric, row.printed(metric)[index], flag, value, groups
                )
    return FilledTable(paper, table, setting, filled.mark(setting), entries)


def chain(values: dict[str, float]) -> str:
    """``A < B = C``, lowest first."""
    ranked = sorted(values, key=lambda name: values[name])
    out = ranked[:1]
    for before, name in pairwise(ranked):
        out += ["=" if values[before] == values[name] else "<", name]
    return " ".join(out)


def _setting_words(found: FilledTable) -> Iterator[str]:
    paper, setting = found.paper, found.setting
    if found.mark:
        yield f"{found.mark}: {setting}."
    if setting.stand_in:
        places = {}
        for column in found.table.columns:
            tree = paper.place(column, setting.stand_in)["stream"]
            places[column_name(paper, column)] = f"{tree['first']} classes, then {tree['step']} at a time"
        yield f"{setting.stand_in} in place of " + "; ".join(f"{name}: {how}" for name, how in places.items()) + "."
    scaled = dict[str, int]()
    for entry in found.entries.values():
        asked = entry.row.set.get("pseudo", {}).get("refresh", 0)
        for run in entry.groups[0].runs.values() if entry.groups else ():
            if run.config.pseudo.refresh != asked:
                scaled[f"{entry.row.name} every {run.config.pseudo.refresh}"] = run.config.train.epochs
    if scaled:
        words = f"K of UPL-K is scaled to the epochs of a step, {listed(sorted(set(scaled.values())))} in place of"
        yield f"{words} {paper.epochs}: {listed(scaled)} epochs."


def _missing_words(found: FilledTable) -> Iterator[str]:
    used = dict.fromkeys(entry.value.missing for entry in found.entries.values() if entry.printed != "/")
    yield from (f"{word}: {WHY[word]}." for word in used if word in WHY)
    if any(entry.printed == "/" for entry in found.entries.values()):
        yield "/: the paper leaves this cell out."


def _version_words(found: FilledTable) -> Iterator[str]:
    mixed = dict.fromkeys(tuple(e.versions) for e in found.entries.values() if "‡" in found.mark_of(e))
    yield from (f"‡: the runs of this number were computed by different versions of whorl: {listed(v)}." for v in mixed)


def _flag_words(found: FilledTable) -> Iterator[str]:
    for entry in found.entries.values():
        if entry.flag:
            where = f"{entry.row.name}, {column_name(found.paper, entry.column)}, {METRICS[entry.metric]}"
            yield f"† {where}: {entry.flag.why}."


def column_name(paper: Paper, column: str) -> str:
    """The data set and the step size, as the paper names them."""
    found = paper.columns[column]
    return f"{found.group} step {found.step}"
