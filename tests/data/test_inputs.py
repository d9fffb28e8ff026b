"""Views and normalisation against padding, cropping and flipping by hand; vectors against arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from whorl.data.inputs import VIEWS, Inputs, View, brighter, contrasted, crop_flip, jitter, resized_crop, shift
from whorl.errors import WhorlError


def images(n: int, size: int) -> torch.Tensor:
    return torch.randint(0, 256, (n, size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("mirror", [True, False])
def test_every_view_is_a_crop_of_the_reflected_image(mirror: bool) -> None:
    x = images(200, 16)
    views = (crop_flip if mirror else shift)(x, 16, torch.Generator().manual_seed(0)).numpy()
    seen = set()
    for image, view in zip(x.numpy(), views, strict=True):
        padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
        found = [
            (r, c, flip)
            for r in range(5)
            for c in range(5)
            for flip in (False, True)
            if np.array_equal(view, (padded[r : r + 16, c : c + 16])[:, :: -1 if flip else 1])
        ]
        assert len(found) == 1
        seen.add(found[0])
    assert {(r, c) for r, c, _ in seen} == {(r, c) for r in range(5) for c in range(5)}
    assert {flip for *_, flip in seen} == ({True, False} if mirror else {False})


def test_views_are_a_function_of_the_generator() -> None:
    x = images(8, 16)
    for view in VIEWS.values():
        one, two = (view(x, 16, torch.Generator().manual_seed(5)) for _ in range(2))
        assert torch.equal(one, two)


def test_normalised_by_hand_in_channels_last() -> None:
    inputs = Inputs.images(8, "none", (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))
    x = images(4, 8)
    out = inputs.fixed(x)
    expected = (x.numpy() / 255 - np.array([0.5, 0.4, 0.3])) / np.array([0.2, 0.25, 0.5])
    np.testing.assert_allclose(out.numpy(), expected.transpose(0, 3, 1, 2), atol=1e-5)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(inputs.train(x, torch.Generator()), out)


def test_the_fixed_view_is_the_centre() -> None:
    inputs = Inputs.images(8, "resized_crop", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    x = images(2, 12)
    np.testing.assert_allclose(inputs.fixed(x).permute(0, 2, 3, 1) * 255, x[:, 2:10, 2:10].float(), atol=1e-3)
    assert inputs.train(x, torch.Generator().manual_seed(0)).shape == (2, 3, 8, 8)


@pytest.mark.parametrize("view", [crop_flip, shift])
def test_shifts_of_larger_images_start_from_the_centre(view: View) -> None:
    x = images(6, 12)
    whole = view(x, 8, torch.Generator().manual_seed(0))
    assert torch.equal(whole, view(x[:, 2:10, 2:10], 8, torch.Generator().manual_seed(0)))


def test_resized_crops_lie_inside_and_have_the_right_areas() -> None:
    """On a ramp the corner values tell the box: its sides are between sqrt(0.08·3/4) and 1 of the image."""
    ramp = torch.arange(64, dtype=torch.float32)
    grid = torch.stack([ramp.expand(64, 64), ramp[:, None].expand(64, 64), torch.zeros(64, 64)], dim=-1)
    x = grid.to(torch.uint8).expand(400, 64, 64, 3)
    out = resized_crop(x, 32, torch.Generator().manual_seed(0))
    width = (out[:, 0, -1, 0] - out[:, 0, 0, 0]) * 32 / 31 / 64
    height = (out[:, -1, 0, 1] - out[:, 0, 0, 1]) * 32 / 31 / 64
    assert 0.4 < (width < 0).float().mean() < 0.6  # flipped
    area, aspect = width.abs() * height, width.abs() / height
    assert area.min() > 0.06
    assert area.max() <= 1.05
    assert area.mean().item() == pytest.approx(0.52, abs=0.05)
    assert aspect.min() > 0.70
    assert aspect.max() < 1.42


def test_brightness_and_contrast_by_hand() -> None:
    """Draws of 0 and 1 are the ends of the ranges: -63 and 63, and 0.2 and 1.8 around the mean of each channel."""
    x, draws = images(5, 8), torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    for image, draw, light, strong in zip(x.numpy(), draws, brighter(x, draws), contrasted(x, draws), strict=True):
        shift, factor = -63 + 126 * draw.item(), 0.2 + 1.6 * draw.item()
        np.testing.assert_allclose(light, np.clip(image.astype(float) + shift, 0, 255), atol=1e-3)
        mean = image.mean(axis=(0, 1))
        np.testing.assert_allclose(strong, np.clip((image - mean) * factor + mean, 0, 255), atol=1e-3)


def test_jitter_changes_two_of_three_images() -> None:
    """A third as they are; of the others, half by a shift that is the same everywhere, half around the mean."""
    x = images(1, 8).expand(600, 8, 8, 3) // 4 + 96  # so that nothing is clipped
    out = jitter(x, torch.Generator().manual_seed(0)).numpy()
    difference = out - x[0].numpy()
    kept = np.abs(difference).max(axis=(1, 2, 3)) < 1e-3
    shifted = ~kept & (difference.std(axis=(1, 2, 3)) < 1e-3)
    centred = ~kept & (np.abs(difference.mean(axis=(1, 2))).max(axis=1) < 1e-3)
    assert np.array_equal(kept.astype(int) + shifted + centred, np.ones(600))
    for group in (kept, shifted, centred):
        assert 150 < group.sum() < 250  # of 600, within four standard errors of a third


def test_jitter_is_applied_after_the_view() -> None:
    """The same view, then a change of colour. The fixed view and ``plain`` have neither."""
    base = Inputs.images(8, "crop_flip", (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    x = images(6, 8)
    jittered = base.jittered()
    draws, again = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    seen = jitter(crop_flip(x, 8, draws), draws)
    expected = (seen / 255 - 0.5) / 0.25
    torch.testing.assert_close(jittered.train(x, again), expected.permute(0, 3, 1, 2), rtol=1e-4, atol=1e-4)
    assert torch.equal(jittered.fixed(x), base.fixed(x))
    assert jittered.plain() == base.plain() == Inputs("images", 8, base.mean, base.std, "none", mirrors=True)
    assert torch.equal(jittered.plain().train(x, torch.Generator()), base.fixed(x))


@pytest.mark.parametrize("view", ["auto", *VIEWS])
def test_the_data_determine_whether_mirror_images_keep_their_class(view: str) -> None:
    """Another view for training does not change that. Mirror images of digits (``shift``) are other classes."""
    for usual, mirrors in (("crop_flip", True), ("resized_crop", True), ("shift", False), ("none", False)):
        data = Inputs.images(8, usual)
        made = data.viewed(view)
        assert made.view == (usual if view == "auto" else view)
        assert made.mirrors == mirrors
        assert (made.size, made.mean, made.std) == (8, data.mean, data.std)
        assert made.plain().mirrors == made.jittered().mirrors == mirrors


def test_mirrored_inputs_are_those_of_mirrored_images() -> None:
    inputs, x = Inputs.images(8), images(3, 8)
    assert torch.equal(inputs.mirrored(inputs.fixed(x)), inputs.fixed(x.flip(2)))


@pytest.mark.parametrize(
    ("inputs", "photos"),
    [
        (Inputs.images(32), False),
        (Inputs.images(127), False),
        (Inputs.images(128), True),
        (Inputs.images(224, "none"), True),
        (Inputs.images(64, "resized_crop"), True),
        (Inputs.vectors(1280), False),
    ],
)
def test_photos_are_large_images_or_those_with_resized_crops(inputs: Inputs, photos: bool) -> None:
    assert inputs.photos is photos


@pytest.mark.parametrize(
    ("size", "mean", "std", "message"),
    [
        (0, (0.5,) * 3, (0.5,) * 3, "at least 1"),
        (10**30, (0.5,) * 3, (0.5,) * 3, "at most 16384"),
        (8, (), (0.5,) * 3, "the mean of images must have 3 values, not 0"),
        (8, (0.5,) * 3, (0.5,), "the standard deviation of images must have 3 values, not 1"),
        (8, (0.5,) * 3, (0.5, 0.0, 0.5), "must be above 0"),
        (8, (0.5,) * 3, (0.5, 0.5, 1e308), "at most 1000"),
        (8, (1e308, 0.5, 0.5), (0.5,) * 3, "at most 1e6 standard deviations"),
        (8, (float("nan"), 0.5, 0.5), (0.5,) * 3, "at most 1e6 standard deviations"),
    ],
)
def test_impossible_preparations_are_refused(
    size: int, mean: tuple[float, ...], std: tuple[float, ...], message: str
) -> None:
    with pytest.raises(WhorlError, match=message):
        Inputs("images", size, mean, std)


def test_vectors_are_scaled_and_have_no_views() -> None:
    inputs = Inputs.vectors(5, 2.5)
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    expected = x.numpy().astype(np.float64) / 2.5
    np.testing.assert_allclose(inputs.fixed(x).numpy(), expected, rtol=1e-6)
    draws = torch.Generator().manual_seed(4)
    state = draws.get_state()
    assert torch.equal(inputs.train(x, draws), inputs.fixed(x))
    assert torch.equal(draws.get_state(), state)  # nothing was drawn
    for view in VIEWS:
        assert inputs.viewed(view) == inputs
    assert inputs.jittered() == inputs.plain() == inputs
    shifted = Inputs("vectors", 5, (1.0,), (2.0,))
    np.testing.assert_allclose(shifted.fixed(x).numpy(), (x.numpy().astype(np.float64) - 1) / 2, rtol=1e-5, atol=1e-6)
