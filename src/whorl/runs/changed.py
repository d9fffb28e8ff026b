"""Stored runs that differ from a config only in the content of the data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.runs.run import Run
from whorl.sections import DataConfig


def stored_as(out: Path, config: ExperimentConfig, data: Dataset) -> ExperimentConfig:
    """The config with which an earlier version stored this run below ``out``, if it did; else ``config``.

    Earlier versions identified image files by name and size, and all list files of classes by one word.
    """
    if Run.at(out, config).path.exists():
        return config
    before = config.model_copy(update={"data": earlier_data(config.data, data)})
    return before if Run.at(out, before).path.exists() else config


def all_stored_as(out: Path, config: ExperimentConfig, data: Dataset, seeds: Sequence[int]) -> ExperimentConfig:
    """As :func:`stored_as` for runs that differ in the seed; one that is stored decides for all, so that they agree."""
    seeded = [config.model_copy(update={"seed": seed}) for seed in seeds]
    if any(Run.at(out, each).path.exists() for each in seeded):
        return config
    found = next((before for each in seeded if (before := stored_as(out, each, data)) != each), config)
    return found.model_copy(update={"seed": config.seed})


def earlier_data(found: DataConfig, data: Dataset) -> DataConfig:
    """The config section ``data`` with which earlier versions identified the same data."""
    if not data.earlier_fingerprint:
        return found
    subset = found.subset if found.subset in ("S1", "S2") else "list"
    return found.model_copy(update={"fingerprint": data.earlier_fingerprint, "subset": subset})


def other_data(out: Path, config: ExperimentConfig, data: Dataset) -> str | None:
    """A message for a run that is about to start although a stored one differs only in its data; None if none does."""
    if Run.at(out, config).path.exists():
        return None
    beginning, plain = escape(config.title.removesuffix(config.hash)), _with_data(config, fingerprint="")
    for path in sorted(out.glob(f"{beginning}*")):
        with suppress(WhorlError, OSError):
            run = Run.open(path)
            if _with_data(run.config, fingerprint="") == plain:
                what, how = _difference(len(data.train), _before(run))
                return (
                    f"{path} has the same settings but other data: {what}; this is a new run from task 1; "
                    f"to go on with the stored one, use its data again, for instance by {how}"
                )
    return None


def _difference(now: int, before: int | None) -> tuple[str, str]:
    """How the data differ from those of a stored run with ``before`` training samples, and how to undo it."""
    if now == before:
        return "as many training samples as before, but the contents differ", "putting back the earlier files"
    counts = f"now {now} training samples" + ("" if before is None else f", then {before}")
    return counts, "moving new images elsewhere"


def _with_data(config: ExperimentConfig, **values: str) -> ExperimentConfig:
    return config.model_copy(update={"data": config.data.model_copy(update=values)})


def _before(run: Run) -> int | None:
    """How many training samples a stored run had; None if it has not learned all of them."""
    with suppress(WhorlError):
        scores = run.scores()
        if scores.finished and run.config.stream.tasks is None:
            return sum(map(len, run.labels(len(scores.steps))))
    return None
