"""EEIL's stored copies: each one found again by trying all that it may be."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from references import Array
from whorl.data.copies import Copies
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
SIZE, PAD = 8, 1  # an eighth
INPUTS = Inputs.images(SIZE, "crop_flip", (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def source(n: int, size: int) -> ArraySource:
    """Random images, some so dark or so bright that a change of brightness or contrast is clipped."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, size, size, 3), dtype=torch.uint8, generator=draws)
    images[::3] //= 2
    images[1::3] = 255 - images[1::3] // 2
    return ArraySource(images)


def read_all(copies: Copies) -> Bytes:
    return np.asarray(copies.read(np.arange(len(copies))).numpy())


def brightness(base: Array, found: Array, slack: float | Array = 0.0) -> tuple[Bools, Array]:
    """For each candidate [k, …]: is it ``found`` after adding one whole number in ±63, clipped; and all 127 results."""
    changed = np.clip(base + np.arange(-63, 64).reshape(-1, 1, 1, 1, 1), 0, 255)
    return np.asarray((np.abs(changed - found) <= slack).all(axis=(2, 3, 4)).any(axis=0)), changed


def contrast(base: Array, mean: Array, found: Array, slack: float | Array = 0.501) -> Bools:
    """For each candidate [k, …]: is there one factor in 0.2..1.8 around the mean that gives ``found``, clipped.

    Each value allows an interval of factors; the question is whether all of them have one in common.
    """
    span = base - mean
    low = np.where(found <= 0, -np.inf, found - slack) - mean  # a clipped value may have been anything beyond
    high = np.where(found >= 255, np.inf, found + slack) - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.sort(np.stack([low / span, high / span]), axis=0)
    flat = np.abs(span) < 1e-9
    fits = ~flat | ((low <= 0) & (high >= 0))
    begin = np.where(flat, -np.inf, ends[0]).max(axis=(1, 2, 3))
    end = np.where(flat, np.inf, ends[1]).min(axis=(1, 2, 3))
    common = np.maximum(begin, 0.2) <= np.minimum(end, 1.8) + 1e-4
    return np.asarray(common & fits.all(axis=(1, 2, 3)))


def crops(image: Array) -> Array:
    """Every crop of the image padded by its mirror image; the middle one is the image itself."""
    padded, side = np.pad(image, ((PAD, PAD), (PAD, PAD), (0, 0)), mode="reflect"), len(image)
    places = itertools.product(range(2 * PAD + 1), repeat=2)
    return np.stack([padded[r : r + side, c : c + side] for r, c in places])


@pytest.mark.parametrize(("view", "flips"), [("crop_flip", (False, True)), ("shift", (False,))])
@pytest.mark.parametrize("size", [8, 12])
def test_kinds(view: str, flips: tuple[bool, ...], size: int) -> None:
    """{itself, brightness, contrast} × {itself, crop} × {itself, mirrored}, each copy in exactly one way.

    Colours change on the whole image, before the crop. Of larger images the middle is taken.
    """
    images = source(24, size)
    copies = Copies(images, replace(INPUTS, view=view, mirrors=len(flips) == 2), seed=1)
    edge = (size - SIZE) // 2
    middle = images.images.numpy()[:, edge : edge + SIZE, edge : edge + SIZE].astype(np.float64)
    kinds = list(itertools.product(("itself", "brightness", "contrast"), (False, True), flips))
    assert copies.kinds == len(kinds) == 6 * len(flips)
    assert (len(copies), copies.size, copies.resident) == (24 * len(kinds), SIZE, True)
    places: dict[tuple[str, bool], set[int]] = {}
    found = read_all(copies).reshape(len(kinds), 24, SIZE, SIZE, 3)
    assert found.dtype == np.uint8
    for (colour, crop, flip), group in zip(kinds, found, strict=True):
        for image, copy in zip(middle, group.astype(np.float64), strict=True):
            seen = copy[:, ::-1] if flip else copy
            candidates = crops(image)
            if colour == "itself":
                fitting = (candidates == seen).all(axis=(1, 2, 3))
            elif colour == "brightness":
                fitting = brightness(candidates, seen)[0]
            else:
                fitting = contrast(candidates, image.mean(axis=(0, 1)), seen)
            assert fitting.sum() == 1
            places.setdefault((colour, crop), set()).add(int(fitting.argmax()))
    for (_, crop), where in places.items():
        assert len(where) > 6 if crop else where == {4}  # of nine places; the middle one is no move


def test_without_views_there_is_one_kind() -> None:
    images = source(5, 12)
    copies = Copies(images, INPUTS.plain(), seed=1)
    assert (copies.kinds, len(copies)) == (1, 5)
    assert np.array_equal(read_all(copies), images.images.numpy()[:, 2:10, 2:10])


