"""``whorl reproduce``: makes the runs behind the tables and figures of a paper, and reports them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.errors import WhorlError, unknown

if TYPE_CHECKING:
    from whorl.config import DataConfig, Tree
    from whorl.data.source import Dataset
    from whorl.grid.messages import Setup
    from whorl.grid.queue import Plan
    from whorl.papers import Paper
    from whorl.papers.choose import Choice, Need
    from whorl.papers.jobs import Prepared

MOST_JOBS = 8
"""Default number of jobs on machines with many cores; each job holds the data and a copy of torch."""

Opt = typer.Option


def reproduce(
    paper: Annotated[str, typer.Argument(help="Which paper: he2021.")],
    table: Annotated[list[int] | None, Opt(help="Only this table. All filters but --labels can be repeated.")] = None,
    figure: Annotated[list[int] | None, Opt(help="Only this figure.")] = None,
    data: Annotated[list[str] | None, Opt(help="Only this data set; digits replaces all of them.")] = None,
    method: Annotated[list[str] | None, Opt(help="Only this method.")] = None,
    step: Annotated[list[int] | None, Opt(help="Only columns of this step size.")] = None,
    labels: Annotated[str | None, Opt(help="Only runs with labels (given) or without (pseudo).")] = None,
    seeds: Annotated[int | None, Opt(min=1, help="Seeds 0 to N-1. [default: as the paper, 5; recipe demo: 2]")] = None,
    recipe: Annotated[str | None, Opt(help="paper, fast or demo. [default: paper; digits: demo]")] = None,
    resize: Annotated[int | None, Opt(help="Side of the images in pixels.")] = None,
    per_class: Annotated[int | None, Opt(help="At most N training images per class.")] = None,
    tasks: Annotated[int | None, Opt(help="Stop after N tasks.")] = None,
    set_: Annotated[list[str] | None, Opt("--set", help="Any config value, for all runs, e.g. train.epochs=6.")] = None,
    data_dir: Annotated[list[str] | None, Opt(help="The folder of the data: DIR, or NAME=DIR for several.")] = None,
    jobs: Annotated[int | None, Opt(min=1, help="Runs at a time. [default: one per core, up to 8; on a GPU 1]")] = None,
    out: Annotated[Path, Opt(help="The folder of runs.")] = Path("runs"),
    report: Annotated[Path, Opt(help="The folder of the report.")] = Path("report"),
    dry_run: Annotated[bool, Opt("--dry-run", help="Print the plan and stop.")] = False,
    device: Annotated[str, Opt(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    compile_: Annotated[bool, Opt("--compile", help="Compile the network, for long runs.")] = False,
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False,
) -> None:
    """Run every cell of a paper's tables and figures that is not stored yet, and write the report.

    The same command again resumes where it stopped, and tries failed runs again.
    """
    from whorl.papers.choose import Choice

    choice = Choice(
        tuple(table or ()), tuple(figure or ()), tuple(data or ()), tuple(method or ()), tuple(step or ()), labels
    )
    budget = _budget(resize, per_class, tasks, set_ or [])
    asked = Asked(paper, choice, seeds, recipe, budget, tuple(data_dir or ()), jobs, out, report)
    _reproduce(asked, device, compile_, dry_run, quiet)


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    paper: str
    choice: Choice
    seeds: int | None
    recipe: str | None
    budget: Tree
    data_dirs: tuple[str, ...]
    jobs: int | None
    out: Path
    report: Path


def _budget(resize: int | None, per_class: int | None, tasks: int | None, overrides: list[str]) -> Tree:
    from whorl.config import merge, parse_override
    from whorl.recipes import override

    limits = override(("data.resize", resize), ("data.per_class", per_class), ("stream.tasks", tasks))
    return merge(limits, *map(parse_override, overrides))


def _reproduce(asked: Asked, device: str, compile_: bool, dry_run: bool, quiet: bool) -> None:
    from whorl import papers
    from whorl.cli.gridplan import print_plan, print_time
    from whorl.config import merge
    from whorl.grid.messages import Setup
    from whorl.grid.queue import plan
    from whorl.papers import manifest
    from whorl.papers.cells import check_budget
    from whorl.papers.choose import chosen, stand_in
    from whorl.recipes import RECIPES
    from whorl.runtime import Runtime, find_device

    paper, choice = papers.load(asked.paper), asked.choice
    _require_known("labels", choice.labels, ("given", "pseudo"))
    needs, instead = chosen(paper, choice), stand_in(paper, choice.data)
    recipe = asked.recipe or ("demo" if instead else "paper")
    _require_known("recipe", recipe, RECIPES)
    seeds = asked.seeds or (2 if recipe == "demo" else paper.seeds)
    runtime = Runtime(find_device(device), compile=compile_)
    jobs = asked.jobs or (min(os.cpu_count() or 1, MOST_JOBS) if runtime.device == "cpu" else 1)
    directories = _directories(asked.data_dirs, choice.data or paper.data)
    budget = merge(paper.stand_ins[instead].budget if instead else {}, asked.budget)
    check_budget(budget)
    prepared = _prepare(paper, needs, recipe, budget, seeds, directories)
    planned = plan(prepared.jobs, asked.out)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    if not prepared.jobs and len(prepared.left_out) == 1:
        raise WhorlError(*prepared.left_out)
    print_plan(paper, instead, prepared, planned, f"{recipe}, {seeds} seed{'s' if seeds > 1 else ''}")
    if not prepared.jobs:
        raise WhorlError("none of these runs can be made; the reasons are printed above")
    print_time(prepared, planned, runtime, jobs, threads)
    if dry_run:
        return
    _require_folder(asked.out, "--out")
    _require_folder(asked.report, "--report")
    manifest.add(asked.out, paper.name, manifest.entries(paper, instead, recipe, budget, prepared))
    setup = Setup(out=str(asked.out), threads=threads, runtime=runtime, data_dirs=directories)
    failed = bool(planned.open) and _execute(planned, setup, jobs, quiet)
    _report(paper, asked.out, asked.report)
    if failed:
        raise typer.Exit(1)


def _require_known(kind: str, name: str | None, known: Iterable[str]) -> None:
    if name is not None and name not in known:
        raise unknown(kind, name, known)


def _directories(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The folder of each data set. A folder without a name is for every selected data set that has no folder yet."""
    out: dict[str, str] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if equals and name in names:
            out[name] = str(Path(folder).resolve())
        else:
            out |= {each: str(Path(word).resolve()) for each in names if each not in out}
    return out


