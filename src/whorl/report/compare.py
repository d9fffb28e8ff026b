"""Any runs beside each other: where their configs differ, and one score after each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whorl.errors import WhorlError, unknown
from whorl.metrics import curves
from whorl.report import plots
from whorl.report.done import Done
from whorl.report.measure import curve, finite, one

SCORES = {
    "acc": "ACC", "acc_plain": "plain accuracy", "acc5": "top-5 ACC", "nmi": "NMI", "ari": "ARI", "acc_fc": "ACC of fc",
    "acc_nme": "ACC of nme", "label_acc": "accuracy of pseudo labels",
}  # fmt: skip
_TELLING = ("method.name", "labels", "data.name", "stream.step", "pseudo.features", "pseudo.refresh", "recipe", "seed")
"""What a run is best told by, first."""


@dataclass(frozen=True)
class Comparison:
    """Some runs and what sets them apart."""

    runs: tuple[Done, ...]
    score: str

    @property
    def differing(self) -> dict[str, list[str]]:
        """The config's values that are not the same in all runs, by dotted key, one for each run."""
        keys = sorted({key for run in self.runs for key in run.values})
        found = {key: [run.values.get(key, "–") for run in self.runs] for key in keys}
        return {key: values for key, values in found.items() if len(set(values)) > 1}

    @property
    def after(self) -> dict[int, list[float | None]]:
        """The score after each task, one for each run; None where it has none."""
        found = [curve(run, self.score) for run in self.runs]
        tasks = max(map(len, found))
        padded = [values + [None] * (tasks - len(values)) for values in found]
        return {task: list(values) for task, values in enumerate(zip(*padded, strict=True), 1)}

    @property
    def summary(self) -> dict[str, list[float | None]]:
        """Avg and Last of the score, and forgetting, which is one of ACC."""
        found = [curve(run, self.score) for run in self.runs]
        numbers = {
            metric: [None if isinstance(value := one(values, metric), str) else value for values in found]
            for metric in ("avg", "last")
        }
        return {**numbers, "forgetting": [_forgetting(run) for run in self.runs]}

    @property
    def folders(self) -> list[str]:
        """The runs by name; with the way to them where a name is there twice, in different stores."""
        names = [run.name for run in self.runs]
        return names if len(set(names)) == len(names) else [str(run.path) for run in self.runs]

    @property
    def names(self) -> list[str]:
        """The runs by their numbers and the first things that set them apart."""
        keys = sorted(self.differing, key=lambda key: (_TELLING.index(key) if key in _TELLING else len(_TELLING), key))
        short = _telling({key: self.differing[key] for key in keys if max(map(len, self.differing[key])) <= 16})
        texts = [[_said(key, value) for value in self.differing[key]] for key in short]
        words = zip(*texts, strict=True) if texts else [()] * len(self.runs)
        return [f"{number} {', '.join(found)}".strip() for number, found in enumerate(words, 1)]

    def records(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        return {
            "score": self.score,
            "runs": self.folders,
            "differing": self.differing,
            "after": {str(task): values for task, values in self.after.items()},
            **self.summary,
        }

    def figure(self) -> Any:
        """The curves over the classes seen."""
        lines = []
        for run, name in zip(self.runs, self.names, strict=True):
            both = zip((step.get("classes") for step in run.steps), curve(run, self.score), strict=True)
            found = [(x, y) for x, y in both if isinstance(x, int) and y is not None]
            lines.append(plots.Line(name, [x for x, _ in found], [y for _, y in found]))
        return plots.panels(
            [plots.Panel("", lines)], "classes seen", SCORES[self.score], size=(5.6, 3.4), ground="white"
        )


def comparison(runs: Sequence[Done], score: str) -> Comparison:
    """Check that there is something to compare."""
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    if len(runs) < 2:
        raise WhorlError("name at least two runs to compare; `whorl list` shows the runs there are")
    folders = [run.path.resolve() for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        if folders.count(folder) > 1:
            raise WhorlError(f"{run.name} is named twice; name another run to compare it with")
        if not run.steps:
            raise WhorlError(f"{run.name} has no finished task to compare; the command that began it goes on with it")
    found = Comparison(tuple(runs), score)
    if all(value is None for values in found.after.values() for value in values):
        raise WhorlError(f"none of these runs has the score {score}")
    return found


def _telling(differing: dict[str, list[str]], most: int = 5) -> list[str]:
    """The first three keys, and what tells apart runs that they do not."""
    chosen = list(differing)[:3]
    for key in list(differing)[3:]:
        apart, more = (len(set(zip(*(differing[k] for k in keys), strict=True))) for keys in (chosen, [*chosen, key]))
        if more > apart and len(chosen) < most:
            chosen.append(key)
    return chosen


def _said(key: str, value: str) -> str:
    word = key.rpartition(".")[2]
    return value if word in ("name", "recipe") else f"{word} {value}"


def _forgetting(run: Done) -> float | None:
    history = [step.get("per_task") for step in run.steps]
    whole = [[v for value in found if (v := finite(value)) is not None] for found in history if isinstance(found, list)]
    if [len(found) for found in whole] != list(range(1, len(history) + 1)):
        return None
    return curves.forgetting(whole)
