"""Any runs side by side: where their configs differ, and one score after each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whorl.errors import WhorlError, unknown
from whorl.papers import Metric
from whorl.papers.measure import summarised
from whorl.papers.stored import Done, versions
from whorl.report import plots
from whorl.runs.owned import Owned
from whorl.scores import NAMES

_TELLING = (
    "method.name", "labels", "label_acc", "data.name", "stream.step", "pseudo.features", "pseudo.refresh", "recipe",
    "seed",
)  # fmt: skip
"""The config keys that describe a run best, the most important one first."""


@dataclass(frozen=True)
class Comparison:
    """Some runs and their differences."""

    runs: tuple[Done, ...]
    score: str

    @property
    def differing(self) -> dict[str, list[str]]:
        """The config values that are not the same in all runs: one per run, by dotted key."""
        keys = sorted({key for run in self.runs for key in run.values})
        found = {key: [run.values.get(key, "–") for run in self.runs] for key in keys}
        return {key: values for key, values in found.items() if len(set(values)) > 1}

    @property
    def after(self) -> dict[int, list[float | None]]:
        """The score after each task, one per run; None where a run has none."""
        found = [run.curve(self.score) for run in self.runs]
        tasks = max(map(len, found))
        return {task + 1: [curve[task] if task < len(curve) else None for curve in found] for task in range(tasks)}

    @property
    def summary(self) -> dict[str, list[float | None]]:
        """Avg and Last of the score, and the forgetting of ACC."""
        metrics: tuple[Metric, ...] = ("avg", "last")
        numbers: dict[str, list[float | None]] = {}
        for metric in metrics:
            found = [summarised(run.curve(self.score), metric) for run in self.runs]
            numbers[metric] = [None if isinstance(value, str) else value for value in found]
        return {**numbers, "forgetting": [run.scores.summary.forgetting for run in self.runs]}

    @property
    def versions(self) -> list[list[str]]:
        """The versions of whorl that computed each run."""
        return [versions([run]) for run in self.runs]

    @property
    def folders(self) -> list[str]:
        """The names of the folders, or their paths if two runs of different folders have the same name."""
        names = [run.name for run in self.runs]
        return names if len(set(names)) == len(names) else [str(run.path) for run in self.runs]

    @property
    def names(self) -> list[str]:
        """Each run's number and its most important differences, for the legend."""
        keys = sorted(self.differing, key=lambda key: (_TELLING.index(key) if key in _TELLING else len(_TELLING), key))
        short = _distinguishing({key: self.differing[key] for key in keys if max(map(len, self.differing[key])) <= 16})
        texts = [[_phrase(key, value) for value in self.differing[key]] for key in short]
        words = zip(*texts, strict=True) if texts else [()] * len(self.runs)
        return [f"{number} {', '.join(found)}".strip() for number, found in enumerate(words, 1)]

    def records(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return {
            "score": self.score,
            "runs": self.folders,
            "differing": self.differing,
            "after": {str(task): values for task, values in self.after.items()},
            **self.summary,
            "versions": self.versions,
        }

    def figure(self) -> Any:
        """The curves over the number of classes seen."""
        lines = []
        for run, name in zip(self.runs, self.names, strict=True):
            found = {s.classes: y for s in run.scores.steps if (y := s.score(self.score)) is not None}
            lines.append(plots.Line(name, list(found), list(found.values())))
        panel = plots.Panel("", lines)
        return plots.panels([panel], "classes seen", NAMES[self.score].full, size=(5.6, 3.4), ground="white")

    def draw(self, path: Path) -> None:
        """Write the curves as PNG or SVG. A file that is not whorl's is not replaced."""
        if not path.parent.is_dir():
            raise WhorlError(f"there is no folder {path.parent} to put the plot in")
        figure = self.figure()
        drawn = plots.png(figure) if path.suffix == ".png" else plots.svg(figure).encode()
        Owned(path.parent, "plot").write({path.name: drawn})


def comparison(runs: Sequence[Done], score: str) -> Comparison:
    """A comparison of at least two runs; raises if there is nothing to compare."""
    if score not in NAMES:
        raise unknown("score", score, NAMES)
    if len(runs) < 2:
        raise WhorlError("name at least two runs to compare; `whorl list` lists the stored runs")
    folders = [run.path.resolve() for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        if folders.count(folder) > 1:
            raise WhorlError(f"{run.name} is named twice; name another run to compare it with")
        if not run.scores.steps:
            raise WhorlError(f"{run.name} has no finished task to compare; repeat its command to resume it")
    found = Comparison(tuple(runs), score)
    if all(value is None for values in found.after.values() for value in values):
        raise WhorlError(f"none of these runs has the score {score}")
    return found


def _distinguishing(differing: dict[str, list[str]], most: int = 5) -> list[str]:
    """The three most important keys, and further keys that distinguish runs which are equal in those."""
    chosen = list(differing)[:3]
    for key in list(differing)[3:]:
        apart, more = (len(set(zip(*(differing[k] for k in keys), strict=True))) for keys in (chosen, [*chosen, key]))
        if more > apart and len(chosen) < most:
            chosen.append(key)
    return chosen


def _phrase(key: str, value: str) -> str:
    word = key.rpartition(".")[2]
    return value if word in ("name", "recipe") else f"{word} {value}"
