"""The first task is supervised in every run, so runs that differ only in what comes after it can share it."""

from __future__ import annotations

import hashlib
import json

from whorl.config import Config, Tree
from whorl.methods import method_of
from whorl.methods.base import Method


def first_task(config: Config) -> str:
    """Ten hexadecimal digits that name the training of task 1.

    Labels, clustering, features, refresh and how exemplars are chosen come after it, and so does everything else
    that is not named here.
    """
    method, stream, train = method_of(config), config.stream, config.train
    depends: Tree = {
        "seed": config.seed,
        "precision": config.precision,
        "method": method.first_task,
        "data": config.data.model_dump(mode="json"),
        "classes": stream.first or stream.step,
        "order": stream.order,
        "net": config.net.model_dump(mode="json"),
        "train": [train.first_epochs, train.batch, train.augment],
        "optim": config.optim.at(1).model_dump(mode="json"),
    }
    if type(method).first_task is Method.first_task:  # it has not said what it leaves alone, such as bic the quota
        depends |= {"train": train.model_dump(mode="json"), "memory": [config.memory.policy, config.memory.quota]}
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:10]
