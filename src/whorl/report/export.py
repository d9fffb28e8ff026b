"""Tables to take away: Markdown, LaTeX, CSV and plain records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from whorl.papers import Metric
from whorl.report.grid import NAMES, Entry, Grid, Order, column_name
from whorl.report.text import count, minus

FIELDS = (
    "table", "row", "data", "step", "metric", "mark", "setting", "mean", "sd", "seeds", "missing", "printed",
    "printed_other", "difference", "runs",
)  # fmt: skip
"""The columns of the CSV files."""

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "Δ": r"$\Delta$", "±": r"$\pm$",
    "×": r"$\times$", "−": "$-$", "–": "--", "†": r"\dag{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def number(entry: Entry) -> str:
    """The measured number, or the word in its place."""
    if entry.value.mean is None:
        return "/" if entry.printed == "/" else entry.value.missing
    deviation = "" if entry.value.sd is None else f" ± {entry.value.sd:.3f}"
    return minus(entry.value.mean) + deviation


def printed(entry: Entry) -> str:
    """What the paper prints, both values where it contradicts itself; nothing where it leaves the cell out."""
    if entry.printed == "/":
        return ""
    other = "" if entry.printed_other is None else f" or {minus(entry.printed_other)}"
    return f"print {minus(entry.printed)}{other}" + ("†" if entry.flag else "")


def notes(entry: Entry, usual: int) -> list[str]:
    """The difference to print, and the seeds where they are not as many as the paper's."""
    seeds = len(entry.value.seeds)
    apart = [] if entry.difference is None else [minus(entry.difference, sign=True)]
    return apart + ([count(seeds, "seed")] if seeds not in (0, usual) else [])


def mark(grid: Grid, entry: Entry) -> str:
    """The letter beside a number that was not measured in the paper's own setting."""
    return grid.mark if entry.value.mean is not None else ""


def markdown(grid: Grid) -> str:
    """A table for each metric, the legend and the orders."""
    blocks = [f"### {plain(title(grid))}"]
    for metric in grid.table.metrics:
        heads = [NAMES[metric], *(column_name(grid.paper, column) for column in grid.table.columns)]
        rows = [[row.name, *(_markdown_cell(grid, e) for e in _row(grid, row.name, metric))] for row in grid.table.rows]
        blocks.append(pipes(heads, rows))
    if grid.legend:
        blocks.append("\n".join(f"* {plain(line)}" for line in grid.legend))
    if grid.orders:
        blocks.append(pipes(ORDER_HEADS, [order_cells(grid, order) for order in grid.orders], "---"))
    return "\n\n".join(blocks) + "\n"


def latex(grid: Grid) -> str:
    """A tabular for each metric. A row has three lines: the number, the printed one, and what sets them apart."""
    columns = [grid.paper.columns[column] for column in grid.table.columns]
    lines = [f"% {title(grid)}", r"{\scriptsize\setlength{\tabcolsep}{2pt}"]
    for metric in grid.table.metrics:
        lines += [r"\noindent\begin{tabular}{@{}l" + "r" * len(columns) + "@{}}", r"\hline"]
        lines += [_line(["", *(column.group for column in columns)])]
        lines += [_line([NAMES[metric], *(f"step {column.step}" for column in columns)]), r"\hline"]
        for row in grid.table.rows:
            entries = _row(grid, row.name, metric)
            below = [printed(e) for e in entries], [", ".join(notes(e, grid.paper.seeds)) for e in entries]
            lines += [_line([row.name, *map(number, entries)], ["", *(mark(grid, e) for e in entries)])]
            lines += [_line(["", *texts]) for texts in below if any(texts)]
        lines += [r"\hline", r"\end{tabular}", r"\par\medskip"]
    lines += [rf"\noindent {escape(line)}\par" for line in grid.legend]
    return "\n".join([*lines, "}", ""])


def records(grid: Grid) -> Iterator[dict[str, Any]]:
    """Every number of a table with what belongs to it, as :data:`FIELDS` names it."""
    for entry in grid.entries.values():
        column = grid.paper.columns[entry.column]
        yield {
            "table": grid.table.number,
            "row": entry.row.name,
            "data": column.group,
            "step": column.step,
            "metric": entry.metric,
            "mark": grid.mark,
            "setting": str(grid.setting),
            "mean": entry.value.mean,
            "sd": entry.value.sd,
            "seeds": len(entry.value.seeds),
            "missing": number(entry) if entry.value.mean is None else "",
            "printed": entry.printed,
            "printed_other": entry.printed_other,
            "difference": entry.difference,
            "runs": entry.runs,
        }


def long_csv(grids: Sequence[Grid]) -> str:
    """One line a number; where there is none, ``mean`` is empty and ``missing`` says why."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**record, "runs": " ".join(record["runs"])} for grid in grids for record in records(grid))
    return out.getvalue()


def title(grid: Grid) -> str:
    """The table's number, name and setting."""
    where = f"setting {grid.mark}: {grid.setting}" if grid.mark else "the paper's own setting"
    return f"Table {grid.table.number}. {grid.table.title} ({where})"


ORDER_HEADS = "Column", "Measured, lowest first", "Printed", "Pairs as in print"


def order_cells(grid: Grid, order: Order) -> tuple[str, str, str, str]:
    """A line on the order of a column's rows."""
    column = f"{column_name(grid.paper, order.column)}, {NAMES[order.metric]}"
    return column, order.measured, order.printed, f"{order.agreeing} of {order.pairs}"


def escape(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


def plain(text: str) -> str:
    """Text for Markdown, as it stands."""
    return re.sub(r"([\\`*_\[\]<>])(?! )", r"\\\1", text)


def _row(grid: Grid, row: str, metric: Metric) -> list[Entry]:
    return [grid.entries[row, column, metric] for column in grid.table.columns]


def _markdown_cell(grid: Grid, entry: Entry) -> str:
    raised = f"<sup>{mark(grid, entry)}</sup>" if mark(grid, entry) else ""
    below = ", ".join(text for text in (printed(entry), *notes(entry, grid.paper.seeds)) if text)
    return number(entry) + raised + (f" ({below})" if below else "")


def pipes(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---:") -> str:
    """A table in Markdown."""
    lines = [heads, ["---", *[align] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _line(cells: Sequence[str], marks: Sequence[str] = ()) -> str:
    """A row in LaTeX; a mark is raised."""
    raised = [rf"\textsuperscript{{{letter}}}" if letter else "" for letter in marks] or [""] * len(cells)
    return " & ".join(escape(cell) + letter for cell, letter in zip(cells, raised, strict=True)) + r" \\"
