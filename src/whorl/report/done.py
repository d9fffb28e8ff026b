"""The runs of a folder, as far as a report needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from whorl.config import Config
from whorl.errors import WhorlError
from whorl.papers.cells import flat
from whorl.reporter import Record
from whorl.runs.store import Run, stored


@dataclass(frozen=True, eq=False)
class Done:
    """A stored run, as far as it has come."""

    path: Path
    config: Config
    steps: list[Record]

    @property
    def name(self) -> str:
        """Its folder's."""
        return self.path.name

    @cached_property
    def values(self) -> dict[str, str]:
        """The config's values by dotted key."""
        return flat(self.config.tree())


@dataclass(frozen=True)
class Store:
    """What lies in a folder of runs."""

    finished: list[Done]
    unfinished: list[Done]
    left_out: list[str]
    """A line on each folder that cannot be read as a run."""


def read(runs: Path) -> Store:
    """Every run in the folder ``runs``."""
    found, left_out = stored(runs)
    store = Store([], [], left_out)
    for run, scores in found:
        try:
            done = _done(run, scores)
        except WhorlError as error:
            left_out.append(str(error))
            continue
        (store.finished if scores["finished"] is True and done.steps else store.unfinished).append(done)
    return store


def opened(run: Run) -> Done:
    """One run that is there."""
    return _done(run, run.scores())


def _done(run: Run, scores: Record) -> Done:
    if not all(isinstance(step, dict) for step in scores["steps"]):
        raise WhorlError(
            f"{run.path / 'scores.json'} has steps that are not records; start over with --fresh, or remove the folder"
        )
    return Done(run.path, run.config, scores["steps"])
