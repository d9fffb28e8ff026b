"""The plan of a grid in words, before anything is run."""

from __future__ import annotations

import torch

from whorl.cli.progress import duration
from whorl.papers import Paper
from whorl.papers.jobs import Prepared
from whorl.runs.grid import Plan
from whorl.runtime import Runtime, threads_for
from whorl.speed import measure

TRY = 1.5
"""Seconds for which training, and then looking, are tried to foretell the time."""


def print_plan(paper: Paper, instead: str | None, prepared: Prepared, planned: Plan, recipe: str) -> None:
    """What will be done, on stdout."""
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
        total = sum(sum(job.passes[tasks:]) for job, tasks in planned.left())
        shared = f"{len(planned.training)} first tasks to train, {len(planned.taking_over)} to take over"
        print(f"shared    {shared}, which saves {_millions(planned.saved)} image passes")
        print(f"work      {_millions(total)} image passes")
    for reason, needs in prepared.left_out.items():
        missing = {(need.cell.part, need.cell.name, need.cell.column) for need in needs}
        print(f"left out  {len(missing)} cells, such as {needs[0].name}: {reason}")


def _millions(images: int) -> str:
    return f"{images / 1e6:.2f} million" if images >= 10_000 else str(images)


def print_time(prepared: Prepared, planned: Plan, runtime: Runtime, jobs: int, threads: int) -> None:
    """How long it will take, from what this machine does in a few seconds."""
    if not planned.open:
        return
    torch.set_num_threads(threads)
    rates: dict[tuple[str, int], tuple[float, float]] = {}
    each: list[float] = []
    for job, behind in planned.left():
        net = job.config.net.arch, prepared.sizes[job.config.data.name]
        if net not in rates:
            with threads_for(net[0]):
                rates[net] = measure(*net, runtime, TRY)
        train, look = rates[net]
        later = sum(job.passes[max(behind, 1) :])
        each.append(sum(job.passes[behind:]) / train + later / look)
    seconds = max(sum(each) / jobs, *each)
    said = "; ".join(f"{arch} {size}×{size}: {train:.0f} images/s" for (arch, size), (train, _) in rates.items())
    many = f"{jobs} jobs" if jobs > 1 else "one job"
    print(f"time      about {duration(seconds)} of training with {many} ({said} a job, measured now)")
