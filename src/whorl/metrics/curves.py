"""One number for a whole run. Each has its own name, because mixing them up is the field's oldest mistake."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def avg(accs: Sequence[float]) -> float | None:
    """The paper's Avg: the mean accuracy after tasks 2..N, the first task left out. None with a single task."""
    return fmean(accs[1:]) if len(accs) > 1 else None


def avg_with_first(accs: Sequence[float]) -> float:
    """The mean accuracy after tasks 1..N, as most of the supervised literature prints it."""
    return fmean(accs)


def last(accs: Sequence[float]) -> float:
    """The paper's Last: the accuracy after the last task."""
    return accs[-1]


def forgetting(per_task_history: Sequence[Sequence[float]]) -> float | None:
    """How far old tasks fell: the mean of (best earlier accuracy - accuracy now) over tasks seen before the last step.

    ``per_task_history[i][j]`` is the accuracy on task j after step i, for every j <= i. Negative when old tasks
    gained. None with a single step.
    """
    *earlier, now = per_task_history
    if not earlier:
        return None
    return fmean(max(step[task] for step in earlier[task:]) - now[task] for task in range(len(earlier)))
