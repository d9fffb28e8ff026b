"""Held-out exemplars against brute force: which samples are held out, and at which ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from whorl.data.source import ArraySource, VectorSource
from whorl.memory import Memory
from whorl.memory.holdout import hold_out, is_held_out, stored_ranks, weave
from whorl.types import IntArray, Labelling


@pytest.mark.parametrize("quota", [1, 4, 20, 23, 200])
@pytest.mark.parametrize("every", [2, 3, 10])
def test_the_number_per_class(quota: int, every: int) -> None:
    """One in ``every`` of the exemplars that a class will have; small classes have fewer exemplars."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([4, 5, 6, 9], [60, 25, 9, 1]))
    held = hold_out(labels, quota, every, seed=1)
    assert held.dtype == np.int64
    assert held.tolist() == sorted(set(held.tolist()))
    for label, size in ((4, 60), (5, 25), (6, 9), (9, 1)):
        places = sum(rank % every == every - 1 for rank in range(min(quota, size)))
        assert np.count_nonzero(labels[held] == label) == places


def test_samples_are_drawn_per_class() -> None:
    """Drawn by the seed, uniformly over the samples of a class, independently of other classes."""
    labels = np.arange(60) % 3
    held = hold_out(labels, 20, 4, seed=7)
    assert np.array_equal(held, hold_out(labels, 20, 4, seed=7))
    assert not np.array_equal(held, hold_out(labels, 20, 4, seed=8))
    alone = hold_out(np.where(labels == 1, 1, 9), 20, 4, seed=7)
    assert np.array_equal(alone[np.isin(alone, np.flatnonzero(labels == 1))], held[labels[held] == 1])
    assert len({tuple((held[labels[held] == label] // 3).tolist()) for label in range(3)}) == 3
    drawn = np.concatenate([hold_out(labels, 20, 4, seed) for seed in range(400)])
    counts = np.bincount(drawn, minlength=60)  # five of twenty, 400 times: 100 each
    assert np.all(np.abs(counts - 100) < 5 * np.sqrt(400 * 0.25 * 0.75))


def test_small_classes_hold_out_nothing() -> None:
    assert hold_out(np.empty(0, dtype=np.int64), 20, 10, seed=0).tolist() == []
    assert hold_out(np.zeros(9, dtype=np.int64), 20, 10, seed=0).tolist() == []


def woven(trained: list[int], held: list[int], every: int) -> list[int]:
    """Rank by rank, until no sample of the right kind is left."""
    out: list[int] = []
    queues = {True: list(held), False: list(trained)}
    while queues[(len(out) + 1) % every == 0]:
        out.append(queues[(len(out) + 1) % every == 0].pop(0))
    return out


@pytest.mark.parametrize("every", [2, 3, 10])
def test_weave(every: int) -> None:
    for trained, held in itertools.product(range(25), range(6)):
        ordinary, special = list(range(trained)), list(range(100, 100 + held))
        found = weave(np.array(ordinary, dtype=np.int64), np.array(special, dtype=np.int64), every)
        assert found.dtype == np.int64
        assert found.tolist() == woven(ordinary, special, every)
        for rank, one in enumerate(found, 1):
            assert (one >= 100) == (rank % every == 0)


def test_weave_by_hand() -> None:
    found = weave(np.array([1, 2, 3, 4, 5, 6]), np.array([71, 72]), 3)
    assert found.tolist() == [1, 2, 71, 3, 4, 72, 5, 6]
    assert weave(np.array([1, 2, 3]), np.array([71, 72]), 3).tolist() == [1, 2, 71, 3]
    assert weave(np.array([1, 2, 3]), np.array([], dtype=np.int64), 3).tolist() == [1, 2]


@pytest.mark.parametrize("every", [2, 3, 10])
def test_every_kth_rank_is_held_out(every: int) -> None:
    ranks = np.random.default_rng(0).integers(0, 40, 80)
    expected = [position for position, rank in enumerate(ranks) if (rank + 1) % every == 0]
    assert is_held_out(ranks, every).tolist() == expected


@pytest.mark.parametrize(("policy_quota", "left"), [(24, 12), (12, 6), (10, 5), (6, 3)])
def test_every_prefix_has_its_share(policy_quota: int, left: int) -> None:
    """Cutting a total memory removes held-out and other exemplars in proportion."""
    every = 3
    names = weave(np.arange(20), np.arange(100, 110), every)

    def images(which: IntArray) -> torch.Tensor:
        out = torch.zeros(len(which), 2, 2, 3, dtype=torch.uint8)
        out[:, 0, 0, 0] = torch.from_numpy(which)
        return out

    memory = Memory("total", policy_quota)
    for task, label in ((1, 0), (2, 1)):
        memory = memory.add(images(names), np.full(len(names), label), task)
    assert np.bincount(memory.labels).tolist() == [left, left]
    held = is_held_out(memory.ranks, every)
    stored = memory.images[:, 0, 0, 0].numpy()
    assert np.array_equal(np.flatnonzero(stored >= 100), held)
    assert np.bincount(memory.labels[held], minlength=2).tolist() == [left // every] * 2


def test_stored_ranks() -> None:
    """Per class: a sample that is stored under another label is not found."""
    draws = torch.randint(0, 256, (12, 2, 2, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    memory = Memory("per-class", 4).add(draws[:8], np.repeat([0, 1], 4), 1)
    offered = ArraySource(draws[[9, 2, 5, 0, 10, 4, 7]])
    labels = Labelling(np.array([0, 0, 1, 0, 2, 0, 1]), 2, 1)
    assert stored_ranks(memory, offered, labels).tolist() == [-1, 2, 1, 0, -1, -1, 3]
    assert stored_ranks(Memory("per-class", 4), offered, labels).tolist() == [-1] * 7
    points = torch.arange(6.0).view(3, 2)
    vectors = Memory("per-class", 4).add(points, np.zeros(3, dtype=np.int64), 1)
    near = VectorSource(points[[2, 1]] + torch.tensor([[0.0], [1e-6]]))
    assert stored_ranks(vectors, near, Labelling(np.zeros(2, dtype=np.int64), 1, 0)).tolist() == [2, -1]


@pytest.mark.parametrize("every", [2, 3])
def test_stored_samples_keep_their_role(every: int) -> None:
    """Repeats of held-out exemplars are held out, those of trained ones never; the rest is drawn from the others."""
    labels = np.repeat([0, 1, 2], 12)
    ranks = np.full(36, -1)
    ranks[[0, 3, 7, 11]] = [2, 0, 1, 5]
    ranks[12:24] = np.arange(12)
    for seed in range(20):
        held = hold_out(labels, 8, every, seed, ranks)
        assert held.tolist() == sorted(set(held.tolist()))
        stored = held[ranks[held] >= 0]
        assert stored.tolist() == [i for i in range(36) if ranks[i] >= 0 and (ranks[i] + 1) % every == 0]
        drawn = np.bincount(labels[held[ranks[held] < 0]], minlength=3).tolist()
        assert drawn == [8 // every - 2, 0, 8 // every]  # two of class 0 are held out already, and enough of class 1
        alone = hold_out(labels, 8, every, seed)
        assert held[labels[held] == 2].tolist() == alone[labels[alone] == 2].tolist()
