"""Checkpoints: the state of a learner, or its position inside a step, as safetensors files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.runs.files import START_OVER, nest, read_tensors, unnest, write_tensors
from whorl.scores import Provenance
from whorl.state import State
from whorl.training import Halt
from whorl.types import Labelling

FORMAT = 2


@dataclass(frozen=True)
class Spent:
    """What a task has cost so far, over all sessions."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    images: int = 0
    sessions: tuple[Provenance, ...] = ()
    """Where its epochs were computed."""


class Position(BaseModel):
    """The header of an epoch file."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    format: int = 1
    task: int
    phase: int
    epoch: int
    starts: int
    known: int = 0
    new: int = 0
    log: int
    """Length of the log when the epoch was saved."""
    seconds: float
    training_seconds: float
    images: int
    sessions: tuple[Provenance, ...] = ()


def state_header(state: State) -> dict[str, object]:
    """The part of a state that is not tensors."""
    return {
        "format": FORMAT,
        "sizes": list(state.sizes),
        "names": list(state.names),
        "inputs": asdict(state.inputs),
    }


class StateHeader(BaseModel):
    """What :func:`state_header` writes; older files have none of it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    format: int = 1
    sizes: tuple[int, ...] = ()
    names: tuple[str | int, ...] = ()
    inputs: Inputs | None = None


def save_task(folder: Path, number: int, state: State, labels: Labelling) -> None:
    """Write the files of a finished task: the model and the labels it was learned with, then the exemplars."""
    tensors = nest("model", state.model) | {"labels": torch.from_numpy(labels.ids)}
    write_tensors(folder / f"task-{number:02}.safetensors", tensors, state_header(state))
    memory = dict(state.memory)
    if state.means is not None:
        memory["means"] = torch.from_numpy(state.means)
    write_tensors(folder / f"memory-{number:02}.safetensors", memory)


def load_task(folder: Path, number: int, inputs: Inputs) -> State:
    """The state after task ``number``. Files of format 1 lack the input preparation, which ``inputs`` replaces."""
    model, header = load_model(folder, number)
    initial = model if number == 1 else load_model(folder, 1)[0]
    path = folder / f"memory-{number:02}.safetensors"
    memory, _ = read_tensors(path)
    with belonging(path):
        means = memory.pop("means").numpy() if "means" in memory else None
        memory = {name: memory[name] for name in ("images", "labels", "tasks")}
    sizes = header.sizes or _sizes(folder, number)
    return State(model, initial, memory, means, sizes, header.names, header.inputs or inputs)


def load_model(folder: Path, task: int) -> tuple[dict[str, Tensor], StateHeader]:
    """The model after a task, and the header of its file."""
    path = folder / f"task-{task:02}.safetensors"
    tensors, about = read_tensors(path)
    with belonging(path):
        model = unnest("model", tensors)
        model["head.weight"]
        return model, StateHeader.model_validate(about)


def _sizes(folder: Path, number: int) -> tuple[int, ...]:
    """The number of new classes of each task, which files of format 1 do not store: how much the head has grown."""
    classes = [len(load_model(folder, task)[0]["head.weight"]) for task in range(1, number + 1)]
    return tuple(after - before for before, after in pairwise([0, *classes]))


def save_epoch(path: Path, task: int, halt: Halt, spent: Spent, log: int) -> None:
    """Write the position inside a task."""
    tensors = {"labels": torch.from_numpy(halt.labels.ids)}
    tensors |= nest("model", halt.model) | nest("optimiser", halt.optimiser)
    for number, start in enumerate(halt.starts):
        tensors |= nest(f"start.{number}", start)
    about = Position(
        format=FORMAT,
        task=task,
        phase=halt.phase,
        epoch=halt.epoch,
        starts=len(halt.starts),
        known=halt.labels.known,
        new=halt.labels.new,
        log=log,
        **asdict(spent),
    )
    write_tensors(path, tensors, about.model_dump())


def load_epoch(path: Path) -> tuple[Position, Halt | None, Spent]:
    """The position in an epoch file. A file of format 1 cannot be continued from: its halt is None."""
    tensors, about = read_tensors(path)
    with belonging(path):
        where = Position.model_validate(about)
        spent = Spent(where.seconds, where.training_seconds, where.images, where.sessions)
        if where.format < FORMAT:
            return where, None, Spent()
        if where.phase >= where.starts:
            raise WhorlError(f"{path} does not belong to this run (no start of its phase); {START_OVER}")
        labels = Labelling(tensors["labels"].numpy().astype(np.int64), where.known, where.new)
        starts = tuple(unnest(f"start.{number}", tensors) for number in range(where.starts))
        model, optimiser = unnest("model", tensors), unnest("optimiser", tensors)
        return where, Halt(where.phase, where.epoch, labels, model, optimiser, starts), spent


@contextmanager
def belonging(path: Path, advice: str = START_OVER) -> Iterator[None]:
    """Report missing tensors and damaged headers as one line about the file."""
    try:
        yield
    except KeyError as error:
        raise WhorlError(f"{path} does not belong here (no {error}); {advice}") from None
    except ValidationError as error:
        raise WhorlError(f"{path} is damaged ({error.errors()[0]['msg']}); {advice}") from None
