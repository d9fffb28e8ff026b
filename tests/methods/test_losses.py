"""Every loss against NumPy, and gradients against formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from references import (
    Array,
    accommodate,
    eq1,
    eq2,
    eq3,
    forgetting,
    headwise,
    ranking,
    sigmoid,
    sigmoid_loss,
    sigmoid_targets,
    softmax,
    unit,
    wide,
)
from whorl.methods.losses import (
    accommodated,
    cross_distillation,
    cross_entropy,
    distillation,
    headwise_distillation,
    less_forget,
    margin_ranking,
    modified_cross_distillation,
    sigmoid_distillation,
)
from whorl.types import IntArray

Drawn = tuple[Array, IntArray, Array]


@pytest.fixture
def batch() -> Drawn:
    """Seven samples, five classes, three of them known to the teacher; labels of both kinds."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, 5)) * 3, np.array([4, 3, 2, 1, 1, 0, 3]), rng.normal(size=(7, 3)) * 3


@pytest.fixture
def heads() -> Drawn:
    """Six samples, a teacher with heads of 3 and 2 classes, and two new classes."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(6, 7)) * 3, np.arange(6), rng.normal(size=(6, 5)) * 3


def gradient(loss: Callable[[Tensor], Tensor], at: Array) -> Array:
    x = torch.from_numpy(at.copy()).requires_grad_()
    (slope,) = torch.autograd.grad(loss(x), x)
    return wide(slope)


@pytest.mark.parametrize("t", [1.0, 2.0, 4.0])
def test_equations(batch: Drawn, t: float) -> None:
    logits, labels, teacher = batch
    o, y, o_hat = (torch.from_numpy(a) for a in batch)
    assert distillation(o, o_hat, t).item() == pytest.approx(eq1(logits, teacher, t), rel=1e-9)
    assert cross_entropy(o, y).item() == pytest.approx(eq2(logits, labels), rel=1e-9)
    alpha = 3 / 5  # m / (m + n)
    expected = alpha * eq1(logits, teacher, t) + (1 - alpha) * eq2(logits, labels)
    assert cross_distillation(o, y, o_hat, t, alpha).item() == pytest.approx(expected, rel=1e-9)
    assert eq3(logits, labels, teacher, t) == pytest.approx(expected, rel=1e-12)


def test_distillation_gradient_by_hand(batch: Drawn) -> None:
    """d/do of Eq. 1 is (p - p̂) / (T N) in old columns and 0 in new ones."""
    logits, _, teacher = batch
    expected = np.zeros_like(logits)
    expected[:, :3] = (softmax(logits[:, :3] / 2) - softmax(teacher / 2)) / (2 * len(logits))
    found = gradient(lambda o: distillation(o, torch.from_numpy(teacher), 2.0), logits)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_student_equal_to_its_teacher_has_no_gradient() -> None:
    logits = np.random.default_rng(2).normal(size=(4, 6))
    teacher = torch.from_numpy(logits[:, :4].copy())
    assert np.abs(gradient(lambda o: distillation(o, teacher, 2.0), logits)).max() < 1e-12


def test_distillation_ignores_a_common_shift(batch: Drawn) -> None:
    """Therefore Eq. 3 without exemplars cannot keep old logits from falling."""
    o, _, o_hat = (torch.from_numpy(a) for a in batch)
    assert distillation(o + 5, o_hat, 2.0).item() == pytest.approx(distillation(o, o_hat, 2.0).item())


@pytest.mark.parametrize("sizes", [(3, 2), (1, 4), (2, 1, 2), (5,)])
def test_headwise_distillation(heads: Drawn, sizes: tuple[int, ...]) -> None:
    logits, _, teacher = heads
    o, o_hat = torch.from_numpy(logits), torch.from_numpy(teacher)
    found = headwise_distillation(o, o_hat, sizes, 2.0).item()
    assert found == pytest.approx(headwise(logits, teacher, sizes, 2.0), rel=1e-9)
    whole = eq1(logits, teacher, 2.0)
    assert (found == pytest.approx(whole, rel=1e-6)) == (len(sizes) == 1)  # several heads differ from one softmax


def test_headwise_gradient_by_hand(heads: Drawn) -> None:
    """(p - p̂) / (T N) with one softmax per head; 0 in new columns."""
    logits, _, teacher = heads
    expected = np.zeros_like(logits)
    for at in (slice(0, 3), slice(3, 5)):
        expected[:, at] = (softmax(logits[:, at] / 2) - softmax(teacher[:, at] / 2)) / (2 * len(logits))
    found = gradient(lambda o: headwise_distillation(o, torch.from_numpy(teacher), (3, 2), 2.0), logits)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_heads_are_independent(heads: Drawn) -> None:
    """Shifting the logits of one head changes nothing, unlike with one softmax over all heads."""
    o, _, o_hat = (torch.from_numpy(a) for a in heads)
    moved = o.clone()
    moved[:, :3] += 4
    free = headwise_distillation(moved, o_hat, (3, 2), 2.0).item()
    assert free == pytest.approx(headwise_distillation(o, o_hat, (3, 2), 2.0).item())
    assert distillation(moved, o_hat, 2.0).item() != pytest.approx(distillation(o, o_hat, 2.0).item(), rel=1e-2)


@pytest.mark.parametrize("width", [5, 100])
def test_sigmoid_distillation(batch: Drawn, width: int) -> None:
    logits, labels, teacher = batch
    o, y, o_hat = (torch.from_numpy(a) for a in batch)
    found = sigmoid_distillation(o, y, o_hat, width).item()
    assert found == pytest.approx(sigmoid_loss(logits, labels, teacher, width), rel=1e-9)
    first = sigmoid_distillation(o, y, o_hat[:, :0], width).item()  # task 1: the teacher has no columns
    assert first == pytest.approx(sigmoid_loss(logits, labels, teacher[:, :0], width), rel=1e-9)
    assert first != pytest.approx(found, rel=1e-2)


def test_sigmoid_gradient_by_hand(batch: Drawn) -> None:
    """(sigmoid(o) - target) / (W N) in every column, also in old columns of new samples."""
    logits, labels, teacher = batch
    expected = (sigmoid(logits) - sigmoid_targets(logits, labels, teacher)) / (100 * 7)
    y, o_hat = torch.from_numpy(labels), torch.from_numpy(teacher)
    found = gradient(lambda o: sigmoid_distillation(o, y, o_hat, 100), logits)
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert np.abs(expected[labels >= 3, :3]).min() > 0  # new samples are distilled as well


def test_targets_of_old_classes_are_the_teachers_outputs(batch: Drawn) -> None:
    """Targets of old columns are the teacher's outputs: another old label changes nothing, another new one does."""
    o, y, o_hat = (torch.from_numpy(a) for a in batch)
    other = torch.where(y < 3, (y + 1) % 3, y)
    assert not torch.equal(other, y)
    before = sigmoid_distillation(o, y, o_hat, 100)
    assert torch.equal(sigmoid_distillation(o, other, o_hat, 100), before)
    assert not torch.equal(sigmoid_distillation(o, torch.where(y == 3, 4, y), o_hat, 100), before)


