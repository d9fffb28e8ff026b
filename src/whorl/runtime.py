"""Where and how tensors are computed: device, precision, memory layout, compilation, reading processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from whorl.data.source import in_memory
from whorl.errors import WhorlError
from whorl.types import ImageSource

M = TypeVar("M", bound=nn.Module)
HELD_BYTES = 4 * 1024**3
"""Deliveries up to this size are moved to the device as a whole."""


@dataclass(frozen=True)
class Runtime:
    """Device and precision of all computations. ``bf16`` uses autocast and keeps the weights in float32."""

    device: str = "cpu"
    precision: str = "fp32"
    channels_last: bool = True
    compile: bool = False
    workers: int = 2
    """Processes that read images which are not in memory."""

    def at(self, precision: str) -> Runtime:
        """The same with another precision."""
        return replace(self, precision=precision)

    def place(self, module: M) -> M:
        """Move a module to the device, in the chosen memory layout."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return module.to(self.device, memory_format=layout)  # type: ignore[call-overload, no-any-return]

    def hold(self, images: ImageSource) -> ImageSource:
        """The samples on the device, if they are in memory and small enough; else the source itself."""
        if self.device == "cpu" or not images.resident or not len(images):
            return images
        sample = images.read(np.arange(1))
        if sample.nbytes * len(images) > HELD_BYTES:
            return images
        return in_memory(images.read(np.arange(len(images))).to(self.device))

    def forward(self, module: M) -> M:
        """The module as training calls it: compiled if that was asked for."""
        return torch.compile(module) if self.compile else module  # type: ignore[return-value]

    def inputs(self, prepared: torch.Tensor) -> torch.Tensor:
        """A batch of prepared inputs in the chosen memory layout."""
        return prepared if self.channels_last else prepared.contiguous()

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which networks and losses are computed."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16)


def threads_per_job(jobs: int) -> int:
    """The threads of each of several jobs: its share of the cores, but no more than torch would use by itself.

    ``OMP_NUM_THREADS`` limits the latter. Threads that wait for each other make little progress on busy cores.
    """
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // jobs))


SINGLE_THREADED = ("tiny", "identity", "mlp")


@contextmanager
def threads_for(arch: str) -> Iterator[None]:
    """Use a single thread for the small networks, which more threads only slow down.

    The number of threads changes the order of summation, so results are bit-identical only for the same number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if arch in SINGLE_THREADED else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_AVAILABLE: dict[str, Callable[[], bool]] = {
    "cpu": lambda: True,
    "cuda": torch.cuda.is_available,
    "mps": torch.backends.mps.is_available,
}


def find_device(asked: str = "auto") -> str:
    """The device to use: the one asked for, or with ``auto`` a GPU if there is one."""
    if not isinstance(asked, str):
        raise WhorlError(f"`device` must be a string, not {asked!r}")
    if asked == "auto":
        return next((name for name in ("cuda", "mps") if _AVAILABLE[name]()), "cpu")
    kind = asked.split(":")[0]
    if kind not in _AVAILABLE or not _AVAILABLE[kind]():
        present = ", ".join(name for name, there in _AVAILABLE.items() if there())
        raise WhorlError(f"`device={asked}` is not available here; this machine has: {present}")
    try:
        number = torch.device(asked).index or 0
    except RuntimeError:
        raise WhorlError(f"`device={asked}` is not a device; write cpu, cuda, cuda:1 or mps") from None
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if number >= count:
        raise WhorlError(f"`device={asked}` is not available here; {kind} has {count}, counted from 0")
    return asked
