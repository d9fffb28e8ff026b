"""Whole experiments: hidden labels, seeds and averages."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import checks
from whorl.data.source import Dataset
from whorl.errors import HiddenLabelError
from whorl.experiment import run
from whorl.scores import Summary
from whorl.types import HIDDEN, granted


def test_averages_leave_out_task_1(small_data: Dataset, tmp_path: Path) -> None:
    result = run(checks.small_config(stream__tasks=2), small_data, tmp_path)
    one, two = (step.acc for step in result.steps)
    assert one is not None
    assert two is not None
    assert result.summary.avg == result.summary.last == two
    assert result.summary.avg_with_first == (one + two) / 2
    assert Summary.of(result.steps[:1]).avg is None


def reachable(*roots: object) -> Iterator[object]:
    """Everything that can be reached from these objects, except modules, classes and the globals of functions."""
    todo, seen = list(roots), set[int]()
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (ModuleType, type)):
            continue
        seen.add(id(thing))
        yield thing
        inner = gc.get_referents(thing)
        todo += [x for x in inner if x is not thing.__globals__] if isinstance(thing, FunctionType) else inner


@pytest.mark.parametrize("method", ["ours", "joint"])
def test_hidden_labels_cannot_be_reached(method: str, small_data: Dataset) -> None:
    """Neither from the deliveries nor from a learner that has learned them."""
    config = checks.small_config(method__name=method)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    touches: list[Callable[[Any], object]] = [
        granted, list, len, np.asarray, bool, lambda hidden: hidden[0], lambda hidden: hidden == 1,
        lambda hidden: hidden.shape, lambda hidden: hidden + 1, lambda hidden: getattr(hidden, "labels", None),
    ]  # fmt: skip
    for touch in touches:
        with pytest.raises(HiddenLabelError):
            touch(stream[1].labels)
    checks.learn(learner, stream)
    pools = [thing for thing in reachable(learner, stream) if isinstance(thing, np.ndarray) and thing.dtype == np.int64]
    assert pools
    assert not any(np.shares_memory(pool, small_data.train_labels) for pool in pools)


def test_a_copy_of_hidden_labels_is_hidden_too() -> None:
    """It stays the one object that code compares with, also in another process."""
    assert copy.deepcopy(HIDDEN) is HIDDEN
    assert pickle.loads(pickle.dumps(HIDDEN)) is HIDDEN
    assert not hasattr(HIDDEN, "__wrapped__")


@pytest.mark.parametrize("method", ["ours", "joint"])
def test_hidden_labels_change_nothing(method: str, small_data: Dataset, tmp_path: Path) -> None:
    """With labels exchanged inside the tasks that hide them, a run learns and scores the same."""
    config = checks.small_config(method__name=method)
    rolled = small_data.train_labels.copy()
    for low in (2, 4):
        mine = np.flatnonzero((rolled >= low) & (rolled < low + 2))
        rolled[mine] = np.roll(rolled[mine], 7)
    assert not np.array_equal(rolled, small_data.train_labels)
    honest = run(config, small_data, tmp_path / "a")
    lying = run(config, replace(small_data, train_labels=rolled), tmp_path / "b")
    assert checks.same(checks.stored(honest.path), checks.stored(lying.path))
    assert [step.acc for step in honest.steps] == [step.acc for step in lying.steps]
    assert [step.label_acc for step in honest.steps] != [step.label_acc for step in lying.steps]


def test_other_seeds_give_other_bits(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(stream__tasks=2)
    one, two = run(config, small_data, tmp_path / "a"), run(config, small_data, tmp_path / "b")
    assert checks.same(checks.stored(one.path), checks.stored(two.path))
    assert checks.numbers(one.steps) == checks.numbers(two.steps)
    other = run(config.model_copy(update={"seed": 1}), small_data, tmp_path)
    assert not checks.same(checks.stored(one.path), checks.stored(other.path))
