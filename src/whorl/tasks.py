"""The tasks of an experiment as deliveries for :class:`whorl.Whorl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whorl.data.configured import load_configured
from whorl.data.inputs import Inputs
from whorl.data.source import Concat
from whorl.data.stream import class_incremental, split_sizes
from whorl.errors import WhorlError
from whorl.recipes import resolve
from whorl.tree import override
from whorl.types import HIDDEN, ImageSource, IntArray, granted

Task = tuple[ImageSource, IntArray | None, int | None]
"""The samples, their labels or None, and the number of new classes of a task without labels."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of ``whorl run``, in order. Pass each of them to :meth:`Whorl.learn`.

    Attributes
    ----------
    inputs : Inputs
        How ``whorl run`` prepares the samples; pass it to :class:`Whorl`.
    names : tuple of str
        The names of the classes. The labels of the tasks are positions in this tuple.
    test : ImageSource
        The test samples of all classes.
    test_labels : ndarray
        Their labels.
    """

    inputs: Inputs
    names: tuple[str, ...]
    test: ImageSource
    test_labels: IntArray
    deliveries: tuple[Task, ...]

    def __len__(self) -> int:
        return len(self.deliveries)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.deliveries)

    def __getitem__(self, index: int) -> Task:
        return self.deliveries[index]


def load_tasks(
    data: str,
    data_dir: str | PathLike[str] | None = None,
    labels: Literal["pseudo", "given"] = "pseudo",
    options: Mapping[str, Any] | None = None,
) -> Tasks:
    """The tasks that ``whorl run`` learns: the same samples in the same order.

    Parameters
    ----------
    data : str
        The name of the data set, such as ``cifar100``, ``folder`` or ``vectors``.
    data_dir : path, optional
        Where the data are.
    labels : {"pseudo", "given"}
        Whether the tasks after task 1 come without labels or with them.
    options : dict, optional
        Config values of the sections ``data`` and ``stream`` by key, such as ``{"stream.step": 10}``.

    Returns
    -------
    Tasks
        The tasks, the test samples, and the preparation of inputs.

    Examples
    --------
    >>> from whorl import Whorl, load_tasks
    >>> tasks = load_tasks("digits", options={"data.per_class": 20})
    >>> model = Whorl("wa", net="tiny", recipe="demo", inputs=tasks.inputs, verbose=0)
    >>> for images, labels, new in tasks:
    ...     model = model.learn(images, labels, new)
    >>> model.classes_
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    asked = dict(options or {})
    for key in asked:
        if key.partition(".")[0] not in ("data", "stream") or key == "data.name":
            raise WhorlError(f"`options` of tasks are keys of the sections data and stream, not {key!r}")
    config = resolve(override(("data.name", data), ("labels", labels), *asked.items()))
    place = None if data_dir is None else Path(data_dir)
    _, loaded = load_configured(config.data, place, strict=False, workers=0, notify=lambda line: None)
    spec, given = config.stream, config.labels == "given"
    sizes = split_sizes(len(loaded.class_names), spec.step, spec.first, spec.tasks)
    stream, truth = class_incremental(loaded, sizes, spec.order, given)
    return Tasks(
        inputs=loaded.inputs,
        names=truth.names,
        test=Concat([images for images, _ in truth.test]),
        test_labels=np.concatenate([found for _, found in truth.test]),
        deliveries=tuple(
            (one.images, None, one.new) if one.labels is HIDDEN else (one.images, granted(one.labels), None)
            for one in stream
        ),
    )
