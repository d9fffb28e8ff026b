"""The numbers of a table or figure: mean and standard deviation over seeds, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from whorl.metrics import curves
from whorl.papers import Metric
from whorl.papers.filled import Group

NOT_RUN, NOT_PAIRED, ONE_TASK, NOT_STORED = "not run", "not paired", "one task", "not stored"
WHY = {
    NOT_PAIRED: "one of the two runs of a difference is missing, or they share no seed",
    ONE_TASK: "Avg begins with task 2, and the runs have task 1 only",
    NOT_STORED: "the version of whorl that made the runs did not store this score",
}
"""Explanations of the words that replace a number."""


@dataclass(frozen=True)
class Value:
    """A mean over seeds; ``missing`` is the reason if there is none."""

    mean: float | None = None
    sd: float | None = None
    """The sample standard deviation; None with one seed."""
    seeds: tuple[int, ...] = ()
    missing: str = ""


def over_seeds(by_seed: dict[int, float | str], missing: str = NOT_RUN) -> Value:
    """The mean over the seeds that have a number; ``missing`` is the reason if there are no seeds at all."""
    values = {seed: value for seed, value in by_seed.items() if not isinstance(value, str)}
    if not values:
        return Value(missing=str(next(iter(by_seed.values()), missing)))
    return Value(fmean(values.values()), stdev(values.values()) if len(values) > 1 else None, tuple(values))


def score_key(score: str, labels: str) -> str:
    """The stored score that a table shows: with given labels, the plain accuracy (docs/protocol.md, A19)."""
    return f"{score}_plain" if labels == "given" and score in ("acc", "acc5") else score


def summarised(values: Sequence[float | None], metric: Metric) -> float | str:
    """Avg or Last of a curve (docs/protocol.md, A16), or why there is none."""
    counted = list(values[1:] if metric == "avg" else values[-1:])
    if not counted:
        return ONE_TASK
    whole = [value for value in counted if value is not None]
    if len(whole) < len(counted):
        return NOT_STORED
    return curves.avg([0.0, *whole]) or 0.0 if metric == "avg" else whole[-1]  # curves.avg leaves out task 1


def by_seed(group: Group | None, score: str, metric: Metric) -> dict[int, float | str]:
    """Avg or Last of each run."""
    runs = group.runs if group else {}
    return {seed: summarised(run.curve(score_key(score, run.config.labels)), metric) for seed, run in runs.items()}


def measured(group: Group | None, score: str, metric: Metric) -> Value:
    """The number of a cell."""
    return over_seeds(by_seed(group, score, metric))


def difference(group: Group | None, base: Group | None, score: str, metric: Metric) -> Value:
    """The number of a difference, without labels minus with labels (docs/protocol.md, A17), paired by seed."""
    one, other = by_seed(group, score, metric), by_seed(base, score, metric)
    pairs = {seed: (one[seed], other[seed]) for seed in one if seed in other}
    both = {s: a if isinstance(a, str) else b if isinstance(b, str) else a - b for s, (a, b) in pairs.items()}
    return over_seeds(both, NOT_PAIRED if group or base else NOT_RUN)


@dataclass(frozen=True)
class Point:
    """A point of a curve."""

    x: int
    value: Value
    group: Group


def points(group: Group, score: str, from_task: int = 1) -> list[Point]:
    """The mean of a score after each task, over the number of classes seen."""
    found: dict[int, dict[int, float | str]] = {}
    for seed, run in group.runs.items():
        for step in run.scores.steps[from_task - 1 :]:
            value = step.score(score_key(score, run.config.labels))
            if value is not None:
                found.setdefault(step.classes, {})[seed] = value
    return [Point(classes, over_seeds(values), group) for classes, values in sorted(found.items())]
