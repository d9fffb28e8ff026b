"""Where and how tensors are computed: device, precision, memory layout, compilation. One object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from whorl.errors import WhorlError

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Runtime:
    """``bf16`` computes under autocast and keeps weights in float32."""

    device: str = "cpu"
    precision: str = "fp32"
    channels_last: bool = True
    compile: bool = False
    workers: int = 2
    """Processes that read images which do not lie in memory."""

    def place(self, module: M) -> M:
        """Move a module to the device, in the chosen layout."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return module.to(self.device, memory_format=layout)  # type: ignore[call-overload, no-any-return]

    def forward(self, module: M) -> M:
        """The module as training should call it: compiled, where that was asked for."""
        return torch.compile(module) if self.compile else module  # type: ignore[return-value]

    def inputs(self, images: torch.Tensor) -> torch.Tensor:
        """A batch of normalised images in the chosen layout."""
        return images if self.channels_last else images.contiguous()

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which networks and losses are computed."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16)


@contextmanager
def threads_for(arch: str) -> Iterator[None]:
    """One thread for the tiny net: a second one only waits, and on a busy machine waiting costs most of the time.

    Sums are added in another order by another number of threads, so bits are the same only for the same number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if arch == "tiny" else before)
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
    """The device to use: the one asked for, or the fastest there is."""
    if asked == "auto":
        return next((name for name in ("cuda", "mps") if _AVAILABLE[name]()), "cpu")
    kind = asked.split(":")[0]
    if kind not in _AVAILABLE or not _AVAILABLE[kind]():
        present = ", ".join(name for name, there in _AVAILABLE.items() if there())
        raise WhorlError(f"--device {asked} is not available here; this machine has: {present}")
    return asked
