"""``whorl compare``: any runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli import complete
from whorl.cli.lines import say, say_json, table
from whorl.cli.runs import find_run
from whorl.errors import WhorlError, unknown
from whorl.report.text import listed, number

if TYPE_CHECKING:
    from whorl.report.compare import Comparison


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(help="Folders, or beginnings or ends of names.", autocompletion=complete.runs),
    ],
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    score: Annotated[
        str,
        typer.Option(help="acc, acc_plain, nmi, ari, label_acc, …", autocompletion=complete.scores),
    ] = "acc",
    plot: Annotated[Path, typer.Option(help="The file of the plot, .png or .svg.")] = Path("compare.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Compare runs: the differences of their configs, a score after each task, and its curves as a plot."""
    from whorl.known import SCORES

    if plot.suffix not in (".png", ".svg"):
        raise WhorlError(f"--plot {plot} must end in .png or .svg")
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    found = [find_run(name, out) for name in runs]
    from whorl.papers.stored import Done
    from whorl.report.compare import comparison

    made = comparison([Done.of(run) for run in found], score)
    made.draw(plot)
    if as_json:
        say_json({**made.records(), "plot": str(plot)})
        return
    print_comparison(made)
    say(f"The curves are in {plot}")


def print_comparison(made: Comparison) -> None:
    """Print the tables on stdout."""
    from whorl.scores import NAMES

    for n, folder in enumerate(made.folders, 1):
        say(f"{n}  {folder}")
    if len({version for found in made.versions for version in found}) > 1:
        say("computed by different versions of whorl:")
        for n, found in enumerate(made.versions, 1):
            say(f"{n}  {listed(found)}")
    if made.differing:
        _print_beside("config", {key: list(map(_short, values)) for key, values in made.differing.items()}, words=True)
    say(f"{NAMES[made.score].full} after each task")
    rows = {str(task): list(map(number, found)) for task, found in made.after.items()}
    for name, word in (("avg", "Avg (tasks 2 on)"), ("last", "Last"), ("forgetting", "forgetting")):
        rows[word] = list(map(number, made.summary[name]))
    _print_beside("task", rows)


def _print_beside(head: str, rows: dict[str, list[str]], words: bool = False) -> None:
    """One column per run."""
    heads = [head, *(str(n + 1) for n in range(len(next(iter(rows.values())))))]
    table(heads, [[name, *values] for name, values in rows.items()], left=heads if words else ())


def _short(value: str) -> str:
    """A config value. A long list, such as a class order, is cut between two of its items."""
    return value if len(value) <= 40 or "," not in value else value[:38].rpartition(",")[0] + ", …"
