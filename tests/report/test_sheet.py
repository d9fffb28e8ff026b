"""Contact sheets: the right images at the right places, and what is said about them."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from whorl.data.source import ArraySource
from whorl.report.sheet import FRAME, clusters, evenly, png, resized, strip


def _images(count: int, side: int = 2) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Image i is grey level i + 1 throughout."""
    return np.broadcast_to(np.arange(1, count + 1, dtype=np.uint8)[:, None, None, None], (count, side, side, 3)).copy()


def test_clusters_say_size_majority_share_and_show_their_own_images() -> None:
    labels = np.array([7, 8, 7, 8, 7, 7])
    truth = np.array([1, 0, 1, 0, 1, 0])
    found = clusters(ArraySource(torch.from_numpy(_images(6))), labels, truth, ("cat", "dog"), sample=20)
    assert [(c.label, c.size, c.majority, c.share) for c in found] == [(7, 4, "dog", 0.75), (8, 2, "cat", 1.0)]
    assert found[0].images[:, 0, 0, 0].tolist() == [1, 3, 5, 6]
    assert found[0].strangers.tolist() == [False, False, False, True]
    assert found[1].images[:, 0, 0, 0].tolist() == [2, 4]
    assert found[1].strangers.tolist() == [False, False]


def test_clusters_show_no_more_than_the_sample_but_count_all() -> None:
    source = ArraySource(torch.from_numpy(_images(100)))
    (only,) = clusters(source, np.zeros(100, np.int64), np.zeros(100, np.int64), ("a",), sample=4)
    assert only.size == 100
    assert only.images[:, 0, 0, 0].tolist() == [1, 26, 51, 76]


@pytest.mark.parametrize(
    ("total", "count", "positions"),
    [(10, 5, [0, 2, 4, 6, 8]), (3, 5, [0, 1, 2]), (7, 3, [0, 2, 4]), (0, 3, []), (5, 5, [0, 1, 2, 3, 4])],
)
def test_evenly(total: int, count: int, positions: list[int]) -> None:
    assert evenly(total, count).tolist() == positions


def test_small_images_become_larger_pixels_and_large_ones_are_averaged() -> None:
    small = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    large = resized(small, 7)
    assert large.shape == (1, 6, 6, 3)
    for row in range(6):
        for column in range(6):
            assert large[0, row, column].tolist() == small[0, row // 3, column // 3].tolist()
    assert resized(large, 2).tolist() == small.tolist()


def test_a_strip_has_each_image_in_its_place_with_a_frame_where_asked() -> None:
    sheet = strip(_images(3), np.array([False, True, False]), gap=1)
    assert sheet.shape == (4, 12, 4)
    assert (sheet[1:3, 1:3] == (1, 1, 1, 255)).all()
    assert (sheet[1:3, 5:7] == (2, 2, 2, 255)).all()
    assert (sheet[1:3, 9:11] == (3, 3, 3, 255)).all()
    frame = np.ones((4, 4), bool)
    frame[1:3, 1:3] = False
    assert (sheet[:, 4:8][frame] == (*FRAME, 255)).all()
    assert (sheet[:, :4][frame] == 0).all()
    assert (sheet[:, 8:][frame] == 0).all()


def test_png_gives_the_pixels_back() -> None:
    sheet = strip(_images(3), np.array([False, True, False]), gap=1)
    with Image.open(io.BytesIO(png(sheet))) as image:
        assert image.format == "PNG"
        assert np.array_equal(np.asarray(image), sheet)
