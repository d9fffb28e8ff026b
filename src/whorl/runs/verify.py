"""Checks every file of a run for damage."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ParamSpec

from whorl.errors import WhorlError
from whorl.runs.checkpoint import (
    Header,
    assembled,
    belonging,
    load_epoch,
    load_labels,
    load_model,
    memory_file,
    read_part,
    task_file,
)
from whorl.runs.run import REPAIR_LOG, NewerFormat, Run
from whorl.scores import RunScores

P = ParamSpec("P")
REPAIR_EPOCH = "put back a copy of the file, or resume the run without it: the task starts again from its beginning"
"""What to do about a damaged epoch file."""


def damage(run: Run) -> list[str]:
    """A message for each damaged or missing file of a run. Reads every file completely.

    Another process may be writing the run, so only damage that is found twice is reported.
    """
    found = list(dict.fromkeys(_damage(run)))
    again = set(_damage(run)) if found else set[str]()
    return [line for line in found if line in again]


def _damage(run: Run) -> Iterator[str]:
    scores: RunScores | None = None
    try:
        scores = run.scores()
    except NewerFormat:
        raise
    except WhorlError as error:
        yield str(error)
    if scores is None:
        tasks, memories = _numbers(run, "task"), _numbers(run, "memory")
    else:
        done = len(scores.steps)
        tasks, memories = list(range(1, done + 1)), [done] if done else []
        needed = [*(task_file(run.path, number) for number in tasks), *(memory_file(run.path, n) for n in memories)]
        if scores.finished and not any(map(os.path.lexists, needed)):
            return  # only the results were kept
    yield from _log_damage(run, scores)
    for number in tasks:
        yield from _raised(load_labels, run.path, number, run.config.hash)
    for number in memories:
        yield from _raised(_check_memory, run, number)
    path = run.path / "epoch.safetensors"
    if os.path.lexists(path) and not (scores and scores.finished):
        for line in _raised(load_epoch, path, run.config.hash):
            if os.path.lexists(path):  # otherwise the task was finished meanwhile
                yield f"{line.rpartition('; ')[0]}; {REPAIR_EPOCH}"


def _raised(check: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Iterator[str]:
    """The message of the error that ``check`` raises, if any."""
    try:
        check(*args, **kwargs)
    except WhorlError as error:
        yield str(error)


def _numbers(run: Run, kind: str) -> list[int]:
    """The numbers of the stored files ``kind-NN.safetensors``."""
    words = [path.stem.removeprefix(f"{kind}-") for path in sorted(run.path.glob(f"{kind}-*.safetensors"))]
    return [int(word) for word in words if word.isdecimal()]


def _log_damage(run: Run, scores: RunScores | None) -> Iterator[str]:
    path = run.path / "log.jsonl"
    try:
        records = run.log()
    except WhorlError as error:
        yield str(error)
        return
    if scores is None:
        return
    images = Counter[int]()
    for record in records:
        assert isinstance(record["task"], int)
        assert isinstance(record["images"], int)
        images[record["task"]] += record["images"]
    latest, done = max(images, default=0), len(scores.steps)
    if latest > done + 1:
        yield (
            f"{run.path / 'scores.json'} is missing or too old ({path.name} has epochs of task {latest}, and the "
            f"scores end with task {done}); put back a copy of the file, or repeat the command that made the run"
        )
    for step in scores.steps:
        if images[step.task] < step.images:
            yield f"{path} is missing or incomplete (epochs of task {step.task} are not in it); {REPAIR_LOG}"
            return


def _check_memory(run: Run, number: int) -> None:
    """Raise if a memory file is damaged or does not fit the model of its task."""
    path = memory_file(run.path, number)
    tensors, _ = read_part(path, Header, run.config.hash)
    try:
        model, header = load_model(run.path, number, run.config.hash)
    except WhorlError:
        return  # the message about the task file is enough
    if header.inputs is not None:  # files of format 1 lack it
        with belonging(path):
            assembled(model, model, tensors, header.sizes, header.names, header.inputs)
