"""Contrast of two views, against NumPy and loops."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
import pytest
import torch

import checks
from references import wide
from whorl.data.inputs import Inputs, random_crops
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.nets.contrast import Contrast, nearest_view, projector, recoloured
from whorl.recipes import resolve_learner
from whorl.runs.checkpoint import load_model
from whorl.runtime import Runtime


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_loss_by_loops(temperature: float) -> None:
    first, second = torch.randn(2, 5, 3, generator=draws()).unbind()
    rows = [row / np.linalg.norm(row) for row in wide(torch.cat([first, second]))]
    losses = []
    for i, row in enumerate(rows):
        other = (i + 5) % 10
        shares = {j: np.exp(row @ rows[j] / temperature) for j in range(10) if j != i}
        losses.append(-np.log(shares[other] / sum(shares.values())))
    assert nearest_view(first, second, temperature).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_equal_views_of_opposite_images_have_nearly_no_loss() -> None:
    views = torch.tensor([[1.0, 0], [-1.0, 0]])
    assert nearest_view(views, views, 0.1).item() < 1e-6
    assert nearest_view(views, views.flip(0), 0.1).item() > 10


def test_colours_change_as_drawn() -> None:
    """Image by image with NumPy: brightness, contrast, saturation and hue from the same draws."""
    images = torch.rand(40, 3, 4, 4, generator=draws(1)) * 0.5 + 0.2
    found = wide(recoloured(images, draws(2)))
    drawn = wide(torch.rand(6, 40, 1, 1, 1, generator=draws(2))).reshape(6, 40)
    luma = np.array([0.299, 0.587, 0.114])
    yiq = np.array([luma, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    kept = grey = 0
    for image, result, (b, c, s, h, keep, drop) in zip(wide(images), found, drawn.T, strict=True):
        out = image * (1 + 0.4 * (2 * b - 1))
        out = (out - out.mean()) * (1 + 0.4 * (2 * c - 1)) + out.mean()
        light = np.tensordot(luma, out, 1)
        out = light + (out - light) * (1 + 0.4 * (2 * s - 1))
        angle = 0.1 * 2 * np.pi * (2 * h - 1)
        turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
        out = np.tensordot(np.linalg.inv(yiq) @ turn @ yiq, out, 1).clip(0, 1)
        if keep < 0.2:
            out, kept = image, kept + 1
        if drop < 0.2:
            out, grey = np.broadcast_to(np.tensordot(luma, out, 1), out.shape), grey + 1
        np.testing.assert_allclose(result, out, atol=1e-5)
    assert kept
    assert grey


def test_hues_turn_within_their_range() -> None:
    """A pure colour changes its hue by at most a tenth of the circle, a little more in HSV than in YIQ."""
    red = torch.tensor([0.6, 0.2, 0.2]).view(1, 3, 1, 1).expand(300, 3, 2, 2)
    found = wide(recoloured(red, draws(3)))[:, :, 0, 0]
    coloured = found[np.ptp(found, axis=1) > 1e-3]
    hues = np.array([colorsys.rgb_to_hsv(*colour)[0] for colour in coloured])
    away = np.minimum(hues, 1 - hues)
    assert 0.05 < away.max() < 0.2


def test_crops_are_mirrored_only_where_that_is_allowed() -> None:
    """The slope of a ramp from left to right keeps its sign, whichever part of it a crop shows."""
    ramp = torch.linspace(0, 1, 16).expand(64, 3, 16, 16).contiguous()
    for mirror in (True, False):
        seen = wide(random_crops(ramp, 16, 0.25, mirror, draws()))
        slopes = np.sign(seen[:, 0, 8, 12] - seen[:, 0, 8, 3])
        assert (slopes > 0).all() != mirror
        spread = (seen[:, 0, 8].max(1) - seen[:, 0, 8].min(1)) ** 2
        assert spread.max() > 0.8
        assert spread.min() > 0.25 * 0.75 * 0.8  # the narrowest crop shows sqrt(1/4 * 3/4) of the width


def test_views_of_prepared_images() -> None:
    inputs = Inputs.images(8)
    contrast = Contrast(projector(5, 0), inputs)
    prepared = inputs.fixed(torch.randint(0, 256, (6, 8, 8, 3), dtype=torch.uint8, generator=draws()))
    views, targets = contrast.views(prepared, torch.zeros(6), draws())
    assert views.shape == (6, 3, 8, 8)
    assert targets.tolist() == [*range(6)]
    again, _ = contrast.views(prepared, torch.zeros(6), draws())
    assert torch.equal(views, again)
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in (inputs.mean, inputs.std))
    assert not torch.equal(views, prepared)
    pixels = views * std + mean
    assert pixels.min() > -1e-5
    assert pixels.max() < 1 + 1e-5


def test_the_projector_is_drawn_from_the_seed() -> None:
    one, same, other = (projector(7, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)
    features = torch.randn(4, 7, generator=draws())
    assert projector(7, 1)(features).shape == (4, 64)


def test_the_loss_compares_an_image_with_its_second_view() -> None:
    contrast, features = Contrast(projector(7, 1), Inputs.images(8)), torch.randn(8, 7, generator=draws())
    projected = projector(7, 1)(features)
    expected = nearest_view(projected[:4], projected[4:], 0.2).item()
    assert contrast.loss(features[:4], features[4:], torch.arange(4)).item() == pytest.approx(expected)


def test_contrast_in_the_initial_task_or_in_every_task(small_data: Dataset, tmp_path: Path) -> None:
    plain, initial, always = (
        run(checks.small_config(train__contrast=when), small_data, tmp_path).path
        for when in ("never", "initial", "always")
    )
    tasks = [load_model(path, 1)[0] for path in (plain, initial, always)]
    assert not checks.same(tasks[0], tasks[1])
    assert checks.same(tasks[1], tasks[2])
    assert not checks.same(checks.stored(initial), checks.stored(always))
    assert not any("contrast" in name for name in checks.stored(always))


def test_contrast_and_rotations_resume(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(train__contrast="always", train__rotations="always")
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path / "parts", reporter=checks.StopsInTask2())
    position = checks.stored(tmp_path / "parts" / whole.path.name)
    assert any("asides.contrast" in name for name in position)
    assert any("asides.rotations" in name for name in position)
    run(config, small_data, tmp_path / "parts")
    assert checks.same(checks.stored(whole.path), checks.stored(tmp_path / "parts" / whole.path.name))


def test_vectors_have_no_views() -> None:
    inputs = Inputs.vectors(6)
    config = resolve_learner({"train": {"contrast": "initial"}}, inputs)
    with pytest.raises(WhorlError, match=r"`train.contrast` needs images, and these are vectors"):
        Learner(config, inputs, Runtime())
