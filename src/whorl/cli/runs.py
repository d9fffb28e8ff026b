"""``whorl list`` and ``whorl show``: the stored runs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli import complete
from whorl.cli.flags import RunFlags
from whorl.cli.lines import say, say_json, table
from whorl.errors import WhorlError, count
from whorl.known import is_pretrained
from whorl.report.text import number

if TYPE_CHECKING:
    from whorl.config import ExperimentConfig
    from whorl.runs.run import Run
    from whorl.scores import RunScores, Summary, TaskScores


def list_runs(
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the stored runs."""
    if not out.is_dir():
        raise WhorlError(f"there is no folder {out} with runs in it; `whorl run` and `whorl reproduce` create it")
    from whorl.runs.run import stored

    rows, left_out = stored(out)
    for line in left_out:
        RunFlags.notify(f"left out: {line}")
    if as_json:
        say_json([_head(run, scores) for run, scores in rows])
        return
    found: list[tuple[str, ...]] = []
    for run, scores in rows:
        state, summary = "finished" if scores.finished else "unfinished", scores.summary
        about = run.path.name, run.config.method.name, run.config.labels_said, str(len(scores.steps))
        found.append((*about, number(summary.avg), number(summary.last), state))
    table(
        ("run", "method", "labels", "tasks", "avg", "last", "state"),
        found,
        left=("run", "method", "labels", "state"),
        drop=("labels", "method", "tasks", "state"),  # labels and method are part of the name
    )


def show(
    run: Annotated[
        str, typer.Argument(autocompletion=complete.runs, help="A run's folder, or the beginning or end of its name.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print everything stored as one JSON document.")] = False,
) -> None:
    """Show one run (changed settings, scores after each task, where it was computed), and check all its files."""
    found = find_run(run, out)
    from whorl.runs.verify import damage
    from whorl.scores import to_json

    damaged = damage(found)
    scores = _readable_scores(found)
    if as_json:
        known = {} if scores is None else json.loads(to_json(scores))
        say_json({"run": str(found.path), "config": found.config.tree(), **known})
    else:
        _print_stored(found, scores)
    for line in damaged:
        RunFlags.notify(f"whorl: {line}")
    if damaged:
        raise typer.Exit(2)


def _readable_scores(run: Run) -> RunScores | None:
    """The scores of a run; None if they are damaged."""
    try:
        return run.scores()
    except WhorlError:
        return None


def _print_stored(run: Run, scores: RunScores | None) -> None:
    """Print the config of a run, and its scores if they can be read."""
    if scores is None:
        print_about(run.path, run.config)
    else:
        print_run(run.path, run.config, scores.steps, scores.summary)
    if changed := _changed(run.config):
        say(f"changed: {changed}")
    if scores is not None:
        if is_pretrained(run.config.net.arch) and scores.steps:
            say(f"network: {_origin(run)}")
        print_provenance(scores)
        if not scores.finished:
            say("unfinished; repeat the command that began it to resume it")


def _origin(run: Run) -> str:
    """Where the pretrained network of a run comes from; its name alone if the file that says so cannot be read."""
    from whorl.runs.checkpoint import load_model

    try:
        return str(load_model(run.path, 1, run.config.hash)[1].origin)
    except WhorlError:
        return run.config.net.arch


def find_run(name: str, out: Path) -> Run:
    """The run of that folder, or whose name begins or ends with ``name``."""
    folder = _folder_of(name, out)
    from whorl.runs.run import Run  # imports torch, which a wrong name should not wait for

    return Run.open(folder)


def _folder_of(name: str, out: Path) -> Path:
    if any(os.path.lexists(Path(name) / file) for file in ("config.toml", "scores.json")):
        return Path(name)
    matching = [e for e in folders(out) if name and (e.name.startswith(name) or e.name.endswith(name))]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise WhorlError(f"{name!r} could be {', '.join(e.name for e in matching)}; write more of the name")
    raise WhorlError(f"no run {name!r} in {out}; `whorl list` lists the stored runs")


def folders(out: Path) -> list[Path]:
    """The folders in ``out``, which may be runs; none if there is no such folder."""
    return sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []


def print_about(path: Path, config: ExperimentConfig) -> None:
    """Print the main settings of a run and its folder."""
    method, labels = config.method.name, config.labels_said
    say(f"{config.data.name}, {method}, labels {labels}, recipe {config.recipe}, seed {config.seed}")
    say(str(path))


def print_run(path: Path, config: ExperimentConfig, steps: Sequence[TaskScores], summary: Summary) -> None:
    """Print a run as a table."""
    from whorl.scores import NAMES

    print_about(path, config)
    own = list(dict.fromkeys(key for step in steps for key in step.method))
    keys = [key for key in NAMES if key != "acc5_plain" and any(step.score(key) is not None for step in steps)]
    rows: list[tuple[str, ...]] = []
    for step in steps:
        rate = "–" if step.images_per_second is None else f"{step.images_per_second:.0f}"
        numbers = [number(step.score(key)) for key in keys] + [number(step.method.get(key)) for key in own]
        rows.append((str(step.task), str(step.classes), *numbers, f"{step.seconds:.1f}", rate))
    table(("task", "classes", *[NAMES[key].short for key in keys], *own, "seconds", "images/s"), rows)
    if not steps:
        return
    if config.labels == "given":
        avg, last = number(summary.avg_plain), number(summary.last_plain)
        say(f"plain accuracy, as supervised rows are printed: Avg {avg}   Last {last}")
    words = {
        "Avg (tasks 2 on)": summary.avg,
        "Last": summary.last,
        "Avg with task 1": summary.avg_with_first,
        "forgetting": summary.forgetting,
    }
    say("   ".join(f"{word} {number(value)}" for word, value in words.items()))


def _changed(config: ExperimentConfig) -> str:
    """The config values that differ from what the data set, the recipe and the method choose."""
    from whorl.recipes import resolve
    from whorl.tree import flat, override

    asked = [
        ("data.name", config.data.name), ("method.name", config.method.name), ("labels", config.labels),
        ("recipe", config.recipe), ("seed", config.seed),
    ]  # fmt: skip
    try:
        usual = resolve(override(*asked))
    except WhorlError:  # data without a usual step
        try:
            usual = resolve(override(*asked, ("stream.step", config.stream.step)))
        except WhorlError:  # a plug-in that is no longer installed
            return ""
    before, now = flat(usual.tree()), flat(config.tree())
    keys = [key for key in now if now[key] != before.get(key) and not key.endswith(".fingerprint")]
    return ", ".join(f"{key} {now[key]}" for key in keys)


def print_provenance(scores: RunScores) -> None:
    """Print where and when the run was computed, one line per session."""
    if scores.unrecorded:
        say(f"{_tasks(scores.unrecorded)}: computed by a version of whorl that did not record it")
    for part in scores.provenance:
        made = f"whorl {part.version}, torch {part.torch}, Python {part.python}, {part.device}"
        say(f"{_tasks(part.tasks)}: {part.started} to {part.finished}, {made}, {count(part.threads, 'thread')}")


def _tasks(numbers: Sequence[int]) -> str:
    words = "task " if len(numbers) == 1 else "tasks "
    return words + ", ".join(map(str, numbers)) if numbers else "part of a task"


def _head(run: Run, scores: RunScores) -> dict[str, object]:
    summary = scores.summary
    head = {"run": str(run.path), "tasks": len(scores.steps), "finished": scores.finished}
    return {**head, "avg": summary.avg, "last": summary.last}
