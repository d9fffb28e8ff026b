from __future__ import annotations

import pytest

from whorl.metrics.curves import avg, avg_with_first, forgetting, last


def test_avg_leaves_out_task_1() -> None:
    accs = [0.9, 0.6, 0.5, 0.1]
    assert avg(accs) == pytest.approx((0.6 + 0.5 + 0.1) / 3)
    assert avg_with_first(accs) == pytest.approx((0.9 + 0.6 + 0.5 + 0.1) / 4)
    assert last(accs) == 0.1


def test_avg_is_last_for_two_tasks() -> None:
    assert avg([0.9, 0.4]) == last([0.9, 0.4]) == 0.4


def test_one_task_has_no_avg_and_no_forgetting() -> None:
    assert avg([0.9]) is None
    assert avg_with_first([0.9]) == last([0.9]) == 0.9
    assert forgetting([[0.9]]) is None


def test_forgetting_by_hand() -> None:
    # Task 1: best earlier 0.9, now 0.5. Task 2: best earlier 0.8 (after task 3), now 0.6. Task 3: 0.9, now 0.4.
    history = [[0.9], [0.7, 0.7], [0.6, 0.8, 0.9], [0.5, 0.6, 0.4, 0.9]]
    assert forgetting(history) == pytest.approx(((0.9 - 0.5) + (0.8 - 0.6) + (0.9 - 0.4)) / 3)
    assert forgetting([[0.5], [0.7, 0.9]]) == pytest.approx(-0.2)  # the old task improved
