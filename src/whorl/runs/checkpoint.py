"""Checkpoints: the state of a learner, or its position inside a step, as safetensors files.

Each file of a run stores the hash of the run's config. Functions that take it as ``run`` refuse the files of other
runs. Files without a hash, of older versions, are read; an empty ``run`` stores and compares nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.nets.pretrained import Origin
from whorl.runs.files import OWN_FILE, START_OVER, nest, read_tensors, unnest, write_tensors
from whorl.scores import Provenance
from whorl.state import State
from whorl.training import Halt
from whorl.types import FloatArray, Found, IntArray, Labelling

FORMAT = 2
SCALE = "backbone.root_mean_square"
Whole = Annotated[int, Field(ge=0, lt=2**53)]
Seconds = Annotated[float, Field(ge=0)]
Version = Annotated[int, Field(ge=1, le=FORMAT)]
Named = str | Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""The name of a class; numpy holds integers of 64 bits."""


@dataclass(frozen=True)
class Spent:
    """What a task has cost so far, over all sessions."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    images: int = 0
    sessions: tuple[Provenance, ...] = ()
    """Where its epochs were computed."""
    passes: int = 0
    """How much of the estimated work is done: images with their further views, and what was taken from another run."""
    networks_from: str | None = None
    """The run whose networks for pseudo labels were reused."""


class Header(BaseModel):
    """The header of a tensor file. An unknown key means that the file is damaged."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    run: str = ""
    """The hash of the run's config."""


class Position(Header):
    """The header of an epoch file."""

    format: Whole = 1
    task: Whole
    phase: Whole
    epoch: Whole
    starts: Whole
    known: Whole = 0
    new: Whole = 0
    log: Whole
    """Length of the log when the epoch was saved."""
    seconds: Seconds
    training_seconds: Seconds
    images: Whole
    sessions: tuple[Provenance, ...] = ()
    passes: Whole = 0
    """0 in files of earlier versions."""
    networks_from: str | None = None
    found: Found | None = None
    """What was found in a mixed delivery."""


def state_header(state: State) -> dict[str, object]:
    """The part of a state that is not tensors."""
    return {
        "format": FORMAT,
        "sizes": list(state.sizes),
        "names": list(state.names),
        "inputs": asdict(state.inputs),
        **({"origin": asdict(state.origin)} if state.origin else {}),
    }


class StateHeader(Header):
    """What :func:`state_header` writes; older files have none of it."""

    format: Version = 1
    sizes: tuple[Whole, ...] = ()
    names: tuple[Named, ...] = ()
    inputs: Inputs | None = None
    origin: Origin | None = None

    @model_validator(mode="after")
    def _distinct_names(self: Self) -> Self:
        if len(set(self.names)) < len(self.names):
            raise ValueError("two classes have the same name")
        if len({isinstance(name, str) for name in self.names}) > 1:
            raise ValueError("some class names are text and others are numbers")
        return self


H = TypeVar("H", bound=Header)


def read_header(schema: type[H], about: dict[str, Any]) -> H:
    """The header of a file by its schema, without conversions such as from ``true`` to 1."""
    return schema.model_validate_json(json.dumps(about), strict=True)


def read_part(path: Path, schema: type[H], run: str) -> tuple[dict[str, Tensor], H]:
    """The tensors and the header of a file; raises if it is damaged or belongs to another run than ``run``."""
    tensors, about = read_tensors(path)
    with belonging(path):
        found = read_header(schema, about)
    require_run(path, found.run, run)
    return tensors, found


def require_run(path: Path, stored: str, run: str) -> None:
    """Raise if the hash ``stored`` in a file is that of another run."""
    if stored and run and stored != run:
        raise WhorlError(f"{path} belongs to another run (its config has the hash {stored}, not {run}); {OWN_FILE}")


def _about(run: str) -> dict[str, object]:
    return {"run": run} if run else {}


def save_task(folder: Path, number: int, state: State, labels: Labelling, run: str = "") -> None:
    """Write the files of a finished task: the model and the labels it was learned with, then the exemplars."""
    tensors = nest("model", state.model) | {"labels": torch.from_numpy(labels.ids)}
    if number == 1:
        tensors |= nest_all("network", state.networks) | nest("whitening", state.whitening)
    write_tensors(task_file(folder, number), tensors, {**_about(run), **state_header(state)})
    memory = dict(state.memory)
    if state.means is not None:
        memory["means"] = torch.from_numpy(state.means)
    write_tensors(memory_file(folder, number), memory, _about(run))


