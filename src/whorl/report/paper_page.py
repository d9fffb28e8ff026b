"""The page of a paper's report: what there is, tables, figures, and the runs behind every number."""

from __future__ import annotations

from collections.abc import Iterator

from whorl.papers import Metric
from whorl.report import export, page, plots
from whorl.report.behind import Shown, group_section, other_runs, use
from whorl.report.figures import Plot
from whorl.report.grid import NAMES, Entry, Grid, column_name
from whorl.report.measure import Point
from whorl.report.paper import Report
from whorl.report.text import count, minus


def render(report: Report) -> str:
    """The page."""
    return page.page(f"{report.paper.name}: measured beside printed", _body(report), script="sort.js")


def _body(report: Report) -> Iterator[str]:
    paper, behind = report.paper, dict[str, Shown]()
    yield page.heading(1, paper.title)
    yield from _begin(report)
    for table in paper.tables:
        yield page.heading(2, f"Table {table.number}. {table.title}")
        for grid in report.grids:
            if grid.table is table:
                yield from _table(grid, behind)
    for figure in paper.figures:
        yield page.heading(2, f"Figure {figure.number}. {figure.title}")
        for plot in report.plots:
            if plot.figure is figure:
                yield from _figure(plot, behind)
    yield page.heading(2, "Runs behind the numbers", "runs")
    if not behind:
        yield page.paragraph("None yet.")
    yield from (group_section(report, shown) for shown in behind.values())
    yield from other_runs(report)


def _begin(report: Report) -> Iterator[str]:
    paper, store = report.paper, report.store
    finished = count(len(store.finished), "finished run")
    yield page.paragraph(
        f"{paper.authors}, {paper.year}. {report.count} of {report.total} cells of its tables and figures are filled, "
        f"from {finished} in {report.runs}. Below each number stand what the paper prints, the difference to it, and "
        f"how many seeds there are where they are not the paper's {paper.seeds}; ± is one standard deviation over "
        "seeds. Rows with Δ show without labels minus with labels, seed by seed."
    )
    rows = []
    for setting in report.settings:
        mark = report.filled.mark(setting)
        runs = {run.name: run for g in report.filled.groups if g.setting == setting for run in g.runs.values()}
        seeds = sorted({run.config.seed for run in runs.values()})
        cells = f"{len(report.cells_in(setting))} of {report.total}"
        words = [cells, ", ".join(map(str, seeds)), str(len(runs)), str(setting)]
        rows.append((page.Cell(mark or "paper"), [page.Cell(word) for word in words]))
    if rows:
        heads = ["Cells filled", "Seeds", "Runs", "Setting"]
        yield page.sheet("Settings", "Mark", [("", heads)], rows, "words narrow")
    else:
        yield page.paragraph("No finished run fills a cell yet.")
    if store.unfinished:
        yield page.links(f"{count(len(store.unfinished), 'run')} did not finish:", [("list", "unfinished")])
    if store.left_out:
        yield page.paragraph(f"{count(len(store.left_out), 'folder')} could not be read as a run:")
        yield page.items(store.left_out)


def _table(grid: Grid, behind: dict[str, Shown]) -> Iterator[str]:
    where = f"Setting {grid.mark}: {grid.setting}" if grid.mark else "The paper's own setting"
    yield page.heading(3, where, grid.name)
    rows = []
    for i, row in enumerate(grid.table.rows):
        found = [grid.entries[row.name, column, metric] for column, metric in _columns(grid)]
        names = [f"{grid.name}-{i}-{j}" for j in range(len(found))]
        rows.append((page.Cell(row.name), [_cell(grid, e, name) for e, name in zip(found, names, strict=True)]))
        for entry, name in zip(found, names, strict=True):
            _use(grid, entry, name, behind)
    yield page.sheet(f"Table {grid.table.number}, {where}", "Row", _groups(grid), rows, "sortable")
    yield page.items(grid.legend) if grid.legend else ""
    if grid.orders:
        lines = [export.order_cells(grid, order) for order in grid.orders]
        agreeing, pairs = (sum(getattr(order, key) for order in grid.orders) for key in ("agreeing", "pairs"))
        cells = [(page.Cell(head), [page.Cell(text) for text in rest]) for head, *rest in lines]
        head, *rest = export.ORDER_HEADS
        table = page.sheet("Order of the rows", head, [("", rest)], cells, "words long")
        yield page.fold(f"Order of the rows: {agreeing} of {pairs} pairs as in print", [table])


