"""A learner's whole state in one file, as :meth:`whorl.Whorl.save` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from whorl.data.inputs import Inputs
from whorl.data.source import Samples, in_memory
from whorl.errors import WhorlError
from whorl.runs.checkpoint import (
    FORMAT,
    StateHeader,
    assembled,
    belonging,
    model_of,
    numbers,
    read_header,
    require_samples,
    state_header,
)
from whorl.runs.files import header, nest, read_tensors, unnest, write_tensors
from whorl.state import State

ADVICE = "save the model again, or pass another folder"
H = TypeVar("H", bound=StateHeader)


def save_state(path: Path, state: State, about: Mapping[str, Any]) -> None:
    """Write a learner's state, with ``about`` in the header of the file."""
    tensors = nest("model", state.model) | nest("initial", state.initial) | nest("memory", state.memory)
    if state.means is not None:
        tensors["means"] = torch.from_numpy(state.means)
    for number, samples in enumerate(state.past):
        tensors[f"past.{number}.images"] = samples.images.read(np.arange(len(samples)))
        tensors[f"past.{number}.labels"] = torch.from_numpy(samples.labels)
    write_tensors(path, tensors, {**about, **state_header(state)})


def load_state(path: Path, schema: type[H]) -> tuple[State, H]:
    """The state that :func:`save_state` wrote, and the header of the file."""
    if not is_model(path):
        raise WhorlError(f"{path} does not hold a model of whorl; pass a folder that Whorl.save wrote")
    tensors, about = read_tensors(path, ADVICE)
    version = about.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise WhorlError(f"{path} has format {version}, made by a newer whorl; update this one ({FORMAT})")
    with belonging(path, ADVICE):
        found = read_header(schema, about)
        if found.inputs is None:
            raise KeyError("inputs")
        past = list[Samples]()
        while f"past.{len(past)}.labels" in tensors:
            past.append(_samples(f"past.{len(past)}.", tensors, found.inputs))
        model, initial = model_of("model", tensors), unnest("initial", tensors)
        memory = unnest("memory", tensors) | ({"means": tensors["means"]} if "means" in tensors else {})
        state = assembled(model, initial, memory, found.sizes, found.names, found.inputs)
    return replace(state, past=tuple(past)), found


def _samples(prefix: str, tensors: dict[str, Tensor], inputs: Inputs) -> Samples:
    images, labels = tensors[f"{prefix}images"], numbers(tensors, f"{prefix}labels")
    require_samples(images, inputs)
    if len(images) != len(labels):
        raise ValueError(f"{len(images)} samples have {len(labels)} labels")
    return Samples(in_memory(images), labels)


def is_model(path: Path) -> bool:
    """Whether a file was written by :func:`save_state`, also if its end is missing. Reads the header only."""
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            return "estimator" in header(start + file.read(min(length, path.stat().st_size)))
    except (OSError, ValueError, RecursionError):
        return False
