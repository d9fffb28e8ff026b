"""``whorl reproduce``: the tables and figures of a paper, from whatever is there already to the report."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whorl.errors import WhorlError

if TYPE_CHECKING:
    from whorl.config import DataConfig
    from whorl.data.source import Dataset
    from whorl.papers import Paper
    from whorl.papers.choose import Need
    from whorl.papers.jobs import Prepared
    from whorl.runs.grid import Plan, State

MOST_JOBS = 8
"""Default jobs on machines with many cores; each holds the data and a copy of torch."""

Opt = typer.Option


def reproduce(
    paper: Annotated[str, typer.Argument(help="Which paper: he2021.")],
    table: Annotated[list[int] | None, Opt(help="Only this table. Repeatable, as all filters are.")] = None,
    figure: Annotated[list[int] | None, Opt(help="Only this figure.")] = None,
    data: Annotated[list[str] | None, Opt(help="Only this data set; or digits, in place of all of them.")] = None,
    method: Annotated[list[str] | None, Opt(help="Only this method.")] = None,
    step: Annotated[list[int] | None, Opt(help="Only columns of this step size.")] = None,
    labels: Annotated[str | None, Opt(help="Only runs with labels (given) or without (pseudo).")] = None,
    seeds: Annotated[int | None, Opt(min=1, help="Seeds 0 to N-1. [default: as the paper, 5; recipe demo: 2]")] = None,
    recipe: Annotated[str | None, Opt(help="paper, fast or demo. [default: paper; digits: demo]")] = None,
    resize: Annotated[int | None, Opt(help="Side of the images in pixels.")] = None,
    per_class: Annotated[int | None, Opt(help="At most so many training images a class.")] = None,
    tasks: Annotated[int | None, Opt(help="Stop after so many tasks.")] = None,
    set_: Annotated[list[str] | None, Opt("--set", help="Any constant, for all runs, e.g. train.epochs=6.")] = None,
    data_dir: Annotated[list[str] | None, Opt(help="Where the data lie: DIR, or NAME=DIR for each of several.")] = None,
    jobs: Annotated[int | None, Opt(min=1, help="Runs at a time. [default: one a core, at most 8; on a GPU 1]")] = None,
    out: Annotated[Path, Opt(help="Where runs are stored.")] = Path("runs"),
    report: Annotated[Path, Opt(help="Where the report is written.")] = Path("report"),
    dry_run: Annotated[bool, Opt("--dry-run", help="Print the plan and stop.")] = False,
    device: Annotated[str, Opt(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    compile_: Annotated[bool, Opt("--compile", help="Compile the network; pays off in long runs.")] = False,
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False,
) -> None:
    """Run every cell of a paper's tables and figures that is not there yet, and report.

    The same command again goes on where it stopped, and tries again what failed.
    """
    from whorl import papers
    from whorl.cli.gridplan import print_plan, print_time
    from whorl.config import merge, parse_override
    from whorl.papers.cells import check_budget
    from whorl.papers.choose import Choice, chosen, stand_in
    from whorl.recipes import override
    from whorl.runs.grid import plan
    from whorl.runtime import Runtime, find_device

    found = papers.load(paper)
    choice = Choice(
        tuple(table or ()),
        tuple(figure or ()),
        tuple(data or ()),
        tuple(method or ()),
        tuple(step or ()),
        _labels(labels),
    )
    needs = chosen(found, choice)
    instead = stand_in(found, choice.data)
    recipe = _recipe(recipe or ("demo" if instead else "paper"))
    seeds = seeds or (2 if recipe == "demo" else found.seeds)
    runtime = Runtime(find_device(device), compile=compile_)
    jobs = jobs or (min(os.cpu_count() or 1, MOST_JOBS) if runtime.device == "cpu" else 1)
    directories = _directories(data_dir or [], choice.data or found.data)
    budget = merge(
        found.stand_ins[instead].budget if instead else {},
        override(("data.resize", resize), ("data.per_class", per_class), ("stream.tasks", tasks)),
        *map(parse_override, set_ or []),
    )
    check_budget(budget)
    prepared = _prepare(found, needs, recipe, budget, seeds, directories)
    planned = plan(prepared.jobs, out)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    if not prepared.jobs and len(prepared.left_out) == 1:
        raise WhorlError(*prepared.left_out)
    print_plan(found, instead, prepared, planned, f"{recipe}, {seeds} seed{'s' if seeds > 1 else ''}")
    if not prepared.jobs:
        raise WhorlError("none of these runs can be made; the reasons stand above")
    print_time(prepared, planned, runtime, jobs, threads)
    if dry_run:
        return
    _require_folder(out, "--out")
    _require_folder(report, "--report")
    failed = False
    if planned.open:
        setup = {"threads": threads, "runtime": vars(runtime), "data_dirs": directories}
        failed = _execute(planned, out, setup, jobs, quiet)
    _report(found, out, report)
    if failed:
        raise typer.Exit(1)


def _labels(labels: str | None) -> str | None:
    from whorl.errors import unknown

    if labels not in (None, "given", "pseudo"):
        raise unknown("labels", str(labels), ("given", "pseudo"))
    return labels


def _recipe(recipe: str) -> str:
    from whorl.errors import unknown
    from whorl.recipes import RECIPES

    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    return recipe


def _directories(said: list[str], names: Sequence[str]) -> dict[str, str]:
    """Where each data set lies. A folder without a name is for all of them that are asked for."""
    out: dict[str, str] = {}
    for word in said:
        name, equals, folder = word.partition("=")
        if equals and name in names:
            out[name] = str(Path(folder).resolve())
        else:
            out |= {each: str(Path(word).resolve()) for each in names if each not in out}
    return out


def _require_folder(path: Path, flag: str) -> None:
    """Say now, and not after hours, that nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WhorlError(f"cannot make the folder {path}: {error.strerror}; choose another {flag}") from None
    if not os.access(path, os.W_OK):
        raise WhorlError(f"cannot write to {path}; choose another {flag}")


def _prepare(
    paper: Paper, needs: list[Need], recipe: str, budget: dict[str, Any], seeds: int, directories: dict[str, str]
) -> Prepared:
    from whorl.data.configured import load_configured
    from whorl.papers.jobs import prepare

    def images(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        where = directories.get(wanted.name)
        return load_configured(
            wanted, Path(where) if where else None, False, 2, lambda line: print(line, file=sys.stderr)
        )

    return prepare(paper, needs, recipe, budget, range(seeds), images)


def _execute(planned: Plan, out: Path, setup: dict[str, Any], jobs: int, quiet: bool) -> bool:
    """Run what is open; True where something failed."""
    from whorl.cli.gridview import view
    from whorl.runs.grid import execute

    try:
        with view(planned, quiet) as shown:
            state = execute(planned, out, setup, jobs, shown)
    except KeyboardInterrupt:
        print(f"whorl: stopped; to go on: {shlex.join(['whorl', *sys.argv[1:]])}", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"finished  {len(planned.finished) + len(state.finished)} of {len(planned.jobs)} runs")
    _print_failures(state)
    return bool(state.failed)


def _print_failures(state: State) -> None:
    for job, reason in state.failed.values():
        print(f"failed    {job.name}: {reason}", file=sys.stderr)
    if state.failed:
        print(f"whorl: {len(state.failed)} runs failed; the same command tries them again", file=sys.stderr)


def _report(paper: Paper, runs: Path, out: Path) -> None:
    from whorl.cli.report import print_report
    from whorl.report.paper import write

    print_report(write(paper, runs, out), out)
