"""Sharing networks for pseudo labels: they do not depend on the method, so runs below one folder train them once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from whorl.config import ExperimentConfig
from whorl.errors import WhorlError
from whorl.nets.builder import arch_beside
from whorl.runs.run import Run
from whorl.tree import Tree, digest


@dataclass(frozen=True)
class Found:
    """Networks, and the name of the run that has trained them."""

    run: str
    networks: tuple[dict[str, Tensor], ...]


def networks_key(config: ExperimentConfig) -> str:
    """Ten hexadecimal digits that identify the training of each network. Their number does not change it."""
    train, stream = config.train, config.stream
    depends: Tree = {
        "seed": config.seed,
        "precision": config.precision,
        "data": config.data.model_dump(mode="json"),
        "classes": stream.first or stream.step,
        "order": stream.order,
        "arch": arch_beside(config.net.arch, config.pseudo.arch),
        "net": config.net.arch,  # may bring its own preparation of the inputs
        "train": [train.first_epochs, train.augment, *train.sizes],
    }
    return digest(depends)


def trained_networks(out: Path, config: ExperimentConfig) -> Found | None:
    """The networks that a config needs, from another run below ``out`` that has finished task 1; None if there is none.

    Runs that cannot be read are passed over.
    """
    wanted = config.pseudo.networks
    if not wanted or not out.is_dir():
        return None
    for path in sorted(out.iterdir()):
        try:
            run = Run.open(path)
            if run.config.pseudo.networks < wanted or networks_key(run.config) != networks_key(config):
                continue
            if run.path.name != config.title and run.scores().steps:
                return Found(path.name, run.task1_networks()[1][:wanted])
        except (WhorlError, OSError):
            continue
    return None
