"""Orders, splits and streams against the lists and arithmetic of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from whorl.data.order import ORDER_A, ORDER_B, class_order, read_order
from whorl.data.source import Dataset
from whorl.data.stream import class_incremental, split_sizes
from whorl.errors import HiddenLabelError, WhorlError
from whorl.types import HIDDEN, granted


def test_order_a_is_one_shuffle_after_the_legacy_seed() -> None:
    legacy = np.random.RandomState(1993)
    order = np.arange(100)
    legacy.shuffle(order)
    assert tuple(order.tolist()) == ORDER_A == class_order("A", 100)


def test_order_b_is_what_a_hundred_shuffles_of_500_leave() -> None:
    legacy = np.random.RandomState(1993)
    for _ in range(100):
        legacy.shuffle(np.arange(500))
    order = np.arange(100)
    legacy.shuffle(order)
    assert tuple(order.tolist()) == ORDER_B


def test_imagenet_order() -> None:
    first = "54 7 894 512 126 337 988 11 284 493 133 783 192 979 622 215 240 548 238 419"
    assert class_order("A", 1000)[:20] == tuple(map(int, first.split()))


def test_fewer_classes_keep_their_relative_order() -> None:
    assert class_order("A", 10) == (8, 3, 9, 1, 6, 2, 0, 7, 5, 4)
    assert class_order("natural", 4) == (0, 1, 2, 3)
    with pytest.raises(WhorlError, match="defined for up to 100 classes, not 101"):
        class_order("B", 101)


def test_order_files(tmp_path: Path) -> None:
    (tmp_path / "o.txt").write_text("2, 0 # first these\n1 3\n")
    assert read_order(tmp_path / "o.txt") == (2, 0, 1, 3)
    assert class_order((2, 0, 1, 3), 4) == (2, 0, 1, 3)
    with pytest.raises(WhorlError, match="each of 0 to 4 once; it has 4 entries"):
        class_order((2, 0, 1, 3), 5)
    (tmp_path / "o.txt").write_text("2 zero")
    with pytest.raises(WhorlError, match="whole numbers only"):
        read_order(tmp_path / "o.txt")


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ((100, 10), (10,) * 10),
        ((100, 10, 50), (50, 10, 10, 10, 10, 10)),
        ((100, 10, None, 3), (10, 10, 10)),
        ((100, 50), (50, 50)),
        ((10, 2, 6), (6, 2, 2)),
        ((10, 3, 10), (10,)),
        ((7, 7), (7,)),
    ],
)
def test_sizes(asked: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    assert split_sizes(*asked) == sizes


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((100, 7), "`stream.step=7` does not divide the 100 classes; steps that do: 1, 2, 4, 5, 10, 20, 25, 50, 100"),
        ((100, 7, 10), "does not divide the 90 classes after the first task of 10"),
        ((10, 2, 11), "must be between 1 and 10, the number of classes"),
        ((10, 0), "must be between 1 and 10, the number of classes"),
        ((10, 5, None, 3), "`stream.tasks=3` is more than the 2 tasks that these classes make"),
    ],
)
def test_sizes_that_cannot_be(asked: tuple[int, ...], message: str) -> None:
    with pytest.raises(WhorlError, match=message):
        split_sizes(*asked)


def test_a_stream_is_a_sequence_and_its_tasks_hold_the_right_images(small_data: Dataset) -> None:
    order = (3, 1, 5, 0, 2, 4)
    stream, truth = class_incremental(small_data, (2, 2, 2), order, labels_given=True)
    assert isinstance(stream, Sequence)
    assert len(stream) == 3
    assert list(stream[1:]) == [stream[1], stream[2]]
    assert stream[-1] is stream[2]
    assert [delivery.new for delivery in stream] == [2, 2, 2]
    assert stream.sizes == (2, 2, 2)
    assert truth.names == tuple(small_data.class_names[c] for c in order)
    for number, task in enumerate(stream):
        labels = granted(task.labels)
        assert set(labels) == {2 * number, 2 * number + 1}
        assert np.array_equal(labels, truth.train[number])
        pixels = task.images.read(np.arange(len(task.images)))
        for arrival in set(labels):
            natural = small_data.train.read(np.flatnonzero(small_data.train_labels == order[arrival]))
            assert (pixels[labels == arrival] == natural).all()
        images, test_labels = truth.test[number]
        assert set(test_labels) == {2 * number, 2 * number + 1}
        assert len(images) == len(test_labels)


def test_labels_are_hidden_from_task_two_on(small_data: Dataset) -> None:
    stream, truth = class_incremental(small_data, (2, 2, 2), "natural", labels_given=False)
    assert np.array_equal(granted(stream[0].labels), truth.train[0])
    assert stream[1].labels is HIDDEN
    assert stream[2].labels is HIDDEN
    with pytest.raises(HiddenLabelError):
        granted(stream[1].labels)
    given, _ = class_incremental(small_data, (2, 2, 2), "natural", labels_given=True)
    assert (np.diff(granted(given[1].labels)) >= 0).all()  # the data set is sorted by class
    assert 10 < np.count_nonzero(np.diff(truth.train[1])) < 30  # the hidden task is not: 40 images, two classes
    pixels = stream[1].images.read(np.arange(40))
    for label in (2, 3):
        mine = pixels[truth.train[1] == label].flatten(1)
        theirs = small_data.train.read(np.flatnonzero(small_data.train_labels == label)).flatten(1)
        assert sorted(map(tuple, mine.tolist())) == sorted(map(tuple, theirs.tolist()))
    assert repr(stream[1].labels) == "HIDDEN"
