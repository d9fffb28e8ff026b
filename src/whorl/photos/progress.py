"""Epochs of a step whose position is stored after each one, so that a killed command goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whorl.errors import WhorlError
from whorl.estimator import Whorl
from whorl.photos.files import LEARNING
from whorl.photos.schema import unwritable
from whorl.regroup import Regrouping
from whorl.runs.checkpoint import Spent, load_epoch, save_epoch
from whorl.training import Halt
from whorl.types import ImageSource


@dataclass(frozen=True, eq=False)
class Lesson:
    """What the estimator learns in one step, as for :meth:`whorl.Whorl.learning`."""

    images: ImageSource
    labels: Sequence[int] | None = None
    new: int | None = None
    mixed: bool = False
    regroup: Regrouping | None = None

    def taught(self, model: Whorl, resume: Halt | None) -> Iterator[Halt]:
        """Learn it; yields the position after each epoch."""
        mixed = self.mixed if self.labels is None else None
        return model.learning(self.images, self.labels, self.new, mixed, regroup=self.regroup, resume=resume)


def epochs(folder: Path, model: Whorl, lesson: Lesson, key: str) -> Iterator[int]:
    """Learn a lesson; yields the number of epochs after each one. ``key`` identifies the step."""
    path = folder / LEARNING / f"{key}.safetensors"
    resume = _stored(path, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    for done, halt in enumerate(lesson.taught(model, resume), 1):
        save_epoch(path, 0, halt, Spent(), 0, key)
        yield done
    finished(folder)


def finished(folder: Path) -> None:
    """Forget the position of a step."""
    shutil.rmtree(folder / LEARNING, ignore_errors=True)


def _stored(path: Path, key: str) -> Halt | None:
    """The position that was stored; None if there is none, or if it is damaged."""
    if not path.exists():
        return None
    try:
        return load_epoch(path, key)[1]
    except WhorlError:
        return None
