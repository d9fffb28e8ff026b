"""The scores of a run as one typed record, and the table of their names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.metrics import curves

FORMAT = 2
"""Version of ``scores.json``. Format 1 had no provenance; it is still read."""


@dataclass(frozen=True)
class ScoreName:
    """The names of a score: short for narrow tables, and in full."""

    short: str
    full: str


NAMES: dict[str, ScoreName] = {
    "acc": ScoreName("acc", "ACC"),
    "acc_plain": ScoreName("plain", "plain accuracy"),
    "acc5": ScoreName("top-5", "top-5 ACC"),
    "acc5_plain": ScoreName("plain top-5", "plain top-5 accuracy"),
    "nmi": ScoreName("nmi", "NMI"),
    "ari": ScoreName("ari", "ARI"),
    "acc_fc": ScoreName("fc", "ACC of fc"),
    "acc_nme": ScoreName("nme", "ACC of nme"),
    "acc_ncm": ScoreName("ncm", "ACC of ncm"),
    "label_acc": ScoreName("labels", "accuracy of pseudo labels"),
}
"""The scores that tables, plots and ``whorl compare`` can show."""


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


Share = Annotated[float, Field(ge=-1.001, le=1.001)]
"""A score; rounding may put it a little above 1."""
Count = Annotated[int, Field(ge=1, le=10**6)]
"""The number of a task, or a number of classes."""


class TaskScores(_Record):
    """The scores after one task. A score that was not stored is None.

    The fields are described in :class:`whorl.metrics.scores.Scores`; those that begin with ``label_`` compare the
    pseudo labels of the task with the truth, and ``acc_fc``, ``acc_nme`` and ``acc_ncm`` are ACC by classifier.
    """

    task: Count
    classes: Count
    acc: Share | None = None
    acc_plain: Share | None = None
    acc5: Share | None = None
    acc5_plain: Share | None = None
    nmi: Share | None = None
    ari: Share | None = None
    per_task: tuple[Share, ...] = ()
    acc_anchored: Share | None = None
    acc_trainmap: Share | None = None
    mapping: tuple[int, ...] = ()
    acc_fc: Share | None = None
    acc_nme: Share | None = None
    acc_ncm: Share | None = None
    label_acc: Share | None = None
    label_nmi: Share | None = None
    label_ari: Share | None = None
    label_sizes: tuple[int, ...] | None = None
    method: dict[str, float] = {}
    """Values that the method reports, such as the gamma of WA."""
    taken_from: str | None = None
    """The run whose task 1 was reused instead of trained."""
    networks_from: str | None = None
    """The run whose networks for pseudo labels were reused; their training does not count in ``seconds``."""
    images: int = Field(0, ge=0, lt=2**63)
    """Training images processed, counted once per epoch."""
    seconds: float = Field(0.0, ge=0)
    images_per_second: float | None = Field(None, ge=0)

    def score(self, name: str) -> float | None:
        """The score called ``name`` in :data:`NAMES`."""
        value: float | None = getattr(self, name)
        return value


class Provenance(_Record):
    """Where and when a part of a run was computed."""

    whorl: str
    commit: str | None = None
    """The git commit of the source, with a ``+`` where files were changed; None for an installed package."""
    torch: str
    python: str
    device: str
    threads: int
    started: str
    """UTC, ISO 8601."""
    finished: str
    tasks: tuple[int, ...]
    """The tasks that were finished in this session; empty if it was interrupted in the middle of its only task."""

    @property
    def version(self) -> str:
        """The version of whorl, with its commit where it is known."""
        return f"{self.whorl} ({self.commit})" if self.commit else self.whorl


class Summary(_Record):
    """The numbers that summarise a run."""

    avg: float | None = None
    last: float | None = None
    avg_with_first: float | None = None
    avg_plain: float | None = None
    last_plain: float | None = None
    forgetting: float | None = None

    @classmethod
    def of(cls, tasks: Sequence[TaskScores]) -> Summary:
        """The summary of these tasks; a number is None where a task lacks its score."""
        accs = [task.acc for task in tasks if task.acc is not None]
        plain = [task.acc_plain for task in tasks if task.acc_plain is not None]
        history = [task.per_task for task in tasks]
        return cls(
            avg=curves.avg(accs) if tasks and len(accs) == len(tasks) else None,
            last=tasks[-1].acc if tasks else None,
            avg_with_first=curves.avg_with_first(accs) if tasks and len(accs) == len(tasks) else None,
            avg_plain=curves.avg(plain) if tasks and len(plain) == len(tasks) else None,
            last_plain=tasks[-1].acc_plain if tasks else None,
            forgetting=curves.forgetting(history)
            if tasks and [len(found) for found in history] == list(range(1, len(tasks) + 1))
            else None,
        )


class RunScores(_Record):
    """The content of ``scores.json``: the scores of every finished task, and where they were computed."""

    format: int = FORMAT
    finished: bool = False
    steps: tuple[TaskScores, ...] = ()
    provenance: tuple[Provenance, ...] = ()

    @model_validator(mode="after")
    def _tasks_in_order(self) -> RunScores:
        if [step.task for step in self.steps] != list(range(1, len(self.steps) + 1)):
            raise ValueError("the tasks are not numbered 1, 2, …")
        return self

    @property
    def summary(self) -> Summary:
        """The numbers that summarise the run."""
        return Summary.of(self.steps)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of whorl that computed the run, each once; ``not recorded`` if a task has no provenance."""
        found = tuple(dict.fromkeys(part.version for part in self.provenance))
        return ("not recorded", *found) if self.unrecorded else found

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """The tasks without provenance: older versions of whorl did not record it."""
        recorded = {task for part in self.provenance for task in part.tasks}
        return tuple(step.task for step in self.steps if step.task not in recorded)


_ALWAYS = {"label_acc", "acc_nme", "acc_trainmap", "images_per_second"}
"""Stored even where they are None."""


def plain(scores: TaskScores) -> dict[str, Any]:
    """The scores of a task as they are stored in JSON; optional scores that are None are left out."""
    dumped = scores.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if value is not None or key in _ALWAYS}


def to_json(scores: RunScores) -> str:
    """The content of ``scores.json``."""
    document = {
        "format": scores.format,
        "finished": scores.finished,
        "steps": [plain(step) for step in scores.steps],
        **scores.summary.model_dump(mode="json"),
        "provenance": [part.model_dump(mode="json") for part in scores.provenance],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def from_json(text: str, name: str) -> RunScores:
    """The scores in the text of a ``scores.json``; ``name`` is what an error calls the file."""
    try:
        return RunScores.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise WhorlError(f"{name} is not a valid file of scores ({reason(error)})") from None