def _columns(grid: Grid) -> list[tuple[str, Metric]]:
    return [(column, metric) for column in grid.table.columns for metric in grid.table.metrics]


def _groups(grid: Grid) -> list[tuple[str, list[str]]]:
    """Heads: Avg and Last under each column, or the steps under each data set."""
    if len(grid.table.metrics) > 1:
        names = [NAMES[metric] for metric in grid.table.metrics]
        return [(column_name(grid.paper, column), names) for column in grid.table.columns]
    found: dict[str, list[str]] = {}
    for column in (grid.paper.columns[name] for name in grid.table.columns):
        found.setdefault(f"{column.group}, {NAMES[grid.table.metrics[0]]}", []).append(f"step {column.step}")
    return list(found.items())


def _cell(grid: Grid, entry: Entry, name: str) -> page.Cell:
    apart = ", ".join(export.notes(entry, grid.paper.seeds))
    return page.Cell(
        export.number(entry),
        value=entry.value.mean,
        mark=export.mark(grid, entry),
        below=[text for text in (export.printed(entry), apart) if text],
        link=entry.groups[0].name if entry.groups else "",
        name=name,
    )


def _use(grid: Grid, entry: Entry, name: str, behind: dict[str, Shown]) -> None:
    metric = NAMES[entry.metric]
    words = f"Table {grid.table.number}, {entry.row.name}, {column_name(grid.paper, entry.column)}, {metric}"
    score = grid.paper.columns[entry.column].score
    found = [use(behind, group, score, name, words) for group in entry.groups]
    if len(found) == 2:
        found[0].bases[found[1].group.name] = found[1].group


def _figure(plot: Plot, behind: dict[str, Shown]) -> Iterator[str]:
    where = f"Setting {plot.mark}: {plot.setting}" if plot.mark else "The paper's own setting"
    yield page.heading(3, where, plot.name)
    if not plot.columns:
        yield page.paragraph("not run")
        return
    for trace in plot.traces.values():
        for group in trace.groups:
            score = trace.curve.score or plot.paper.columns[trace.column].score
            use(behind, group, score, plot.name, f"Figure {plot.figure.number}")
    panels = plot.panels
    limits = plots.scale([line for panel in panels for line in panel.lines])
    drawn = [plots.panels([panel], *plot.labels, key=False, limits=limits) for panel in panels]
    made = [plots.inline(plots.svg(f), f"{plot.name}-{number}") for number, f in enumerate(drawn)]
    legend = plots.inline(plots.svg(plots.key(panels)), f"{plot.name}-key")
    alt = f"Figure {plot.figure.number}: {plot.labels[1]} over {plot.labels[0]}; the values are in the table below."
    yield page.figure(page.side_by_side(legend, made), alt, plot.caption)
    yield page.fold("Values", [_values(plot, column) for column in plot.columns])


def _values(plot: Plot, column: str) -> str:
    traces = [plot.traces[column, curve.name] for curve in plot.figure.curves]
    places = sorted({point.x for trace in traces for point in trace.points})
    rows = []
    for trace in traces:
        found = {point.x: point for point in trace.points}
        cells = [_point(found[x]) if x in found else page.Cell("–" if found else "not run") for x in places]
        rows.append((page.Cell(trace.curve.name), cells))
    head = plot.title(column)
    return page.sheet(f"Values, {head}", head, [(plot.labels[0], list(map(str, places)))], rows)


def _point(point: Point) -> page.Cell:
    deviation = () if point.value.sd is None else [f"± {point.value.sd:.3f}"]
    return page.Cell(minus(point.value.mean), below=deviation, link=point.group.name)
