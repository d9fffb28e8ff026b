"""``whorl reproduce``: makes the runs behind the tables and figures of a paper, and reports them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whorl.cli.flags import ReproduceFlags, command
from whorl.cli.lines import Stopped, interruptible, say, tell
from whorl.errors import WhorlError, count, unknown

if TYPE_CHECKING:
    from whorl.config import ExperimentConfig
    from whorl.data.source import Dataset
    from whorl.grid.messages import Setup
    from whorl.grid.queue import Plan
    from whorl.papers.choose import Choice
    from whorl.papers.jobs import Images
    from whorl.sections import DataConfig
    from whorl.tree import Tree

MOST_JOBS = 8
"""Default number of jobs on machines with many cores; each job holds the data and a copy of torch."""
NOT_DOWNLOADED = (
    "cifar100 is not downloaded yet; the plan is made for the official data, which `whorl data cifar100` downloads"
)


@command(ReproduceFlags)
def reproduce(flags: ReproduceFlags) -> None:
    """Run every cell of a paper's tables and figures that is not stored yet, and write the report.

    The same command again resumes where it stopped, and tries failed runs again.
    """
    from whorl import papers
    from whorl.known import KNOWN
    from whorl.papers.choose import chosen, stand_in

    paper, choice = papers.load(flags.paper), _choice(flags)
    if choice.labels not in (None, "given", "pseudo"):
        raise unknown("labels", choice.labels, ("given", "pseudo"))
    needs, instead = chosen(paper, choice), stand_in(paper, choice.data)
    recipe = flags.recipe or ("demo" if instead else "paper")
    KNOWN["recipe"].require(recipe)
    seeds = flags.seeds or (2 if recipe == "demo" else paper.seeds)
    budget = _budget(flags, paper.stand_ins[instead].budget if instead else {})
    # Only now, when the arguments are checked: these import torch.
    import torch

    from whorl.cli.gridplan import print_plan, print_time
    from whorl.cli.report import print_report, write_report
    from whorl.grid.messages import Setup
    from whorl.grid.queue import plan
    from whorl.papers import manifest
    from whorl.papers.jobs import prepare
    from whorl.report.paper import file_names
    from whorl.runs.files import make_folder
    from whorl.runs.owned import Owned
    from whorl.runs.precision import settled
    from whorl.runtime import Runtime, find_device, threads_per_job

    runtime = Runtime(find_device(flags.device), compile=flags.compile_)
    jobs = flags.jobs or (min(os.cpu_count() or 1, MOST_JOBS) if runtime.device == "cpu" else 1)
    directories = _directories(flags.data_dir or (), choice.data or paper.data)

    def settle(config: ExperimentConfig, data: Dataset) -> ExperimentConfig:
        return settled(config, data, flags.out, runtime, flags.notify)

    threads = threads_per_job(jobs)
    torch.set_num_threads(threads)
    images = _loader(directories, flags.dry_run)
    prepared = prepare(paper, needs, recipe, budget, range(seeds), images, flags.out, settle)
    planned = plan(prepared.jobs, flags.out)
    if not prepared.jobs and len(prepared.left_out) == 1:
        raise WhorlError(*prepared.left_out)
    print_plan(paper, instead, prepared, planned, f"{recipe}, {count(seeds, 'seed')}")
    if not prepared.jobs:
        raise WhorlError("none of these runs can be made; the reasons are printed above")
    print_time(prepared, planned, runtime, jobs, threads)
    if flags.dry_run:
        return
    make_folder(flags.out, "out")
    Owned(flags.report, "report").prepare(file_names(paper))
    manifest.add(flags.out, paper.name, manifest.entries(paper, instead, recipe, budget, prepared))
    setup = Setup(out=str(flags.out), threads=threads, runtime=runtime, data_dirs=directories)
    failed = bool(planned.open) and _execute(planned, setup, jobs, flags.quiet)
    print_report(write_report(paper, flags.out, flags.report, "report"), flags.report)
    if failed:
        raise typer.Exit(1)


def _choice(flags: ReproduceFlags) -> Choice:
    from whorl.papers.choose import Choice

    return Choice(
        tuple(flags.table or ()),
        tuple(flags.figure or ()),
        tuple(flags.data or ()),
        tuple(flags.method or ()),
        tuple(flags.step or ()),
        flags.labels,
    )


def _budget(flags: ReproduceFlags, usual: Tree) -> Tree:
    """The config values for all runs: those of the stand-in data set, then the flags, then ``--set``."""
    from whorl.known import check_asked
    from whorl.papers.cells import check_budget
    from whorl.tree import merge, override, parse_override

    budget = merge(usual, override(*flags.values()), *map(parse_override, flags.set_ or []))
    check_asked(budget)
    check_budget(budget)
    return budget


def _directories(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The folder of each data set. A folder without a name is for every selected data set that has no folder yet."""
    out: dict[str, str] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if equals and name in names:
            out[name] = str(Path(folder).resolve())
        elif equals and not Path(word).exists():
            raise unknown("data set of --data-dir", name, names)
        else:
            out |= {each: str(Path(word).resolve()) for each in names if each not in out}
    return out


def _loader(directories: dict[str, str], dry_run: bool) -> Images:
    """Loads data sets from these folders. A dry run downloads nothing."""
    from whorl.data import DataOptions
    from whorl.data.cifar import ARCHIVE, blank_cifar100
    from whorl.data.configured import load_configured
    from whorl.data.download import cache

    def images(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        where = directories.get(wanted.name)
        if dry_run and where is None and wanted.name == "cifar100":
            where = str(cache() / ARCHIVE)  # with a path, nothing is downloaded
            if not Path(where).exists():
                ReproduceFlags.notify(NOT_DOWNLOADED)
                return wanted, blank_cifar100(DataOptions(wanted.resize, wanted.per_class, wanted.classes))
        return load_configured(wanted, Path(where) if where else None, False, 2, ReproduceFlags.notify)

    return images


def _execute(planned: Plan, setup: Setup, jobs: int, quiet: bool) -> bool:
    """Run the open jobs; True if one failed."""
    from whorl.cli.gridview import view
    from whorl.grid.queue import execute

    try:
        with interruptible(), view(planned, quiet) as shown:
            state = execute(planned, setup, jobs, shown)
    except KeyboardInterrupt:
        raise Stopped(shlex.join(["whorl", *sys.argv[1:]])) from None
    say(f"finished  {len(planned.finished) + len(state.finished)} of {count(len(planned.jobs), 'run')}")
    for job, reason in state.failed.values():
        ReproduceFlags.notify(f"failed    {job.name}: {reason}")
    if state.failed:
        tell(f"whorl: {count(len(state.failed), 'run')} failed; the same command tries them again")
    return bool(state.failed)
