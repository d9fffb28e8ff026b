"""EEIL's stored copies: each one found again by trying all that it may be."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from references import Array
from whorl.data.augment import Augment
from whorl.data.copies import Copies
from whorl.data.source import ArraySource

Bytes = npt.NDArray[np.uint8]
AUGMENT = Augment("crop_flip", 16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
PAD = 2  # an eighth of 16


def source(n: int, size: int) -> ArraySource:
    """Random images, some so dark or so bright that a change of brightness or contrast is clipped."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, size, size, 3), dtype=torch.uint8, generator=draws)
    images[::3] //= 4
    images[1::3] = 255 - images[1::3] // 4
    return ArraySource(images)


def read_all(copies: Copies) -> Bytes:
    return np.asarray(copies.read(np.arange(len(copies))).numpy())


def brightness(base: Array, found: Array, slack: float = 0.0) -> tuple[npt.NDArray[np.bool_], IntGrid]:
    """For each candidate [k, …]: is it ``found`` after adding one whole number in ±63, clipped; and all 127 results."""
    shifts = np.arange(-63, 64).reshape(-1, *[1] * base.ndim)
    changed = np.clip(base + shifts, 0, 255)
    return (np.abs(changed - found) <= slack).all(axis=(2, 3, 4)).any(axis=0), changed


IntGrid = npt.NDArray[np.float64]


def contrast(base: Array, mean: Array, found: Array, slack: float = 0.501) -> npt.NDArray[np.bool_]:
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
    tolerance = 1e-4
    return np.asarray((np.maximum(begin, 0.2) <= np.minimum(end, 1.8) + tolerance) & fits.all(axis=(1, 2, 3)))


def crops(image: Array) -> Array:
    """Every crop of the image padded by its mirror image; the middle one is the image itself."""
    padded, side = np.pad(image, ((PAD, PAD), (PAD, PAD), (0, 0)), mode="reflect"), len(image)
    places = itertools.product(range(2 * PAD + 1), repeat=2)
    return np.stack([padded[r : r + side, c : c + side] for r, c in places])


@pytest.mark.parametrize(("view", "flips"), [("crop_flip", (False, True)), ("shift", (False,))])
@pytest.mark.parametrize("size", [16, 20])
def test_kinds(view: str, flips: tuple[bool, ...], size: int) -> None:
    """{itself, brightness, contrast} × {itself, crop} × {itself, mirrored}, each copy in exactly one way.

    Colours change on the whole image, before the crop. Of larger images the middle is taken.
    """
    images = source(24, size)
    copies = Copies(images, replace(AUGMENT, view=view), seed=1)
    edge = (size - 16) // 2
    middle = images.images.numpy()[:, edge : edge + 16, edge : edge + 16].astype(np.float64)
    kinds = list(itertools.product(("itself", "brightness", "contrast"), (False, True), flips))
    assert copies.kinds == len(kinds) == 6 * len(flips)
    assert (len(copies), copies.size, copies.resident) == (24 * len(kinds), 16, True)
    places: dict[tuple[str, bool], set[int]] = {}
    found = read_all(copies).reshape(len(kinds), 24, 16, 16, 3)
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
        assert len(where) > 10 if crop else where == {12}


def test_amounts_spread_over_their_range() -> None:
    """Brightness by -63 to 63 and contrast by 0.2 to 1.8, told from images that are nowhere clipped."""
    images = torch.full((300, 16, 16, 3), 120, dtype=torch.uint8)
    images[:, ::2] = 136
    found = read_all(Copies(ArraySource(images), AUGMENT, seed=2)).reshape(12, 300, 16, 16, 3).astype(np.float64)
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
    images = source(10, 20)
    before = images.images.clone()
    copies = Copies(images, replace(AUGMENT, view=view), seed=3)
    whole, n = copies.read(np.arange(len(copies))), len(copies)
    order = np.random.default_rng(0).permutation(n)
    parts = torch.cat([copies.read(order[i : i + 7]) for i in range(0, n, 7)])
    assert torch.equal(parts, whole[torch.from_numpy(order)])
    again = Copies(images, replace(AUGMENT, view=view), seed=3)
    assert torch.equal(again.read(order), parts)
    other = Copies(images, replace(AUGMENT, view=view), seed=4)
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
    photos = source(30, 20)
    copies = Copies(photos, replace(AUGMENT, view="resized_crop"), seed=5)
    assert (copies.kinds, len(copies), copies.size) == (2, 60, 16)
    found = read_all(copies).reshape(2, 30, 16, 16, 3).astype(np.float64)
    framed: list[int] = []
    colours = {"itself": 0, "brightness": 0, "contrast": 0, "both": 0}
    for flip, group in enumerate(found):
        for photo, copy in zip(photos.images.numpy().astype(np.float64), group, strict=True):
            seen = copy[:, ::-1] if flip else copy
            corners = itertools.product(range(5), repeat=2)
            bases = np.stack([*(photo[r : r + 16, c : c + 16] for r, c in corners), np.round(shrunk(photo, 16))])
            # A resized value may be rounded to either side.
            slack = np.where(np.arange(26) < 25, 0.0, 1.0)[:, None, None, None]
            same = (np.abs(bases - seen) <= slack).all(axis=(1, 2, 3))
            lighter, all_lighter = brightness(bases, seen, slack)
            stretched = contrast(bases, bases.mean(axis=(1, 2), keepdims=True), seen, 0.501 + 2 * slack)
            kinds = {"itself": same, "brightness": lighter, "contrast": stretched}
            name = next((name for name, fits in kinds.items() if fits.any()), "both")
            if name == "both":
                flat = all_lighter.reshape(-1, 16, 16, 3)
                wide = np.tile(slack, (127, 1, 1, 1))
                fits = contrast(flat, flat.mean(axis=(1, 2), keepdims=True), seen, 0.501 + 3 * wide)
                kinds["both"] = fits.reshape(127, 26).any(axis=0)
            assert kinds[name].sum() == 1, name
            colours[name] += 1
            framed.append(int(kinds[name].argmax()))
    whole = framed.count(25)
    assert 15 < whole < 45  # of 60, within four standard errors of a half
    assert len(set(framed) - {25}) > 12
    assert all(5 < count < 25 for count in colours.values()), colours
