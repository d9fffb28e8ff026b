"""Stored runs that differ from a config only in the content of the data."""

from __future__ import annotations

from contextlib import suppress
from glob import escape
from pathlib import Path

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.runs.run import Run


def stored_as(out: Path, config: ExperimentConfig, data: Dataset) -> ExperimentConfig:
    """The config with which an earlier version stored this run below ``out``, if it did; else ``config``.

    Earlier versions identified image files by name and size, and all list files of classes by one word.
    """
    if not data.earlier_fingerprint or Run.at(out, config).path.exists():
        return config
    subset = config.data.subset if config.data.subset in ("S1", "S2") else "list"
    before = _with_data(config, fingerprint=data.earlier_fingerprint, subset=subset)
    return before if Run.at(out, before).path.exists() else config


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