def task_file(folder: Path, number: int) -> Path:
    """Where the model after a task is stored."""
    return folder / f"task-{number:02}.safetensors"


def memory_file(folder: Path, number: int) -> Path:
    """Where the exemplars after a task are stored."""
    return folder / f"memory-{number:02}.safetensors"


def load_task(folder: Path, number: int, inputs: Inputs, run: str = "") -> State:
    """The state after task ``number``. Files of format 1 lack the input preparation, which ``inputs`` replaces."""
    model, header = load_model(folder, number, run)
    first, _ = _read_task(folder, 1, run)
    sizes = header.sizes or _sizes(folder, number)
    with belonging(task_file(folder, 1)):
        initial, networks = model_of("model", first), unnest_all("network", first)
    path = memory_file(folder, number)
    tensors, _ = read_part(path, Header, run)
    with belonging(path):
        state = assembled(model, initial, tensors, sizes, header.names, header.inputs or inputs)
    return replace(state, networks=networks, whitening=unnest("whitening", first), origin=header.origin)


def assembled(
    model: dict[str, Tensor],
    initial: dict[str, Tensor],
    memory: dict[str, Tensor],
    sizes: tuple[int, ...],
    names: tuple[str | int, ...],
    inputs: Inputs,
) -> State:
    """The state from its stored parts; raises KeyError or ValueError where one is missing or does not fit."""
    classes = len(model["head.weight"])
    images, labels, tasks = memory["images"], numbers(memory, "labels", classes), numbers(memory, "tasks")
    if len(labels):
        require_samples(images, learned_as(inputs, model))
    if not len(images) == len(labels) == len(tasks):
        raise ValueError(f"{len(images)} exemplars have {len(labels)} labels")
    means = _means(memory["means"], model) if "means" in memory else None
    if sum(sizes) != classes or (names and len(names) != classes):
        raise ValueError(f"the model has {classes} classes, not {len(names) or sum(sizes)}")
    stored = {name: memory[name] for name in ("images", "labels", "tasks")}
    return State(model, initial, stored, means, sizes, names, inputs)


def numbers(tensors: dict[str, Tensor], name: str, below: int | None = None) -> IntArray:
    """A stored list of numbers from 0 on; raises ValueError where it is something else."""
    found = tensors[name]
    if found.dtype != torch.int64 or found.ndim != 1:
        raise ValueError(f"{name} is {found.dtype} {tuple(found.shape)}, not a list of integers")
    if len(found) and (found.min() < 0 or (below is not None and found.max() >= below)):
        raise ValueError(f"{name} must be from 0 on" + (f" and below {below}" if below is not None else ""))
    return found.numpy()


def learned_as(inputs: Inputs, model: dict[str, Tensor]) -> Inputs:
    """How a model's samples are stored: as they are, or as features of a frozen backbone, which have a scale."""
    frozen = [name for name in model if name.startswith("backbone.")] == [SCALE]
    return Inputs.vectors(model["head.weight"].shape[1]) if frozen else inputs


def require_samples(images: Tensor, inputs: Inputs) -> None:
    """Raise ValueError unless these are samples that the inputs can prepare."""
    if inputs.kind == "vectors":
        fits = images.dtype == torch.float32 and images.shape[1:] == (inputs.size,)
    else:
        fits = images.dtype == torch.uint8 and images.ndim == 4 and images.shape[3] == 3
        fits = fits and inputs.size <= images.shape[1] == images.shape[2]
    if not fits:
        raise ValueError(f"samples of {images.dtype} {tuple(images.shape)} are not {inputs.kind} of {inputs.size}")


def _means(found: Tensor, model: dict[str, Tensor]) -> FloatArray:
    if found.dtype != torch.float32 or found.ndim != 2 or found.shape != model["head.weight"].shape:
        raise ValueError(f"class means of {found.dtype} {tuple(found.shape)} do not fit the model")
    return found.numpy()


def load_model(folder: Path, task: int, run: str = "") -> tuple[dict[str, Tensor], StateHeader]:
    """The model after a task, and the header of its file."""
    tensors, header = _read_task(folder, task, run)
    with belonging(task_file(folder, task)):
        return model_of("model", tensors), header


def load_networks(folder: Path, run: str = "") -> tuple[dict[str, Tensor], tuple[dict[str, Tensor], ...]]:
    """The model after task 1, and the networks beside it."""
    tensors, _ = _read_task(folder, 1, run)
    with belonging(task_file(folder, 1)):
        return model_of("model", tensors), unnest_all("network", tensors)


