"""A table of a paper in one setting: the measured numbers beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from whorl.errors import count
from whorl.papers import Flag, Metric, Paper, Printed, Row, Table
from whorl.papers.cells import Setting, printed_anywhere, table_cell
from whorl.papers.filled import Filled, Group
from whorl.papers.measure import WHY, Value, difference, measured
from whorl.papers.stored import Done, versions
from whorl.report.text import listed, number

METRICS: dict[Metric, str] = {"avg": "Avg", "last": "Last"}


@dataclass(frozen=True)
class Part:
    """A table or figure in one setting."""

    paper: Paper
    setting: Setting
    mark: str
    """The letter of the setting; empty for the paper's own."""

    @property
    def where(self) -> str:
        """The setting in words."""
        return f"setting {self.mark}: {self.setting}" if self.mark else "the paper's own setting"

    def anchor(self, part: str) -> str:
        """An anchor on the page that no other setting has."""
        return part + (f"-{self.mark}" if self.mark else "")

    def column_name(self, column: str) -> str:
        """The data set and the step size, as the paper names them."""
        found = self.paper.columns[column]
        return f"{found.group} step {found.step}"


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
    anchor: str

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
    def mixed(self) -> bool:
        """Whether there is a number, and different versions of whorl computed it."""
        return self.value.mean is not None and len(self.versions) > 1

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
    measured: str
    printed: str
    agreeing: int
    pairs: int


@dataclass(frozen=True)
class FilledTable(Part):
    """A table in one setting."""

    table: Table
    entries: dict[tuple[str, str, Metric], Entry]

    @property
    def name(self) -> str:
        """The anchor of the table on the page."""
        return self.anchor(f"table-{self.table.number}")

    def place(self, column: str, metric: Metric) -> str:
        """A column and metric in words."""
        return f"{self.column_name(column)}, {METRICS[metric]}"

    def line(self, row: str, metric: Metric) -> list[Entry]:
        """The entries of a row."""
        return [self.entries[row, column, metric] for column in self.table.columns]

    def mark_of(self, entry: Entry) -> str:
        """The marks beside a number: the letter of the setting, and ‡ for different versions of whorl."""
        return "" if entry.value.mean is None else self.mark + ("‡" if entry.mixed else "")

    @property
    def legend(self) -> list[str]:
        """Explains the marks and words of the table."""
        return [*_setting_words(self), *_mark_words(self)]

    @property
    def orders(self) -> list[Order]:
        """One for each column with at least two measured rows; differences are ordered among themselves."""
        kinds = [[r for r in self.table.rows if (r.minus is None) == plain] for plain in (True, False)]
        columns = [(c, m) for c in self.table.columns for m in self.table.metrics]
        return [order for c, m in columns for rows in kinds if (order := self._order(rows, c, m))]

    def _order(self, rows: list[Row], column: str, metric: Metric) -> Order | None:
        both: dict[str, tuple[float, float]] = {}
        for entry in (self.entries[row.name, column, metric] for row in rows):
            if entry.value.mean is not None and entry.printed != "/":
                both[entry.row.name] = entry.value.mean, entry.printed
        if len(both) < 2:
            return None
        ordered = [(a, b) for a, b in combinations(both.values(), 2) if a[1] != b[1]]  # leaves out ties in print
        agreeing = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in ordered)
        ours, theirs = ({name: pair[i] for name, pair in both.items()} for i in (0, 1))
        return Order(self.place(column, metric), chain(ours), chain(theirs), agreeing, len(ordered))


def filled_table(filled: Filled, table: Table, setting: Setting) -> FilledTable:
    """A table in one setting."""
    paper = filled.paper
    made = FilledTable(paper, setting, filled.mark(setting), table, {})
    for down, row in enumerate(table.rows):
        for index, column in enumerate(table.columns):
            cell, score = table_cell(paper, table, row, column, setting.stand_in), paper.columns[column].score
            there = printed_anywhere(table, row, column)
            group = filled.group(cell.asked, setting) if there else None
            base = filled.group(cell.base, setting) if there and cell.base else None
            groups = tuple(found for found in (group, base) if found)
            for across, metric in enumerate(table.metrics, index * len(table.metrics)):
                value = difference(group, base, score, metric) if cell.base else measured(group, score, metric)
                flag = paper.flag(table.number, row.name, column, metric)
                anchor = f"{made.name}-{down}-{across}"
                made.entries[row.name, column, metric] = Entry(
                    row, column, metric, row.printed(metric)[index], flag, value, groups, anchor
                )
    return made


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
        streams = {column: paper.place(column, setting.stand_in)["stream"] for column in found.table.columns}
        places = (
            f"{found.column_name(c)}: {s['first']} classes, then {s['step']} at a time" for c, s in streams.items()
        )
        yield f"{setting.stand_in} in place of {'; '.join(places)}."
    scaled = dict[str, int]()
    for entry in found.entries.values():
        asked = entry.row.set.get("pseudo", {}).get("refresh", 0)
        for run in entry.groups[0].runs.values() if entry.groups else ():
            if run.config.pseudo.refresh != asked:
                scaled[f"{entry.row.name} every {run.config.pseudo.refresh}"] = run.config.train.epochs
    if scaled:
        words = f"K of UPL-K is scaled to the epochs of a step, {listed(sorted(set(scaled.values())))} in place of"
        yield f"{words} {paper.epochs}: {listed(scaled)} epochs."


def _mark_words(found: FilledTable) -> Iterator[str]:
    entries = found.entries.values()
    missing = dict.fromkeys(entry.value.missing for entry in entries if entry.printed != "/")
    yield from (f"{word}: {WHY[word]}." for word in missing if word in WHY)
    if any(entry.printed == "/" for entry in entries):
        yield "/: the paper leaves this cell out."
    for mixed in dict.fromkeys(tuple(entry.versions) for entry in entries if entry.mixed):
        yield f"‡: the runs of this number were computed by different versions of whorl: {listed(mixed)}."
    for entry in entries:
        if entry.flag:
            yield f"† {entry.row.name}, {found.place(entry.column, entry.metric)}: {entry.flag.why}."