def test_amounts_spread_over_their_range() -> None:
    """Brightness by -63 to 63 and contrast by 0.2 to 1.8, told from images that are nowhere clipped."""
    images = torch.full((300, SIZE, SIZE, 3), 120, dtype=torch.uint8)
    images[:, ::2] = 136
    found = read_all(Copies(ArraySource(images), INPUTS, seed=2)).reshape(12, 300, SIZE, SIZE, 3).astype(np.float64)
    shifts = found[4].mean(axis=(1, 2, 3)) - 128
    assert -63 <= shifts.min() < -57
    assert 57 < shifts.max() <= 63
    assert abs(shifts.mean()) < 6.5  # three standard errors of a uniform draw
    factors = (found[8][:, 0, 0, 0] - found[8][:, 1, 0, 0]) / 16
    assert 0.2 - 1 / 16 <= factors.min() < 0.3
    assert 1.7 < factors.max() <= 1.8 + 1 / 16
    assert factors.mean() == pytest.approx(1.0, abs=0.09)
    np.testing.assert_allclose(found[8].mean(axis=(1, 2, 3)), 128, atol=0.5)  # the mean stays


@pytest.mark.parametrize("view", ["crop_flip", "shift", "resized_crop"])
def test_copies_are_fixed_whatever_the_order_of_reading(view: str) -> None:
    images = source(10, 12)
    before = images.images.clone()
    copies = Copies(images, replace(INPUTS, view=view), seed=3)
    whole, n = copies.read(np.arange(len(copies))), len(copies)
    order = np.random.default_rng(0).permutation(n)
    parts = torch.cat([copies.read(order[i : i + 7]) for i in range(0, n, 7)])
    assert torch.equal(parts, whole[torch.from_numpy(order)])
    again = Copies(images, replace(INPUTS, view=view), seed=3)
    assert torch.equal(again.read(order), parts)
    other = Copies(images, replace(INPUTS, view=view), seed=4)
    assert not torch.equal(other.read(order), parts)
    assert torch.equal(images.images, before)


def shrunk(image: Array, size: int) -> Array:
    """The whole image, resized with a triangle of the width of an output pixel."""
    side, scale = len(image), len(image) / size
    weights = np.zeros((size, side))
    for i, j in itertools.product(range(size), range(side)):
        weights[i, j] = max(0.0, 1 - abs(j + 0.5 - (i + 0.5) * scale) / scale)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ih,jw,hwc->ijc", weights, weights, image))


def test_photos_come_in_two_kinds() -> None:
    """As they are and mirrored; each a crop or the whole, resized; each with brightness or contrast at even odds."""
    photos = source(40, 11)
    copies = Copies(photos, replace(INPUTS, view="resized_crop"), seed=5)
    assert (copies.kinds, len(copies), copies.size) == (2, 80, SIZE)
    found = read_all(copies).reshape(2, 40, SIZE, SIZE, 3).astype(np.float64)
    corners = list(itertools.product(range(4), repeat=2))
    # The last candidate is the whole photo, whose resized values may be rounded to either side.
    slack = np.where(np.arange(17) == 16, 1.0, 0.0)[:, None, None, None]
    framed: list[int] = []
    colours: list[str] = []
    for flip, group in enumerate(found):
        for photo, copy in zip(photos.images.numpy().astype(np.float64), group, strict=True):
            seen = copy[:, ::-1] if flip else copy
            cut = [photo[r : r + SIZE, c : c + SIZE] for r, c in corners]
            bases = np.stack([*cut, np.round(shrunk(photo, SIZE))])
            lighter, all_lighter = brightness(bases, seen, slack)
            kinds = {
                "itself": (np.abs(bases - seen) <= slack).all(axis=(1, 2, 3)),
                "brightness": lighter,
                "contrast": contrast(bases, bases.mean(axis=(1, 2), keepdims=True), seen, 0.501 + 2 * slack),
            }
            name = next((name for name, fits in kinds.items() if fits.any()), "both")
            if name == "both":
                flat = all_lighter.reshape(-1, SIZE, SIZE, 3)
                fits = contrast(
                    flat, flat.mean(axis=(1, 2), keepdims=True), seen, 0.501 + np.tile(3 * slack, (127, 1, 1, 1))
                )
                kinds["both"] = fits.reshape(127, 17).any(axis=0)
            assert kinds[name].sum() == 1, name
            colours.append(name)
            framed.append(int(kinds[name].argmax()))
    assert 22 < framed.count(16) < 58  # of 80, within four standard errors of a half
    assert len(set(framed) - {16}) > 10
    assert all(8 < colours.count(name) < 32 for name in ("itself", "brightness", "contrast", "both"))


@pytest.mark.parametrize("view", ["crop_flip", "shift", "resized_crop"])
def test_copies_are_made_on_the_device_of_the_images(view: str) -> None:
    away = ArraySource(torch.empty(5, 12, 12, 3, dtype=torch.uint8, device="meta"))
    copies = Copies(away, replace(INPUTS, view=view), seed=1)
    found = copies.read(np.arange(len(copies)))
    assert (found.device.type, found.dtype, tuple(found.shape)) == ("meta", torch.uint8, (len(copies), SIZE, SIZE, 3))
