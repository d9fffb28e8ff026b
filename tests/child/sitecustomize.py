"""Python imports this module at startup in every process that a test starts (see ``tests/terminal.py``).

A test must not depend on the speed of the machine, so it never sleeps and hopes that a run has come far enough.
Instead it asks the run to stop at a given point, through these environment variables:

WHORL_WATCH=FOLDER  The process keeps FOLDER/alive-PID locked. The lock is released when the process and every process
                    forked from it have ended.
WHORL_HALT=WHAT N   The process stops at event N, leaves the file FOLDER/halted-PID, and continues when FOLDER/open
                    exists. WHAT is ``update`` (after N updates of an optimiser) or ``rename`` (before file N is moved
                    into place below the current folder). With ``kill``, the process kills itself before file N is
                    moved.
WHORL_PACE=PACE     ``slow``: training takes ten times as long. ``fast``: training computes next to nothing and learns
                    nothing. `make test-pace` runs the tests that start processes at both paces.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

FOLDER = os.environ.get("WHORL_WATCH", "")
EVENT, _, COUNT = os.environ.get("WHORL_HALT", "").partition(" ")
PACE = os.environ.get("WHORL_PACE", "")
LONGEST = 0.1
"""Seconds between two updates that ``slow`` multiplies at most; longer gaps are not training."""


class Halt:
    """Counts events and stops the process at the chosen one."""

    def __init__(self) -> None:
        self.left = int(COUNT)

    def count(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0 and EVENT == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0:
            open(f"{FOLDER}/halted-{os.getpid()}", "w").close()
            while not os.path.exists(f"{FOLDER}/open"):
                time.sleep(0.01)

    def audit(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "os.rename" and os.path.abspath(os.fsdecode(values[1])).startswith(os.getcwd() + os.sep):
            self.count()


class Slow:
    """Sleeps after each update for nine times the time since the previous one."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, *_: object) -> None:
        time.sleep(9 * min(time.monotonic() - self.last, LONGEST))
        self.last = time.monotonic()


def train_for_free() -> None:
    """Replace convolutions by slices of their input, skip other layers, gradients and updates, and do not sync files.

    Runs are as deterministic as before and can be resumed, but their scores mean nothing.
    """
    import torch

    def convolve(module: torch.nn.Conv2d, images: torch.Tensor) -> torch.Tensor:
        rows, columns = module.stride
        if module.in_channels == module.out_channels and (rows, columns) == (1, 1):
            return images
        return images[:, :1, ::rows, ::columns].repeat(1, module.out_channels, 1, 1)

    def unchanged(_: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
        return images

    def zero_grad(optimiser: torch.optim.Optimizer, set_to_none: bool = True) -> None:
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)

    def step(optimiser: torch.optim.Optimizer) -> None:
        for group in optimiser.param_groups:
            if group["lr"] > 1e6:  # training must still diverge where a test wants it to
                for parameter in group["params"]:
                    parameter.fill_(float("nan"))

    torch.set_grad_enabled(False)
    torch.nn.Conv2d.forward = convolve  # type: ignore[assignment, method-assign]
    torch.nn.BatchNorm2d.forward = unchanged  # type: ignore[assignment, method-assign]
    torch.nn.ReLU.forward = unchanged  # type: ignore[assignment, method-assign]
    torch.nn.functional.relu = lambda images, inplace=False: images  # type: ignore[assignment]
    os.fsync = lambda fd: None
    torch.Tensor.backward = lambda *_, **__: None  # type: ignore[method-assign]
    torch.optim.Optimizer.zero_grad = zero_grad  # type: ignore[assignment, method-assign]
    torch.optim.SGD.step = step  # type: ignore[assignment, method-assign]


def prepare() -> None:
    """Set up the halt and the pace; called when torch has been imported."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if PACE == "slow":
        register_optimizer_step_post_hook(Slow())
    if PACE == "fast":
        train_for_free()
    if EVENT == "update":
        register_optimizer_step_post_hook(Halt().count)


class AfterTorch:
    """Calls :func:`prepare` after the import of torch, which must not happen earlier than without this module."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            execute: Callable[[Any], None] = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                prepare()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if FOLDER:
    alive = open(f"{FOLDER}/alive-{os.getpid()}", "w")  # noqa: SIM115
    fcntl.flock(alive, fcntl.LOCK_EX)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
if EVENT in ("rename", "kill"):
    sys.addaudithook(Halt().audit)
if PACE or EVENT == "update":
    sys.meta_path.insert(0, AfterTorch())
