"""``whorl compare``: any runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from whorl.cli.runs import console, find_run, table
from whorl.errors import WhorlError
from whorl.report.text import listed, number

if TYPE_CHECKING:
    from whorl.report.compare import Comparison


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two or more runs: folders, or beginnings or ends of names.")],
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    score: Annotated[str, typer.Option(help="acc, acc_plain, acc5, nmi, ari, acc_fc, acc_nme or label_acc.")] = "acc",
    plot: Annotated[Path, typer.Option(help="The file of the plot, .png or .svg.")] = Path("compare.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Compare runs: the differences of their configs, a score after each task, and its curves as a plot."""
    from whorl.papers.stored import Done
    from whorl.report.compare import comparison

    if plot.suffix not in (".png", ".svg"):
        raise WhorlError(f"--plot {plot} must end in .png or .svg")
    made = comparison([Done.of(find_run(name, out)) for name in runs], score)
    made.draw(plot)
    if as_json:
        print(json.dumps({**made.records(), "plot": str(plot)}, allow_nan=False))
        return
    print_comparison(made)
    print(f"The curves are in {plot}")


def print_comparison(made: Comparison) -> None:
    """Print the tables on stdout."""
    from whorl.scores import NAMES

    for n, folder in enumerate(made.folders, 1):
        print(f"{n}  {folder}")
    if len({version for found in made.versions for version in found}) > 1:
        print("computed by different versions of whorl:")
        for n, found in enumerate(made.versions, 1):
            print(f"{n}  {listed(found)}")
    if made.differing:
        _print_beside("config", {key: list(map(_short, values)) for key, values in made.differing.items()}, words=True)
    print(f"{NAMES[made.score].full} after each task")
    rows = {str(task): list(map(number, found)) for task, found in made.after.items()}
    for name, word in (("avg", "Avg (tasks 2 on)"), ("last", "Last"), ("forgetting", "forgetting")):
        rows[word] = list(map(number, made.summary[name]))
    _print_beside("task", rows)


def _print_beside(head: str, rows: dict[str, list[str]], words: bool = False) -> None:
    """One column per run. Where the terminal is too narrow, the table continues below instead of being cut."""
    screen, runs = console(), len(next(iter(rows.values())))
    endless = screen.options.update(max_width=10**6)
    for across in range(runs, 0, -1):
        tables = []
        for start in range(0, runs, across):
            numbers = [str(n + 1) for n in range(start, min(start + across, runs))]
            made = table(head, *numbers, left=(head, *numbers) if words else ())
            for name, values in rows.items():
                made.add_row(name, *map(escape, values[start : start + across]))
            tables.append(made)
        if across == 1 or all(screen.measure(made, options=endless).maximum <= screen.width for made in tables):
            for made in tables:
                screen.print(made)
            return


def _short(value: str) -> str:
    return value if len(value) <= 40 else value[:39] + "…"  # a class order can be long
