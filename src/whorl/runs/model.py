"""A learner's whole state in one file, as :meth:`whorl.Whorl.save` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from whorl.data.source import Samples, in_memory
from whorl.errors import WhorlError
from whorl.runs.checkpoint import FORMAT, StateHeader, belonging, state_header
from whorl.runs.files import nest, read_tensors, unnest, write_tensors
from whorl.state import State

ADVICE = "save the model again, or pass another folder"


def save_state(path: Path, state: State, about: Mapping[str, Any]) -> None:
    """Write a learner's state, with ``about`` in the header of the file."""
    tensors = nest("model", state.model) | nest("initial", state.initial) | nest("memory", state.memory)
    if state.means is not None:
        tensors["means"] = torch.from_numpy(state.means)
    for number, samples in enumerate(state.past):
        tensors[f"past.{number}.images"] = samples.images.read(np.arange(len(samples)))
        tensors[f"past.{number}.labels"] = torch.from_numpy(samples.labels)
    write_tensors(path, tensors, {**state_header(state), **about})


def load_state(path: Path) -> tuple[State, dict[str, Any]]:
    """The state that :func:`save_state` wrote, and the header of the file."""
    if not is_model(path):
        raise WhorlError(f"{path} does not hold a model of whorl; pass a folder that Whorl.save wrote")
    tensors, about = read_tensors(path, ADVICE)
    with belonging(path, ADVICE):
        if about.get("format", 0) > FORMAT:
            raise WhorlError(f"{path} has format {about['format']}, made by a newer whorl; update this one ({FORMAT})")
        header = StateHeader.model_validate(about)
        past = list[Samples]()
        while f"past.{len(past)}.labels" in tensors:
            images, labels = (tensors[f"past.{len(past)}.{name}"] for name in ("images", "labels"))
            past.append(Samples(in_memory(images), labels.numpy()))
        means = tensors["means"].numpy() if "means" in tensors else None
        memory = {name: tensors[f"memory.{name}"] for name in ("images", "labels", "tasks")}
        model, initial = unnest("model", tensors), unnest("initial", tensors)
        model["head.weight"]
        if header.inputs is None:
            raise KeyError("inputs")
    return State(model, initial, memory, means, header.sizes, header.names, header.inputs, tuple(past)), about


def is_model(path: Path) -> bool:
    """Whether a file was written by :func:`save_state`, also if its end is missing. Reads the header only."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, path.stat().st_size)))
            return "estimator" in json.loads(header["__metadata__"]["whorl"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
