"""Prints the plan of a grid before anything is run."""

from __future__ import annotations

import torch

from whorl.cli.flags import ReproduceFlags
from whorl.cli.lines import say
from whorl.errors import count
from whorl.grid.queue import Plan
from whorl.papers import Paper
from whorl.papers.jobs import Prepared
from whorl.progress import duration
from whorl.runtime import Runtime, threads_for
from whorl.speed import measure

MEASURE_SECONDS = 1.5
"""How long training, and then feature extraction, are timed to estimate the duration."""


def print_plan(paper: Paper, instead: str | None, prepared: Prepared, planned: Plan, recipe: str) -> None:
    """Print the data, the cells and the runs of a plan."""
    images = ", ".join(f"{name} ({size}×{size})" for name, size in prepared.sizes.items()) or "none"
    say(f"{paper.authors} {paper.year}: {paper.title}")
    place = f", in place of {' and '.join(paper.data)}" if instead else ""
    say(f"data      {images}{place}")
    say(f"recipe    {recipe}")
    need = "needs" if prepared.cells == 1 else "need"
    say(f"plan      {count(prepared.cells, 'cell')} {need} {count(len(planned.jobs), 'run')}")
    for part, cells, runs in prepared.parts:
        say(f"          {part:9} {count(cells, 'cell'):>10}, {count(runs, 'run'):>9}")
    begun = f", {len(planned.begun)} begun" if planned.begun else ""
    say(f"done      {count(len(planned.finished), 'run')} finished{begun}, {len(planned.open)} to do")
    if planned.open:
        total = sum(sum(job.passes[tasks:]) for job, tasks in planned.remaining())
        training, reusing = len(planned.training_task1), len(planned.reusing_task1)
        shared = f"task 1 is trained in {count(training, 'run')} and reused by {reusing}"
        say(f"shared    {shared}, which saves {_millions(planned.saved)} image passes")
        say(f"work      {_millions(total)} image passes")
    for reason, needs in prepared.left_out.items():
        missing = {(need.cell.part, need.cell.name, need.cell.column) for need in needs}
        say(ReproduceFlags.translate(f"left out  {count(len(missing), 'cell')}, such as {needs[0].name}: {reason}"))


def _millions(images: int) -> str:
    return f"{images / 1e6:.2f} million" if images >= 10_000 else str(images)


def print_time(prepared: Prepared, planned: Plan, runtime: Runtime, jobs: int, threads: int) -> None:
    """Print the estimated duration, from a few seconds of measurement on this machine."""
    if not planned.open:
        return
    torch.set_num_threads(threads)
    rates: dict[tuple[str, int, str], tuple[float, float]] = {}
    each: list[float] = []
    for job, finished in planned.remaining():
        config = job.config
        arch, size, precision = net = config.net.arch, prepared.sizes[config.data.name], config.precision
        if net not in rates:
            with threads_for(arch):
                rates[net] = measure(arch, size, runtime.at(precision), MEASURE_SECONDS)
        train, extract = rates[net]
        later = sum(job.passes[max(finished, 1) :])
        each.append(config.train.pixels * (sum(job.passes[finished:]) / train + later / extract))
    seconds = max(sum(each) / jobs, *each)
    speeds = "; ".join(
        f"{arch} {size}×{size} {precision}: {train:.0f} images/s"
        for (arch, size, precision), (train, _) in rates.items()
    )
    parallel = f"{jobs} jobs" if jobs > 1 else "one job"
    say(f"time      about {duration(seconds)} of training with {parallel} ({speeds} per job, measured now)")
