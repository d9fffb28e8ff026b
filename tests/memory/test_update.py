"""The memory after a delivery: exemplars of new classes, and better ones of known classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from references import herding_by_loops
from whorl.data.source import ArraySource
from whorl.memory import SELECTORS, Memory, Selection
from whorl.memory.holdout import is_held_out
from whorl.memory.update import Update, updated
from whorl.types import FloatArray, ImageSource, IntArray, Labelling

TABLE = np.random.default_rng(0).normal(1.0, 1.0, (100, 4)).astype(np.float32)
"""The features of the image with each number."""
HERD = Selection(SELECTORS["herding"], 4, seed=0)


def numbered(numbers: list[int] | IntArray) -> Tensor:
    """Images whose first value is their number."""
    images = torch.zeros((len(numbers), 2, 2, 3), dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.as_tensor(numbers, dtype=torch.uint8)
    return images


def names(images: Tensor) -> list[int]:
    return [int(image[0, 0, 0]) for image in images]


def features(source: ImageSource) -> FloatArray:
    return TABLE[names(source.read(np.arange(len(source))))]


def herded(numbers: list[int], quota: int) -> list[int]:
    return [numbers[i] for i in herding_by_loops(TABLE[numbers], quota)]


@pytest.fixture
def memory() -> Memory:
    """Images 0 to 3 of class 0 and 4 to 7 of class 1."""
    return Memory("per-class", 4).add(numbered(list(range(8))), np.repeat([0, 1], 4), 1)


@pytest.fixture
def mixed() -> Update:
    """Ten further images of class 0 among ten of the new class 2."""
    ids = np.tile([0, 2], 10)
    none = np.empty(0, dtype=np.int64)
    return Update(2, ArraySource(numbered(np.arange(20, 40))), Labelling(ids, 2, 1), none, 0, features)


def test_a_known_class_gets_better_exemplars(memory: Memory, mixed: Update) -> None:
    """Herded among the stored and the new samples; classes that were not delivered keep theirs."""
    after, found = updated(memory, mixed, HERD)
    expected = herded([0, 1, 2, 3, *range(20, 40, 2)], 4)
    assert set(expected) & set(range(20, 40))  # some of the new samples are better
    assert names(after.images) == [*expected, 4, 5, 6, 7, *herded(list(range(21, 40, 2)), 4)]
    assert after.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert after.tasks.tolist() == [1 if name < 20 else 2 for name in names(after.images)]
    np.testing.assert_array_equal(found, TABLE[names(after.images)])


def test_the_mean_of_a_known_class_is_met_better_than_before(memory: Memory, mixed: Update) -> None:
    pool = [0, 1, 2, 3, *range(20, 40, 2)]
    unit = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)

    def gap(which: list[int]) -> float:
        return float(np.linalg.norm(unit[which].mean(axis=0) - unit[pool].mean(axis=0)))

    after, _ = updated(memory, mixed, HERD)
    assert gap(names(after.images)[:4]) < gap([0, 1, 2, 3])


def test_a_delivery_of_known_classes_alone(memory: Memory, mixed: Update) -> None:
    images = ArraySource(numbered(np.arange(20, 26)))
    update = replace(mixed, images=images, labels=Labelling(np.array([0, 1] * 3), 2, 0))
    after, _ = updated(memory, update, HERD)
    expected = herded([0, 1, 2, 3, 20, 22, 24], 4) + herded([4, 5, 6, 7, 21, 23, 25], 4)
    assert names(after.images) == expected
    assert after.labels.tolist() == [0] * 4 + [1] * 4


def test_a_class_below_its_quota_is_filled_up(mixed: Update) -> None:
    memory = Memory("per-class", 4).add(numbered([0, 1]), np.array([0, 1]), 1)
    after, _ = updated(memory, mixed, HERD)
    assert np.bincount(after.labels).tolist() == [4, 1, 4]
    assert names(after.images)[:4] == herded([0, *range(20, 40, 2)], 4)


def test_a_total_quota_is_shared_by_all_classes(mixed: Update) -> None:
    memory = Memory("total", 8).add(numbered(list(range(8))), np.repeat([0, 1], 4), 1)
    after, found = updated(memory, mixed, replace(HERD, quota=memory.per_class(3)))
    expected = [*herded([0, 1, 2, 3, *range(20, 40, 2)], 2), 4, 5, *herded(list(range(21, 40, 2)), 2)]
    assert names(after.images) == expected
    np.testing.assert_array_equal(found, TABLE[expected])


@pytest.mark.parametrize("every", [2, 3])
def test_held_out_samples_stay_held_out(every: int, memory: Memory, mixed: Update) -> None:
    """Those of the memory, at every k-th rank, and those of the delivery; no other sample takes such a rank."""
    # The new samples that would otherwise be selected.
    best = [name for name in herded([0, 1, 2, 3, *range(20, 40, 2)], 9) if name >= 20][:3]
    best += herded(list(range(21, 40, 2)), 3)
    held = np.sort(np.array(best)) - 20
    before = {names(memory.images)[i] for i in is_held_out(memory.ranks, every)}
    after, found = updated(memory, replace(mixed, held=held, hold_out_every=every), HERD)
    validating = {*best, *before}
    ranks = set(is_held_out(after.ranks, every).tolist())
    for position, name in enumerate(names(after.images)):
        assert (name in validating) == (position in ranks)
    assert np.bincount(after.labels).tolist() == [4, 4, 4]
    np.testing.assert_array_equal(found, TABLE[names(after.images)])


def test_stored_held_out_exemplars_stay_held_out(memory: Memory, mixed: Update) -> None:
    """Images 1 and 3 of class 0 are at held-out ranks; with two new samples there is little else to select."""
    labels = Labelling(np.array([0, 0]), 2, 0)
    update = replace(mixed, images=ArraySource(numbered([20, 21])), labels=labels, held=np.array([1]), hold_out_every=2)
    after, _ = updated(memory, update, HERD)
    found = names(after.images)[:4]
    assert found[::2] == herded([0, 2, 20], 2)
    assert found[1::2] == [1, 3]


def test_nothing_is_stored_without_a_quota(mixed: Update) -> None:
    after, found = updated(Memory("per-class", 0), mixed, replace(HERD, quota=0))
    assert len(after) == len(found) == 0


@pytest.mark.parametrize("every", [0, 2])
def test_a_repeated_delivery_stores_no_sample_twice(every: int, memory: Memory, mixed: Update) -> None:
    """Exemplars that are delivered again keep their roles: those held out at every k-th rank stay there."""
    again = [0, 1, 2, 3, 20, 21]
    images = ArraySource(numbered([*again, 4, 5]))
    labels = Labelling(np.array([0] * 6 + [1] * 2), 2, 0)
    # Held out by a caller that does not know the roles: images 0 and 4, which were trained on, and 20.
    update = replace(mixed, images=images, labels=labels, held=np.array([0, 4, 6]), hold_out_every=every)
    after, found = updated(memory, update, HERD)
    kept = names(after.images)
    assert len(set(kept)) == len(kept) == 8
    if not every:
        assert kept[:4] == herded(again, 4)
        assert kept[4:] == herded([4, 5, 6, 7], 4)
    else:
        assert kept[:4:2] == herded([0, 2, 21], 2)
        assert kept[1:4:2] == [1, 3]
        assert kept[4::2] == herded([4, 6], 2)
        assert kept[5::2] == [5, 7]
    assert after.tasks.tolist() == [1 if name < 20 else 2 for name in kept]
    np.testing.assert_array_equal(found, TABLE[kept])


def test_the_same_sample_in_another_class_is_another_exemplar(memory: Memory, mixed: Update) -> None:
    images, labels = ArraySource(numbered([4, 5])), Labelling(np.array([0, 0]), 2, 0)
    after, _ = updated(memory, replace(mixed, images=images, labels=labels), HERD)
    assert names(after.images)[:4] == herded([0, 1, 2, 3, 4, 5], 4)
