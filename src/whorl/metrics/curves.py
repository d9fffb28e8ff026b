"""Summaries of a whole run in one number. The names differ, because papers define "average" differently."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def avg(accs: Sequence[float]) -> float | None:
    """The paper's Avg: the mean accuracy after tasks 2..N, without task 1. None if there is only one task."""
    return fmean(accs[1:]) if len(accs) > 1 else None


def avg_with_first(accs: Sequence[float]) -> float:
    """The mean accuracy after tasks 1..N, as reported in most of the supervised literature."""
    return fmean(accs)


def last(accs: Sequence[float]) -> float:
    """The paper's Last: the accuracy after the last task."""
    return accs[-1]


def forgetting(per_task_history: Sequence[Sequence[float]]) -> float | None:
    """Mean of (best earlier accuracy - current accuracy) over all tasks before the last one.

    ``per_task_history[i][j]`` is the accuracy on task j after task i was learned, for every j <= i. The value is
    negative if the old tasks improved, and None if there is only one task.
    """
    *earlier, now = per_task_history
    if not earlier:
        return None
    return fmean(max(step[task] for step in earlier[task:]) - now[task] for task in range(len(earlier)))