def _read_task(folder: Path, task: int, run: str) -> tuple[dict[str, Tensor], StateHeader]:
    """The content of the file of a task; raises if it is the file of another task."""
    path = task_file(folder, task)
    tensors, header = read_part(path, StateHeader, run)
    if header.sizes and len(header.sizes) != task:
        raise WhorlError(f"{path} does not belong here (it is of task {len(header.sizes)}); {START_OVER}")
    return tensors, header


def model_of(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model; raises KeyError or ValueError where they are not weights."""
    model = unnest(prefix, tensors)
    if model["head.weight"].ndim != 2:
        raise ValueError("head.weight is not a matrix")
    return model


def nest_all(prefix: str, models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of several models under one prefix, numbered from 0."""
    return {key: value for n, model in enumerate(models) for key, value in nest(f"{prefix}.{n}", model).items()}


def unnest_all(prefix: str, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    """The models that :func:`nest_all` has numbered; raises like :func:`model_of`."""
    found = list[dict[str, Tensor]]()
    while any(name.startswith(f"{prefix}.{len(found)}.") for name in tensors):
        found.append(model_of(f"{prefix}.{len(found)}", tensors))
    return tuple(found)


def load_labels(folder: Path, task: int, run: str = "") -> IntArray:
    """The labels that a task was learned with."""
    tensors, _ = _read_task(folder, task, run)
    with belonging(task_file(folder, task)):
        return numbers(tensors, "labels", len(model_of("model", tensors)["head.weight"]))


def _sizes(folder: Path, number: int) -> tuple[int, ...]:
    """The number of new classes of each task, which files of format 1 do not store: how much the head has grown."""
    classes = [len(load_model(folder, task)[0]["head.weight"]) for task in range(1, number + 1)]
    return tuple(after - before for before, after in pairwise([0, *classes]))


def save_epoch(path: Path, task: int, halt: Halt, spent: Spent, log: int, run: str = "") -> None:
    """Write the position inside a task."""
    tensors = {"labels": torch.from_numpy(halt.labels.ids)}
    if len(halt.labels.unsure):
        tensors["unsure"] = torch.from_numpy(halt.labels.unsure)
    tensors |= nest("model", halt.model) | nest("optimiser", halt.optimiser)
    tensors |= nest_all("start", halt.starts) | nest_all("network", halt.networks)
    about = Position(
        run=run,
        format=FORMAT,
        task=task,
        phase=halt.phase,
        epoch=halt.epoch,
        starts=len(halt.starts),
        known=halt.labels.known,
        new=halt.labels.new,
        log=log,
        found=halt.labels.found,
        **asdict(spent),
    )
    write_tensors(path, tensors, about.model_dump())


def load_epoch(path: Path, run: str = "") -> tuple[Position, Halt | None, Spent]:
    """The position in an epoch file. A file of format 1 cannot be continued from: its halt is None."""
    tensors, where = read_part(path, Position, run)
    with belonging(path):
        passes = where.passes or where.images
        spent = Spent(where.seconds, where.training_seconds, where.images, where.sessions, passes, where.networks_from)
        if where.format < FORMAT:
            return where, None, Spent()
        if where.phase >= where.starts:
            raise ValueError("it has no start of its phase")
        ids = numbers(tensors, "labels", where.known + where.new)
        unsure = numbers(tensors, "unsure", len(ids)) if "unsure" in tensors else ids[:0]
        labels = Labelling(ids, where.known, where.new, unsure, where.found)
        if where.found and set(where.found.junk) != set(unsure.tolist()):
            raise ValueError("its junk is not what is left out")
        starts, networks = unnest_all("start", tensors), unnest_all("network", tensors)
        if len(starts) != where.starts:
            raise ValueError(f"it has {len(starts)} of {where.starts} starts")
        model, optimiser = model_of("model", tensors), unnest("optimiser", tensors)
        return where, Halt(where.phase, where.epoch, labels, model, optimiser, starts, networks=networks), spent


@contextmanager
def belonging(path: Path, advice: str = START_OVER) -> Iterator[None]:
    """Report missing or unfitting tensors and damaged headers as one line about the file."""
    try:
        yield
    except KeyError as error:
        raise WhorlError(f"{path} does not belong here (no {error}); {advice}") from None
    except (ValueError, IndexError, RecursionError, WhorlError) as error:
        raise WhorlError(f"{path} is damaged ({reason(error)}); {advice}") from None
