"""``whorl list`` and ``whorl show``: what is stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from whorl.errors import WhorlError
from whorl.report.text import number

if TYPE_CHECKING:
    from whorl.config import Config
    from whorl.runs.store import Run


def list_runs(
    out: Annotated[Path, typer.Option(help="Where runs are stored.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the stored runs."""
    from whorl.runs.store import stored

    rows, left_out = stored(out)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps([{"run": str(run.path), **_head(scores)} for run, scores in rows]))
        return
    shown = table("run", "method", "labels", "tasks", "avg", "last", "state")
    for run, scores in rows:
        state = "finished" if scores["finished"] else "unfinished"
        numbers = [number(scores.get(key)) for key in ("avg", "last")]
        about = run.path.name, run.config.method.name, run.config.labels
        shown.add_row(*about, str(len(scores["steps"])), *numbers, state)
    console().print(shown)


def show(
    run: Annotated[str, typer.Argument(help="A run's folder, or the beginning or end of its name.")],
    out: Annotated[Path, typer.Option(help="Where runs are stored.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print everything stored as one JSON document.")] = False,
) -> None:
    """Show one run: its config, its scores after each task, and the summary."""
    from whorl.evaluate import summary

    found = find_run(run, out)
    scores = found.scores()
    if as_json:
        print(json.dumps({"run": str(found.path), "config": found.config.tree(), **scores}))
        return
    print_run(found.path, found.config, scores["steps"], summary(scores["steps"]))
    if not scores["finished"]:
        print("unfinished; the command that began it goes on with it")


def find_run(name: str, out: Path) -> Run:
    """The run that ``name`` means."""
    from whorl.runs.store import Run

    if (Path(name) / "config.toml").is_file():
        return Run.open(Path(name))
    entries = sorted(e for e in out.iterdir() if e.is_dir()) if out.is_dir() else []
    matching = [e for e in entries if e.name.startswith(name) or e.name.endswith(name)]
    if len(matching) == 1:
        return Run.open(matching[0])
    if matching:
        raise WhorlError(f"{name!r} could be {', '.join(e.name for e in matching)}; say more of the name")
    raise WhorlError(f"no run {name!r} in {out}; `whorl list` shows the runs there are")


def print_run(path: Path, config: Config, steps: Sequence[dict[str, Any]], summary: dict[str, Any]) -> None:
    """A run as a table on stdout."""
    about = (
        f"{config.data.name}, {config.method.name}, labels {config.labels}, recipe {config.recipe}, seed {config.seed}"
    )
    print(f"{about}\n{path}")
    own = list(dict.fromkeys(key for step in steps for key in step.get("method", {})))
    columns = {
        "acc": "acc", "acc_plain": "plain", "acc5": "top-5", "nmi": "nmi", "ari": "ari", "acc_fc": "fc",
        "acc_nme": "nme", "acc_ncm": "ncm", "label_acc": "labels",
    }  # fmt: skip
    keys = [key for key in columns if any(key in step for step in steps)]
    shown = table("task", "classes", *[columns[key] for key in keys], *own, "seconds", "images/s")
    for step in steps:
        rate = "–" if step["images_per_second"] is None else f"{step['images_per_second']:.0f}"
        numbers = [number(step[key]) for key in keys] + [number(step.get("method", {}).get(key)) for key in own]
        shown.add_row(str(step["task"]), str(step["classes"]), *numbers, f"{step['seconds']:.1f}", rate)
    console().print(shown)
    if summary and config.labels == "given":
        print(f"plain accuracy, as supervised rows are printed: Avg {number(summary['avg_plain'])}", end="   ")
        print(f"Last {number(summary['last_plain'])}")
    if summary:
        words = {
            "avg": "Avg (tasks 2 on)",
            "last": "Last",
            "avg_with_first": "Avg with task 1",
            "forgetting": "forgetting",
        }
        print("   ".join(f"{word} {number(summary[key])}" for key, word in words.items()))


def _head(scores: dict[str, Any]) -> dict[str, Any]:
    return {
        "tasks": len(scores["steps"]),
        "finished": scores["finished"],
        "avg": scores.get("avg"),
        "last": scores.get("last"),
    }


def table(*columns: str, left: Sequence[str] = ("run", "method", "labels", "state")) -> Table:
    """A table for the terminal; columns in ``left`` hold words, the others numbers."""
    made = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return made


def console() -> Console:
    """Wide enough for every column where the output is not a terminal."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=200)
