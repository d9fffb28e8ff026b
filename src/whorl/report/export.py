"""The tables of a report as Markdown, LaTeX, CSV and JSON records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from whorl.report.tables import METRICS, Entry, FilledTable, Order

FIELDS = (
    "table", "row", "data", "step", "metric", "mark", "setting", "mean", "sd", "seeds", "missing", "printed",
    "printed_other", "difference", "runs", "versions",
)  # fmt: skip
"""The columns of the CSV files."""

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "Δ": r"$\Delta$", "±": r"$\pm$",
    "×": r"$\times$", "−": "$-$", "–": "--", "†": r"\dag{}", "‡": r"\ddag{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def markdown(found: FilledTable) -> str:
    """A table for each metric, the legend and the orders."""
    table, blocks = found.table, [f"### {plain(title(found))}"]
    for metric in table.metrics:
        heads = [METRICS[metric], *(found.column_name(column) for column in table.columns)]
        lines = ((row.name, found.line(row.name, metric)) for row in table.rows)
        blocks.append(_pipes(heads, [[name, *(_markdown_cell(found, e) for e in line)] for name, line in lines]))
    if found.legend:
        blocks.append("\n".join(f"* {plain(line)}" for line in found.legend))
    if found.orders:
        blocks.append(_pipes(ORDER_HEADS, list(map(order_cells, found.orders)), "---"))
    return "\n\n".join(blocks) + "\n"


def latex(found: FilledTable) -> str:
    """A tabular for each metric. A row has three lines: measured, printed, and the notes."""
    columns = [found.paper.columns[column] for column in found.table.columns]
    lines = [f"% {title(found)}", r"{\scriptsize\setlength{\tabcolsep}{2pt}"]
    for metric in found.table.metrics:
        lines += [r"\noindent\begin{tabular}{@{}l" + "r" * len(columns) + "@{}}", r"\hline"]
        lines += [_line(["", *(column.group for column in columns)])]
        lines += [_line([METRICS[metric], *(f"step {column.step}" for column in columns)]), r"\hline"]
        for row in found.table.rows:
            entries = found.line(row.name, metric)
            below = [e.print for e in entries], [e.notes(found.paper.seeds) for e in entries]
            lines += [_line([row.name, *(e.number for e in entries)], ["", *map(found.mark_of, entries)])]
            lines += [_line(["", *texts]) for texts in below if any(texts)]
        lines += [r"\hline", r"\end{tabular}", r"\par\medskip"]
    lines += [rf"\noindent {escape(line)}\par" for line in found.legend]
    return "\n".join([*lines, "}", ""])


def records(found: FilledTable) -> Iterator[dict[str, Any]]:
    """One record per number, with the keys of :data:`FIELDS`."""
    for entry in found.entries.values():
        column, value = found.paper.columns[entry.column], entry.value
        values = (
            found.table.number, entry.row.name, column.group, column.step, entry.metric, found.mark,
            str(found.setting), value.mean, value.sd, len(value.seeds), "" if value.mean is not None else entry.number,
            entry.printed, entry.printed_other, entry.difference, [run.name for run in entry.runs], entry.versions,
        )  # fmt: skip
        yield dict(zip(FIELDS, values, strict=True))


def long_csv(tables: Sequence[FilledTable]) -> str:
    """One line per number; where there is none, ``mean`` is empty and ``missing`` holds the reason."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for record in (record for found in tables for record in records(found)):
        writer.writerow({**record, "runs": " ".join(record["runs"]), "versions": "; ".join(record["versions"])})
    return out.getvalue()


def title(found: FilledTable) -> str:
    """The number, title and setting of a table."""
    return f"Table {found.table.number}. {found.table.title} ({found.where})"


ORDER_HEADS = "Column", "Measured, lowest first", "Printed", "Pairs as in print"


def order_cells(order: Order) -> tuple[str, str, str, str]:
    """The cells of a row about the order of a column."""
    return order.column, order.measured, order.printed, f"{order.agreeing} of {order.pairs}"


def escape(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


def plain(text: str) -> str:
    """Text for Markdown."""
    return re.sub(r"([\\`*_\[\]<>])(?! )", r"\\\1", text)


def _markdown_cell(found: FilledTable, entry: Entry) -> str:
    mark = f"<sup>{found.mark_of(entry)}</sup>" if found.mark_of(entry) else ""
    below = ", ".join(filter(None, (entry.print, entry.notes(found.paper.seeds))))
    return entry.number + mark + (f" ({below})" if below else "")


def _pipes(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---:") -> str:
    lines = [heads, ["---", *[align] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _line(cells: Sequence[str], marks: Sequence[str] = ()) -> str:
    raised = [rf"\textsuperscript{{{escape(mark)}}}" if mark else "" for mark in marks] or [""] * len(cells)
    return " & ".join(escape(cell) + mark for cell, mark in zip(cells, raised, strict=True)) + r" \\"
