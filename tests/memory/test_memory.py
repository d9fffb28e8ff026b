from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from whorl.errors import WhorlError
from whorl.memory import Memory, Policy


def numbered(start: int, count: int) -> Tensor:
    """Images whose first value is their number."""
    images = torch.zeros((count, 2, 2, 3), dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(start, start + count)
    return images


def names(memory: Memory) -> list[int]:
    return [int(image[0, 0, 0]) for image in memory.images]


def filled(policy: Policy, quota: int) -> Memory:
    """Task 0: classes 0 and 1 with six exemplars each. Task 1: classes 2 and 3, interleaved."""
    memory = Memory(policy, quota).add(numbered(0, 12), np.repeat([0, 1], 6), 0)
    return memory.add(numbered(12, 12), np.tile([2, 3], 6), 1)


def test_starts_empty() -> None:
    memory = Memory("per-class", 20)
    assert len(memory) == 0
    assert memory.ranks.tolist() == []


def test_per_class_keeps_a_constant_number() -> None:
    memory = filled("per-class", 4)
    assert names(memory) == [0, 1, 2, 3, 6, 7, 8, 9, 12, 14, 16, 18, 13, 15, 17, 19]
    assert memory.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert memory.tasks.tolist() == [0] * 8 + [1] * 8
    assert [memory.per_class(n) for n in (1, 10, 1000)] == [4, 4, 4]


def test_total_trims_every_class_to_its_prefix() -> None:
    before = Memory("total", 10).add(numbered(0, 12), np.repeat([0, 1], 6), 0)
    assert names(before) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]  # 10 // 2 = 5 each, in rank order
    after = before.add(numbered(12, 12), np.tile([2, 3], 6), 1)
    assert names(after) == [0, 1, 6, 7, 12, 14, 13, 15]  # 10 // 4 = 2 each
    assert after.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(after) <= 10
    assert len(before) == 10  # a memory is never changed


def test_total_divides_and_rounds_down() -> None:
    memory = Memory("total", 2000)
    assert [memory.per_class(n) for n in (10, 20, 30, 2000)] == [200, 100, 66, 1]
    with pytest.raises(WhorlError, match=r"raise `memory\.quota` to at least 2001"):
        memory.per_class(2001)
    with pytest.raises(WhorlError, match=r"raise `memory\.quota` to at least 4"):
        filled("total", 3)


@pytest.mark.parametrize("policy", ["per-class", "total"])
def test_quota_zero_is_no_memory(policy: Policy) -> None:
    memory = filled(policy, 0)
    assert len(memory) == 0
    assert memory.per_class(50) == 0


def test_exemplars_of_a_stored_class_replace_it() -> None:
    """Also if the class is full. Other classes keep their exemplars, and classes stay in order."""
    memory = filled("per-class", 3)
    after = memory.add(numbered(50, 5), np.array([1, 1, 4, 1, 1]), np.array([2, 1, 2, 2, 2]))
    assert names(after) == [0, 1, 2, 50, 51, 53, 12, 14, 16, 13, 15, 17, 52]
    assert after.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4]
    assert after.tasks.tolist() == [0] * 3 + [2, 1, 2] + [1] * 6 + [2]
    assert names(memory) == [0, 1, 2, 6, 7, 8, 12, 14, 16, 13, 15, 17]  # a memory is never changed


def test_origin_of_every_exemplar() -> None:
    memory = filled("per-class", 2)
    after, origin = memory.replaced(numbered(50, 3), np.array([1, 4, 1]), 2)
    both = [*names(memory), 50, 51, 52]
    assert names(after) == [both[i] for i in origin] == [0, 1, 50, 52, 12, 14, 13, 15, 51]


def test_exemplars_are_stored_by_class_in_rank_order() -> None:
    memory = filled("per-class", 3)
    assert names(memory) == [0, 1, 2, 6, 7, 8, 12, 14, 16, 13, 15, 17]
    assert memory.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert memory.ranks.tolist() == [0, 1, 2] * 4


def test_stores_a_copy() -> None:
    images = numbered(0, 3)
    memory = Memory("per-class", 9).add(images, np.array([0, 0, 1]), 0)
    images.fill_(255)
    assert names(memory) == [0, 1, 2]


def test_source_reads_images() -> None:
    source = filled("per-class", 2).source
    assert len(source) == 8
    assert source.size == 2
    assert source.resident
    read = source.read(np.array([7, 0]))
    assert read.dtype == torch.uint8
    assert read[:, 0, 0, 0].tolist() == [15, 0]


@pytest.mark.parametrize("quota", [0, 3])
def test_state_survives_the_disk(quota: int, tmp_path: Path) -> None:
    memory = filled("total", 4 * quota)
    save_file(memory.state(), tmp_path / "memory.safetensors")
    again = Memory.from_state("total", 4 * quota, load_file(tmp_path / "memory.safetensors"))
    assert torch.equal(again.images, memory.images)
    assert np.array_equal(again.labels, memory.labels)
    assert np.array_equal(again.tasks, memory.tasks)
    assert (again.policy, again.quota, len(again)) == ("total", 4 * quota, 4 * quota)
    more = [m.add(numbered(50, 2), np.array([4, 4]), 2) for m in (memory, again)]
    assert names(more[0]) == names(more[1])


def test_refuses_what_does_not_fit() -> None:
    memory = filled("per-class", 2)
    with pytest.raises(ValueError, match="uint8"):
        memory.add(numbered(0, 1).float(), np.array([0]), 2)
    with pytest.raises(ValueError, match="labels"):
        memory.add(numbered(0, 2), np.array([0]), 2)
    with pytest.raises(ValueError, match="do not fit"):
        memory.add(torch.zeros((1, 4, 4, 3), dtype=torch.uint8), np.array([0]), 2)
    with pytest.raises(WhorlError, match="did you mean 'total'"):
        Memory(cast(Policy, "totals"), 2)
    with pytest.raises(WhorlError, match="0 or more"):
        Memory("total", -1)


def test_vectors_are_stored_as_they_are() -> None:
    rows = torch.arange(12, dtype=torch.float32).view(4, 3)
    memory = Memory("per-class", 2).add(rows, np.array([1, 0, 0, 0]), 1)
    assert memory.images.tolist() == [[3, 4, 5], [6, 7, 8], [0, 1, 2]]
    assert memory.source.size == 3
    assert torch.equal(memory.source.read(np.array([2, 0])), rows[[0, 1]])
    with pytest.raises(ValueError, match="do not fit"):
        memory.add(torch.zeros(1, 4), np.array([0]), 2)
