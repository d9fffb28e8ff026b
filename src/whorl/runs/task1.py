"""Sharing task 1: it is supervised in every run, so runs that differ only in later tasks can train it once."""

from __future__ import annotations

from whorl.config import ExperimentConfig
from whorl.methods import method_of
from whorl.methods.base import Method
from whorl.tree import Tree, digest


def task1_key(config: ExperimentConfig) -> str:
    """Ten hexadecimal digits that identify the training of task 1.

    They cover everything that training on task 1 depends on. Labels, clustering, features, refresh and exemplar
    selection only matter later.
    """
    method, stream, train = method_of(config), config.stream, config.train
    depends: Tree = {
        "seed": config.seed,
        "precision": config.precision,
        "method": method.task1,
        "data": config.data.model_dump(mode="json"),
        "classes": stream.first or stream.step,
        "order": stream.order,
        "net": config.identity()["net"],
        "train": [train.first_epochs, train.batch, train.augment, *train.sizes, *train.asides(initial=True)],
        "optim": config.optim.at(1).model_dump(mode="json"),
    }
    if config.pseudo.networks:
        depends["networks"] = [config.pseudo.networks, config.pseudo.arch]
    if type(method).task1 is Method.task1:
        depends |= {"train": train.model_dump(mode="json"), "memory": [config.memory.policy, config.memory.quota]}
    return digest(depends)
