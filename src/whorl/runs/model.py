"""A learner's whole state in one file, as :meth:`whorl.Whorl.save` writes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, model_validator
from torch import Tensor

from whorl.data.inputs import Inputs
from whorl.data.source import Samples, in_memory
from whorl.errors import WhorlError, count
from whorl.runs.checkpoint import (
    FORMAT,
    Named,
    StateHeader,
    Version,
    Whole,
    assembled,
    belonging,
    learned_as,
    model_of,
    nest_all,
    numbers,
    read_header,
    require_samples,
    state_header,
    unnest_all,
)
from whorl.runs.files import header, nest, read_tensors, unnest, write_tensors
from whorl.sections import MOST_IMAGES
from whorl.state import State
from whorl.types import Found

ADVICE = "save the model again, or pass another folder"


class Learned(BaseModel):
    """A delivery that was learned, as :attr:`whorl.Whorl.deliveries_` lists it.

    Attributes
    ----------
    samples : int
        The number of samples.
    labelled : bool
        Whether the delivery came with labels.
    classes : tuple of str or int
        The names of the classes that were new in it.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    samples: Whole
    labelled: bool
    classes: tuple[Named, ...]

    def without(self, gone: Collection[Named]) -> Learned:
        """The delivery without the classes that have been dropped or merged into others since."""
        return self.model_copy(update={"classes": tuple(name for name in self.classes if name not in gone)})


class ModelHeader(StateHeader):
    """The header of a stored model, as far as it describes what was learned."""

    format: Version
    inputs: Inputs
    deliveries: tuple[Learned, ...]
    labels: tuple[Whole, ...]
    """The class ids of the samples of the last delivery."""
    files: tuple[str, ...] = ()
    found: Found | None = None
    """What was found in the last delivery, if it was mixed."""

    @model_validator(mode="after")
    def _consistent(self: Self) -> Self:
        if not self.deliveries or not self.deliveries[0].labelled:
            raise ValueError("deliveries: there is no initial one with labels")
        if self.sizes != tuple(len(each.classes) for each in self.deliveries):
            raise ValueError("sizes are not the numbers of new classes in deliveries")
        if self.names != tuple(name for each in self.deliveries for name in each.classes):
            raise ValueError("names are not the classes in deliveries")
        samples = self.deliveries[-1].samples
        if len(self.labels) != samples or len(self.files) not in (0, samples):
            raise ValueError(f"{count(samples, 'sample')} have {len(self.labels)} labels and {len(self.files)} files")
        if self.found and (len(self.found.confidence) != samples or not set(self.found.junk) <= set(range(samples))):
            raise ValueError("found: it is about other samples")
        if not all(0 < each.samples < MOST_IMAGES for each in self.deliveries):
            raise ValueError("deliveries: a number of samples is out of range")
        if max(self.labels) >= len(self.names):
            raise ValueError(f"labels must be below {len(self.names)}")
        return self


H = TypeVar("H", bound=ModelHeader)


def save_state(path: Path, state: State, about: Mapping[str, Any]) -> None:
    """Write a learner's state, with ``about`` in the header of the file."""
    tensors = nest("model", state.model) | nest("initial", state.initial) | nest("memory", state.memory)
    if state.means is not None:
        tensors["means"] = torch.from_numpy(state.means)
    tensors |= nest_all("network", state.networks) | nest("whitening", state.whitening) | nest("frozen", state.frozen)
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
        model, initial = model_of("model", tensors), unnest("initial", tensors)
        past, held = list[Samples](), learned_as(found.inputs, model)
        while f"past.{len(past)}.labels" in tensors:
            past.append(_samples(f"past.{len(past)}.", tensors, found, held))
        lengths = zip(past, found.deliveries, strict=False)
        if past and (len(past) != len(found.deliveries) or any(len(a) > b.samples for a, b in lengths)):
            raise ValueError("the stored samples are not those of the deliveries")
        memory = unnest("memory", tensors) | ({"means": tensors["means"]} if "means" in tensors else {})
        state = assembled(model, initial, memory, found.sizes, found.names, found.inputs)
        networks = unnest_all("network", tensors)
    frozen, whitening = unnest("frozen", tensors), unnest("whitening", tensors)
    state = replace(state, past=tuple(past), networks=networks, frozen=frozen, whitening=whitening)
    return replace(state, origin=found.origin), found


def _samples(prefix: str, tensors: dict[str, Tensor], about: ModelHeader, held: Inputs) -> Samples:
    images, labels = tensors[f"{prefix}images"], numbers(tensors, f"{prefix}labels", len(about.names))
    require_samples(images, held)
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
