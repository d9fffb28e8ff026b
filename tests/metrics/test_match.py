from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from whorl.metrics.match import aligned, contingency, match, matched_accuracy


def brute_force(table: np.ndarray) -> int:
    """The best one-to-one total, by trying every injection of the shorter side into the longer."""
    small = table if table.shape[0] <= table.shape[1] else table.T
    rows = range(small.shape[0])
    return max(
        sum(int(small[r, c]) for r, c in zip(rows, p, strict=True))
        for p in permutations(range(small.shape[1]), len(rows))
    )


def test_contingency_has_a_row_for_every_id() -> None:
    table = contingency(np.array([0, 0, 3, 3, 3]), np.array([1, 1, 0, 2, 2]), 5, 3)
    assert table.tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 0], [1, 0, 2], [0, 0, 0]]
    assert table.dtype == np.int64


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 6), (3, 6), (6, 3), (1, 5), (5, 1)])
def test_match_is_the_best_of_all_permutations(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape[0] * 10 + shape[1])
    for _ in range(20):
        table = rng.integers(0, 6, shape)  # small counts, so that there are many ties
        mapping = match(table)
        matched = mapping >= 0
        assert matched.sum() == min(shape)
        assert len(set(mapping[matched].tolist())) == min(shape)
        assert sum(int(table[i, c]) for i, c in enumerate(mapping) if c >= 0) == brute_force(table)
        assert np.array_equal(mapping, match(table.copy()))


def test_match_is_no_majority_vote() -> None:
    # Both ids see mostly class 0. A vote would count 9 + 8; one-to-one can count 9 + 2 or 8 + 1 only.
    assert match(np.array([[9, 1], [8, 2]])).tolist() == [0, 1]


def test_matched_accuracy_by_hand() -> None:
    predicted, truth = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 0, 1, 0, 0])
    assert matched_accuracy(predicted, truth, 2, 2) == 4 / 6
    # A third id that is never predicted changes nothing.
    assert matched_accuracy(predicted, truth, 3, 2) == 4 / 6


def test_matched_accuracy_does_not_depend_on_the_names_of_ids() -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 7, 200), rng.integers(0, 7, 200)
    renamed = rng.permutation(7)[predicted]
    assert matched_accuracy(renamed, truth, 7, 7) == matched_accuracy(predicted, truth, 7, 7)
    assert matched_accuracy(rng.permutation(7)[truth], truth, 7, 7) == 1.0


@pytest.mark.parametrize(
    ("predicted", "truth"), [([0, 2], [0, 0]), ([0, -1], [0, 0]), ([0, 0], [0, 2]), ([0, 0], [0]), ([[0]], [[0]])]
)
def test_contingency_rejects_invalid_labels(predicted: list[int], truth: list[int]) -> None:
    with pytest.raises(ValueError, match="must"):
        contingency(np.array(predicted), np.array(truth), 2, 2)


def test_no_samples_have_no_accuracy() -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="no samples"):
        matched_accuracy(nothing, nothing, 2, 2)


@pytest.mark.parametrize("seed", range(5))
def test_aligned_keeps_as_many_labels_as_any_renaming_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    best = max(int((np.array(names)[groups] == labels).sum()) for names in permutations(range(4)))
    renamed = aligned(groups, labels, 4)
    assert int((renamed == labels).sum()) == best
    assert len({(old, new) for old, new in zip(groups.tolist(), renamed.tolist(), strict=True)}) == 4
