"""``whorl compare``: any runs beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli.runs import console, find_run, table
from whorl.errors import WhorlError

if TYPE_CHECKING:
    from whorl.report.compare import Comparison


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two or more runs: folders, or beginnings or ends of names.")],
    out: Annotated[Path, typer.Option(help="Where runs are stored.")] = Path("runs"),
    score: Annotated[str, typer.Option(help="acc, acc_plain, acc5, nmi, ari, acc_fc, acc_nme or label_acc.")] = "acc",
    plot: Annotated[Path, typer.Option(help="Where the curves go, .png or .svg.")] = Path("compare.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Compare runs: where their configs differ, a score after each task, and its curves as a plot."""
    from whorl.report.compare import comparison
    from whorl.report.done import opened

    if plot.suffix not in (".png", ".svg"):
        raise WhorlError(f"--plot {plot} must end in .png or .svg")
    made = comparison([opened(find_run(name, out)) for name in runs], score)
    _draw(made, plot)
    if as_json:
        print(json.dumps({**made.records(), "plot": str(plot)}, allow_nan=False))
        return
    print_comparison(made)
    print(f"The curves are in {plot}")


def print_comparison(made: Comparison) -> None:
    """The tables on stdout."""
    from whorl.report.compare import SCORES
    from whorl.report.text import number

    numbers = [str(n) for n in range(1, len(made.runs) + 1)]
    for n, run in zip(numbers, made.runs, strict=True):
        print(f"{n}  {run.name}")
    if made.differing:
        differing = table("config", *numbers, left=("config", *numbers))
        for key, values in made.differing.items():
            differing.add_row(key, *values)
        console().print(differing)
    print(f"{SCORES[made.score]} after each task")
    after = table("task", *numbers)
    for task, found in made.after.items():
        after.add_row(str(task), *map(number, found))
    for name, word in (("avg", "Avg (tasks 2 on)"), ("last", "Last"), ("forgetting", "forgetting")):
        after.add_row(word, *map(number, made.summary[name]))
    console().print(after)


def _draw(made: Comparison, path: Path) -> None:
    from whorl.report import plots
    from whorl.runs.files import write_bytes

    figure = made.figure()
    if not path.parent.is_dir():
        raise WhorlError(f"there is no folder {path.parent} to put the plot in")
    write_bytes(path, plots.png(figure) if path.suffix == ".png" else plots.svg(figure).encode())
