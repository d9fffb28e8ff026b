"""``whorl report``: the tables and figures of a paper from the stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli import complete
from whorl.cli.flags import RunFlags
from whorl.cli.lines import say, say_json, tell

if TYPE_CHECKING:
    from whorl.papers import Paper
    from whorl.report.paper import Report


def report(
    runs: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="The folder of the report.")] = Path("report"),
    paper: Annotated[str, typer.Option(autocompletion=complete.papers, help="Which paper.")] = "he2021",
    as_json: Annotated[bool, typer.Option("--json", help="Print the cells as one JSON document on stdout.")] = False,
) -> None:
    """Show measured numbers beside those that the paper prints, as a page, tables and figures."""
    from whorl import papers

    made = write_report(papers.load(paper), runs, out)
    if as_json:
        print_left_out(made)
        say_json(made.records())
    else:
        print_report(made, out)


def write_report(paper: Paper, runs: Path, out: Path, key: str = "out") -> Report:
    """Write the report of a folder of runs. Messages about files name flags; ``key`` is the option of ``out``."""
    from whorl.report.paper import gather, write

    made = gather(paper, runs)
    made.store.left_out[:] = map(RunFlags.translate, made.store.left_out)
    write(made, out, key)
    return made


def print_left_out(made: Report) -> None:
    """Print the folders and files that could not be read, on stderr."""
    for line in made.store.left_out:
        tell(f"left out: {line}")


def print_report(made: Report, out: Path) -> None:
    """Print the number of filled cells per setting; messages about unreadable files go to stderr."""
    from whorl.errors import count

    print_left_out(made)
    say(f"{made.count} of {made.total} cells filled from {count(len(made.store.finished), 'finished run')}")
    for setting in made.settings:
        mark = f"{made.filled.mark(setting)}: " if made.filled.mark(setting) else ""
        say(f"  {len(made.cells_in(setting))} {mark}{setting}")
    if made.store.unfinished:
        say(f"{count(len(made.store.unfinished), 'run')} unfinished")
    if made.filled.other:
        say(f"{count(len(made.filled.other), 'run')} outside the cells of the paper")
    say(f"The report is in {out / 'report.html'}")
