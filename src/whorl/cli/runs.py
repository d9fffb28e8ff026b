"""``whorl list`` and ``whorl show``: the stored runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from whorl.cli.flags import RunFlags
from whorl.errors import WhorlError
from whorl.report.text import count, number

if TYPE_CHECKING:
    from whorl.config import ExperimentConfig
    from whorl.runs.run import Run
    from whorl.scores import RunScores, Summary, TaskScores


def list_runs(
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the stored runs."""
    from whorl.runs.run import stored

    rows, left_out = stored(out)
    for line in left_out:
        RunFlags.notify(f"left out: {line}")
    if as_json:
        print(json.dumps([_head(run, scores) for run, scores in rows]))
        return
    shown = table("run", "method", "labels", "tasks", "avg", "last", "state")
    for run, scores in rows:
        state, summary = "finished" if scores.finished else "unfinished", scores.summary
        about = run.path.name, run.config.method.name, run.config.labels
        shown.add_row(*about, str(len(scores.steps)), number(summary.avg), number(summary.last), state)
    print_whole(shown)


def show(
    run: Annotated[str, typer.Argument(help="A run's folder, or the beginning or end of its name.")],
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print everything stored as one JSON document.")] = False,
) -> None:
    """Show one run: its config, its scores after each task, the summary, and where it was computed."""
    from whorl.scores import to_json

    found = find_run(run, out)
    scores = found.scores()
    if as_json:
        print(json.dumps({"run": str(found.path), "config": found.config.tree(), **json.loads(to_json(scores))}))
        return
    print_run(found.path, found.config, scores.steps, scores.summary)
    print_provenance(scores)
    if not scores.finished:
        print("unfinished; repeat the command that began it to resume it")


def find_run(name: str, out: Path) -> Run:
    """The run of that folder, or whose name begins or ends with ``name``."""
    from whorl.runs.run import Run

    if (Path(name) / "config.toml").is_file():
        return Run.open(Path(name))
    entries = sorted(e for e in out.iterdir() if e.is_dir()) if out.is_dir() else []
    matching = [e for e in entries if e.name.startswith(name) or e.name.endswith(name)]
    if len(matching) == 1:
        return Run.open(matching[0])
    if matching:
        raise WhorlError(f"{name!r} could be {', '.join(e.name for e in matching)}; write more of the name")
    raise WhorlError(f"no run {name!r} in {out}; `whorl list` lists the stored runs")


def print_run(path: Path, config: ExperimentConfig, steps: Sequence[TaskScores], summary: Summary) -> None:
    """Print a run as a table."""
    from whorl.scores import NAMES

    about = (
        f"{config.data.name}, {config.method.name}, labels {config.labels}, recipe {config.recipe}, seed {config.seed}"
    )
    print(f"{about}\n{path}")
    own = list(dict.fromkeys(key for step in steps for key in step.method))
    keys = [key for key in NAMES if key != "acc5_plain" and any(step.score(key) is not None for step in steps)]
    shown = table("task", "classes", *[NAMES[key].short for key in keys], *own, "seconds", "images/s")
    for step in steps:
        rate = "–" if step.images_per_second is None else f"{step.images_per_second:.0f}"
        numbers = [number(step.score(key)) for key in keys] + [number(step.method.get(key)) for key in own]
        shown.add_row(str(step.task), str(step.classes), *numbers, f"{step.seconds:.1f}", rate)
    print_whole(shown)
    if not steps:
        return
    if config.labels == "given":
        print(f"plain accuracy, as supervised rows are printed: Avg {number(summary.avg_plain)}", end="   ")
        print(f"Last {number(summary.last_plain)}")
    words = {
        "Avg (tasks 2 on)": summary.avg,
        "Last": summary.last,
        "Avg with task 1": summary.avg_with_first,
        "forgetting": summary.forgetting,
    }
    print("   ".join(f"{word} {number(value)}" for word, value in words.items()))


def print_provenance(scores: RunScores) -> None:
    """Print where and when the run was computed, one line per session."""
    if scores.unrecorded:
        print(f"{_tasks(scores.unrecorded)}: computed by a version of whorl that did not record it")
    for part in scores.provenance:
        made = f"whorl {part.version}, torch {part.torch}, Python {part.python}, {part.device}"
        print(f"{_tasks(part.tasks)}: {part.started} to {part.finished}, {made}, {count(part.threads, 'thread')}")


def _tasks(numbers: Sequence[int]) -> str:
    words = "task " if len(numbers) == 1 else "tasks "
    return words + ", ".join(map(str, numbers)) if numbers else "part of a task"


def _head(run: Run, scores: RunScores) -> dict[str, object]:
    summary = scores.summary
    head = {"run": str(run.path), "tasks": len(scores.steps), "finished": scores.finished}
    return {**head, "avg": summary.avg, "last": summary.last}


def table(*columns: str, left: Sequence[str] = ("run", "method", "labels", "state")) -> Table:
    """A table for the terminal; columns in ``left`` are aligned to the left."""
    made = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return made


def print_whole(made: Table) -> None:
    """Print a table on stdout. In a narrow terminal its lines are wrapped, but no number is cut."""
    screen = console()
    needed = screen.measure(made, options=screen.options.update(max_width=10**6)).maximum
    screen.width = max(needed, screen.width)
    screen.print(made)


def console() -> Console:
    """A console for stdout, wide enough for every column where stdout is not a terminal."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=200)