def test_less_forget() -> None:
    """It depends on directions only; its gradient is -(t - cos · f) / (|f| N) with unit f and t."""
    rng = np.random.default_rng(3)
    features, teacher = rng.normal(size=(6, 4)), rng.normal(size=(6, 4)) + 0.5
    old = torch.from_numpy(teacher)
    found = less_forget(torch.from_numpy(features), old).item()
    assert found == pytest.approx(forgetting(features, teacher), rel=1e-6)
    assert less_forget(torch.from_numpy(features * 7), old * 0.1).item() == pytest.approx(found, rel=1e-6)
    f, t = unit(features), unit(teacher)
    cosines = (f * t).sum(axis=1, keepdims=True)
    expected = -(t - cosines * f) / np.linalg.norm(features, axis=1, keepdims=True) / 6
    np.testing.assert_allclose(gradient(lambda x: less_forget(x, old), features), expected, atol=1e-7)


@pytest.fixture
def cosines() -> tuple[Array, IntArray]:
    """Nine samples over three old and four new classes."""
    return np.random.default_rng(4).uniform(-1, 1, (9, 7)), np.array([0, 1, 2, 3, 4, 5, 6, 0, 2])


@pytest.mark.parametrize("negatives", [1, 2, 4])
@pytest.mark.parametrize("margin", [0.0, 0.5, 2.5])
def test_margin_ranking(cosines: tuple[Array, IntArray], negatives: int, margin: float) -> None:
    c, y = (torch.from_numpy(a) for a in cosines)
    found = margin_ranking(c, y, 3, negatives, margin).item()
    assert found == pytest.approx(ranking(*cosines, 3, negatives, margin), rel=1e-9)
    assert found > 0
    assert margin_ranking(c, y, 3, negatives, -9.0).item() == 0  # no margin is violated


