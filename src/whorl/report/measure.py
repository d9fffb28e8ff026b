"""What runs measured, as a table prints it: mean and deviation over seeds, or why there is no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from whorl.metrics import curves
from whorl.papers import Metric
from whorl.report.done import Done
from whorl.report.gather import Group

NOT_RUN, NOT_PAIRED, ONE_TASK, NOT_STORED = "not run", "not paired", "one task", "not stored"
WHY = {
    NOT_PAIRED: "one of the two runs of a difference is missing, or they share no seed",
    ONE_TASK: "Avg begins with task 2, and the runs have task 1 only",
    NOT_STORED: "the runs were made by a version that did not store this score, or it is not a number",
}
"""What the words in place of a number mean."""


@dataclass(frozen=True)
class Value:
    """A mean over seeds; ``missing`` says why there is none."""

    mean: float | None = None
    sd: float | None = None
    """The sample standard deviation; None with one seed."""
    seeds: tuple[int, ...] = ()
    missing: str = ""

    @classmethod
    def over(cls, by_seed: dict[int, float]) -> Value:
        """Of one number a seed."""
        values = list(by_seed.values())
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, tuple(by_seed))


def score_key(score: str, labels: str) -> str:
    """Where labels were given, identity is the matching, and the number is the plain accuracy (A19)."""
    return f"{score}_plain" if labels == "given" and score in ("acc", "acc5") else score


def curve(run: Done, key: str) -> list[float | None]:
    """A score after each task; None where it is not stored or not a number."""
    return [finite(step.get(key)) for step in run.steps]


def one(values: Sequence[float | None], metric: Metric) -> float | str:
    """Avg or Last of a run (A16), or why there is none."""
    counted = list(values[1:] if metric == "avg" else values[-1:])
    if not counted:
        return ONE_TASK
    whole = [value for value in counted if value is not None]
    if len(whole) < len(counted):
        return NOT_STORED
    found = curves.avg([0.0, *whole]) if metric == "avg" else curves.last(whole)  # Avg leaves out the first value
    assert found is not None, "there are at least two"
    return found


def measured(group: Group | None, score: str, metric: Metric) -> Value:
    """A cell's number over the seeds it was run with."""
    if group is None:
        return Value(missing=NOT_RUN)
    found = _by_seed(group, score, metric)
    values = {seed: value for seed, value in found.items() if not isinstance(value, str)}
    return Value.over(values) if values else Value(missing=_reason(found))


def difference(group: Group | None, base: Group | None, score: str, metric: Metric) -> Value:
    """w/o - w/ (A17), seed by seed."""
    if group is None and base is None:
        return Value(missing=NOT_RUN)
    if group is None or base is None:
        return Value(missing=NOT_PAIRED)
    one, other = _by_seed(group, score, metric), _by_seed(base, score, metric)
    pairs = {seed: (one[seed], other[seed]) for seed in one if seed in other}
    if not pairs:
        return Value(missing=NOT_PAIRED)
    values = {
        seed: a - b for seed, (a, b) in pairs.items() if not isinstance(a, str) and not isinstance(b, str)
    }  # fmt: skip
    return Value.over(values) if values else Value(missing=_reason({**one, **other}))


@dataclass(frozen=True)
class Point:
    """A place on a curve."""

    x: int
    value: Value
    group: Group


def points(group: Group, score: str, from_task: int = 1) -> list[Point]:
    """A score over the classes seen, over seeds."""
    by_classes: dict[int, dict[int, float]] = {}
    for seed, run in group.runs.items():
        values = curve(run, score_key(score, run.config.labels))
        for number, (step, value) in enumerate(zip(run.steps, values, strict=True), 1):
            classes = step.get("classes")
            if number >= from_task and value is not None and isinstance(classes, int):
                by_classes.setdefault(classes, {})[seed] = value
    return [Point(classes, Value.over(values), group) for classes, values in sorted(by_classes.items())]


def _by_seed(group: Group, score: str, metric: Metric) -> dict[int, float | str]:
    return {
        seed: one(curve(run, score_key(score, run.config.labels)), metric) for seed, run in group.runs.items()
    }  # fmt: skip


def _reason(found: dict[int, float | str]) -> str:
    return next(value for value in found.values() if isinstance(value, str))


def finite(value: object) -> float | None:
    """A stored number; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