def _require_folder(path: Path, flag: str) -> None:
    """Raise now, and not after hours, if nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WhorlError(f"cannot make the folder {path}: {error.strerror}; choose another {flag}") from None
    if not os.access(path, os.W_OK):
        raise WhorlError(f"cannot write to {path}; choose another {flag}")


def _prepare(
    paper: Paper, needs: list[Need], recipe: str, budget: Tree, seeds: int, directories: dict[str, str]
) -> Prepared:
    from whorl.data.configured import load_configured
    from whorl.papers.jobs import prepare

    def images(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        where = directories.get(wanted.name)
        return load_configured(
            wanted, Path(where) if where else None, False, 2, lambda line: print(line, file=sys.stderr)
        )

    return prepare(paper, needs, recipe, budget, range(seeds), images)


def _execute(planned: Plan, setup: Setup, jobs: int, quiet: bool) -> bool:
    """Run the open jobs; True if one failed."""
    from whorl.cli.gridview import view
    from whorl.grid.queue import execute

    try:
        with view(planned, quiet) as shown:
            state = execute(planned, setup, jobs, shown)
    except KeyboardInterrupt:
        print(f"whorl: stopped; to go on: {shlex.join(['whorl', *sys.argv[1:]])}", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"finished  {len(planned.finished) + len(state.finished)} of {len(planned.jobs)} runs")
    for job, reason in state.failed.values():
        print(f"failed    {job.name}: {reason}", file=sys.stderr)
    if state.failed:
        print(f"whorl: {len(state.failed)} runs failed; the same command tries them again", file=sys.stderr)
    return bool(state.failed)


def _report(paper: Paper, runs: Path, out: Path) -> None:
    from whorl.cli.report import print_report
    from whorl.report.paper import write

    print_report(write(paper, runs, out), out)
