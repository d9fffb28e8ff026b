"""The stored runs and their scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from whorl.config import ExperimentConfig
from whorl.runs.run import Run, stored
from whorl.scores import RunScores
from whorl.tree import flat


@dataclass(frozen=True, eq=False)
class Done:
    """A stored run and its scores so far."""

    path: Path
    config: ExperimentConfig
    scores: RunScores

    @classmethod
    def of(cls, run: Run) -> Done:
        """Read the scores of a run."""
        return cls(run.path, run.config, run.scores())

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @cached_property
    def values(self) -> dict[str, str]:
        """The config values by dotted key."""
        return flat(self.config.tree())

    def curve(self, score: str) -> list[float | None]:
        """A score after each task."""
        return [step.score(score) for step in self.scores.steps]


@dataclass(frozen=True)
class Store:
    """The content of a folder of runs."""

    finished: list[Done]
    unfinished: list[Done]
    left_out: list[str]
    """One line about each folder or file that cannot be read."""


def read(runs: Path) -> Store:
    """Every run in the folder ``runs``."""
    found, left_out = stored(runs)
    store = Store([], [], left_out)
    for run, scores in found:
        done = Done(run.path, run.config, scores)
        (store.finished if scores.finished and scores.steps else store.unfinished).append(done)
    return store


def versions(runs: Iterable[Done]) -> list[str]:
    """The versions of whorl that computed these runs, each once and sorted."""
    return sorted({version for run in runs for version in run.scores.versions})