def test_margin_ranking_gradient_by_hand(cosines: tuple[Array, IntArray]) -> None:
    """Over five old samples and the two nearest new classes, each violated margin has a gradient of 1/10."""
    values, labels = cosines
    expected = np.zeros_like(values)
    for row, label in enumerate(labels):
        if label >= 3:
            continue  # no margin for samples of new classes
        for column in sorted(range(3, 7), key=lambda j: -values[row, j])[:2]:
            if 0.5 - values[row, label] + values[row, column] > 0:
                expected[row, label] -= 1 / 10
                expected[row, column] += 1 / 10
    found = gradient(lambda c: margin_ranking(c, torch.from_numpy(labels), 3, 2, 0.5), values)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert 2 < np.count_nonzero(expected) < 20


def test_margin_ranking_without_old_samples(cosines: tuple[Array, IntArray]) -> None:
    """The loss is 0, and so is its gradient."""
    new = torch.from_numpy(np.full(9, 5))
    assert margin_ranking(torch.from_numpy(cosines[0]), new, 3, 2, 0.5).item() == 0
    assert not gradient(lambda c: margin_ranking(c, new, 3, 2, 0.5), cosines[0]).any()


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_accommodated(batch: Drawn, ratio: float) -> None:
    logits, labels, teacher = batch
    o, y, o_hat = (torch.from_numpy(a) for a in batch)
    blended = accommodate(logits, teacher, ratio)
    np.testing.assert_allclose(wide(accommodated(o, o_hat, ratio)), blended, rtol=1e-12)
    np.testing.assert_allclose(softmax(blended).sum(axis=1), 1)
    expected = 3 / 5 * eq1(logits, teacher, 2.0) + 2 / 5 * eq2(blended, labels)
    assert modified_cross_distillation(o, y, o_hat, 2.0, ratio, 3 / 5).item() == pytest.approx(expected, rel=1e-9)
    same = expected == pytest.approx(eq3(logits, labels, teacher, 2.0), rel=1e-9)
    assert same == (ratio == 1)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_accommodation_scales_the_gradient_into_old_logits(batch: Drawn, ratio: float) -> None:
    """d CE(õ) / do is (p̃ - onehot) / N, times the ratio in the old columns."""
    logits, labels, teacher = batch
    p = softmax(accommodate(logits, teacher, ratio))
    expected = (p - np.eye(5)[labels]) / len(logits)
    expected[:, :3] *= ratio
    y, o_hat = torch.from_numpy(labels), torch.from_numpy(teacher)
    found = gradient(lambda o: cross_entropy(accommodated(o, o_hat, ratio), y), logits)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_blending_probabilities_would_change_nothing(batch: Drawn) -> None:
    """For samples of new classes, as in a block; also, rows would not sum to 1 (docs/protocol.md, A35)."""
    logits, _, teacher = batch
    labels = np.array([3, 4, 3, 4, 3, 4, 3])
    p = softmax(logits)
    p[:, :3] = 0.5 * p[:, :3] + 0.5 * softmax(teacher)
    vacuous = float(np.mean([-np.log(row[y]) for row, y in zip(p, labels, strict=True)]))
    assert vacuous == pytest.approx(eq2(logits, labels), rel=1e-12)
    assert np.abs(p.sum(axis=1) - 1).max() > 0.01
    o, y, o_hat = torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(teacher)
    blended = cross_entropy(accommodated(o, o_hat, 0.5), y).item()
    assert blended != pytest.approx(vacuous, rel=1e-2)


def test_gradients_by_finite_differences(batch: Drawn, heads: Drawn) -> None:
    """Autograd agrees with finite differences for every loss."""
    _, y, o_hat = (torch.from_numpy(a) for a in batch)
    _, z, h_hat = (torch.from_numpy(a) for a in heads)
    losses: list[tuple[Callable[[Tensor], Tensor], Array]] = [
        (partial(cross_distillation, labels=y, teacher=o_hat, temperature=2.0, alpha=0.6), batch[0]),
        (partial(sigmoid_distillation, labels=y, teacher=o_hat, width=100), batch[0]),
        (
            partial(modified_cross_distillation, labels=y, teacher=o_hat, temperature=2.0, ratio=0.5, alpha=0.6),
            batch[0],
        ),
        (partial(headwise_distillation, teacher=h_hat, sizes=(3, 2), temperature=2.0), heads[0]),
        (partial(margin_ranking, labels=z, known=5, negatives=1, margin=0.5), heads[0] / 10),
    ]
    for loss, at in losses:
        assert torch.autograd.gradcheck(loss, torch.from_numpy(at.copy()).requires_grad_())
