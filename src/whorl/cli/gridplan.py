"""Prints the plan of a grid before anything is run."""

from __future__ import annotations

import torch

from whorl.cli.flags import ReproduceFlags
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
    print(f"{paper.authors} {paper.year}: {paper.title}")
    place = f", in place of {' and '.join(paper.data)}" if instead else ""
    print(f"data      {images}{place}")
    print(f"recipe    {recipe}")
    print(f"plan      {prepared.cells} cells need {len(planned.jobs)} runs")
    for part, cells, runs in prepared.parts:
        print(f"          {part:9} {cells:4} cells, {runs:4} runs")
    begun = f", {len(planned.begun)} begun" if planned.begun else ""
    print(f"done      {len(planned.finished)} runs finished{begun}, {len(planned.open)} to do")
    if planned.open:
        total = sum(sum(job.passes[tasks:]) for job, tasks in planned.remaining())
        shared = f"task 1 is trained in {len(planned.training_task1)} runs and reused by {len(planned.reusing_task1)}"
        print(f"shared    {shared}, which saves {_millions(planned.saved)} image passes")
        print(f"work      {_millions(total)} image passes")
    for reason, needs in prepared.left_out.items():
        missing = {(need.cell.part, need.cell.name, need.cell.column) for need in needs}
        print(ReproduceFlags.translate(f"left out  {len(missing)} cells, such as {needs[0].name}: {reason}"))


def _millions(images: int) -> str:
    return f"{images / 1e6:.2f} million" if images >= 10_000 else str(images)


def print_time(prepared: Prepared, planned: Plan, runtime: Runtime, jobs: int, threads: int) -> None:
    """Print the estimated duration, from a few seconds of measurement on this machine."""
    if not planned.open:
        return
    torch.set_num_threads(threads)
    rates: dict[tuple[str, int], tuple[float, float]] = {}
    each: list[float] = []
    for job, finished in planned.remaining():
        net = job.config.net.arch, prepared.sizes[job.config.data.name]
        if net not in rates:
            with threads_for(net[0]):
                rates[net] = measure(*net, runtime, MEASURE_SECONDS)
        train, extract = rates[net]
        later = sum(job.passes[max(finished, 1) :])
        each.append(sum(job.passes[finished:]) / train + later / extract)
    seconds = max(sum(each) / jobs, *each)
    speeds = "; ".join(f"{arch} {size}×{size}: {train:.0f} images/s" for (arch, size), (train, _) in rates.items())
    parallel = f"{jobs} jobs" if jobs > 1 else "one job"
    print(f"time      about {duration(seconds)} of training with {parallel} ({speeds} per job, measured now)")
