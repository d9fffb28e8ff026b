import numpy as np
import pytest

from whorl.data.split import choose, split
from whorl.errors import WhorlError


def test_split_takes_a_fifth_of_each_class() -> None:
    labels = np.repeat([0, 1, 2], [50, 10, 2])
    train, test = split(labels, ("a", "b", "c"))
    assert sorted([*train, *test]) == list(range(62))
    assert np.bincount(labels[test]).tolist() == [10, 2, 1]
    assert np.array_equal(split(labels, ("a", "b", "c"))[1], test)


def test_a_change_in_one_class_does_not_affect_the_others() -> None:
    _, before = split(np.repeat([0, 1], [10, 10]), ("a", "b"))
    _, after = split(np.repeat([0, 1], [10, 30]), ("a", "b"))
    assert before[before < 10].tolist() == after[after < 10].tolist()


def test_one_sample_cannot_be_split() -> None:
    with pytest.raises(WhorlError, match="class 'b' has 1 sample"):
        split(np.array([0, 0, 1]), ("a", "b"))


def test_choices_are_nested_and_limited_by_the_class_size() -> None:
    labels = np.repeat([0, 1], [20, 3])
    few, more = choose(labels, 2), choose(labels, 5)
    assert np.bincount(labels[few]).tolist() == [2, 2]
    assert np.bincount(labels[more]).tolist() == [5, 3]
    assert set(few) <= set(more)
