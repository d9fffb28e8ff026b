"""Equations 1 to 3 against NumPy, and the gradients where a mistake would hide."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from whorl.methods.losses import cross_distillation, cross_entropy, distillation

Array = npt.NDArray[np.float64]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def eq1(logits: Array, teacher: Array, t: float) -> float:
    m = teacher.shape[1]
    total = 0.0
    for o, o_hat in zip(logits, teacher, strict=True):
        p_hat, p = softmax(o_hat[None] / t)[0], softmax(o[None, :m] / t)[0]
        total += sum(-p_hat[r] * np.log(p[r]) for r in range(m))
    return total / len(logits)


def eq2(logits: Array, labels: npt.NDArray[np.int64]) -> float:
    return float(np.mean([-np.log(softmax(o[None])[0][y]) for o, y in zip(logits, labels, strict=True)]))


@pytest.fixture
def batch() -> tuple[Array, npt.NDArray[np.int64], Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, 5)) * 3, rng.integers(0, 5, 7), rng.normal(size=(7, 3)) * 3


@pytest.mark.parametrize("t", [1.0, 2.0, 4.0])
def test_equations(batch: tuple[Array, npt.NDArray[np.int64], Array], t: float) -> None:
    logits, labels, teacher = batch
    o, y, o_hat = (torch.from_numpy(a) for a in batch)
    assert distillation(o, o_hat, t).item() == pytest.approx(eq1(logits, teacher, t), rel=1e-9)
    assert cross_entropy(o, y).item() == pytest.approx(eq2(logits, labels), rel=1e-9)
    alpha = 3 / 5  # m / (m + n)
    expected = alpha * eq1(logits, teacher, t) + (1 - alpha) * eq2(logits, labels)
    assert cross_distillation(o, y, o_hat, t).item() == pytest.approx(expected, rel=1e-9)


def test_distillation_gradient_by_hand(batch: tuple[Array, npt.NDArray[np.int64], Array]) -> None:
    """d/do of Eq. 1 is (p - p̂) / (T N) on the old columns and nothing on the new ones."""
    logits, _, teacher = batch
    o = torch.from_numpy(logits).requires_grad_()
    distillation(o, torch.from_numpy(teacher), 2.0).backward()  # type: ignore[no-untyped-call]
    expected = np.zeros_like(logits)
    expected[:, :3] = (softmax(logits[:, :3] / 2) - softmax(teacher / 2)) / (2 * len(logits))
    assert o.grad is not None
    np.testing.assert_allclose(o.grad.numpy(), expected, atol=1e-12)


def test_a_student_equal_to_its_teacher_feels_no_pull() -> None:
    o = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    distillation(o, o.detach()[:, :4], 2.0).backward()  # type: ignore[no-untyped-call]
    assert o.grad is not None
    assert o.grad.abs().max() < 1e-12


def test_distillation_ignores_a_common_shift(batch: tuple[Array, npt.NDArray[np.int64], Array]) -> None:
    """Why Eq. 3 without exemplars cannot hold old logits up."""
    o, _, o_hat = (torch.from_numpy(a) for a in batch)
    assert distillation(o + 5, o_hat, 2.0).item() == pytest.approx(distillation(o, o_hat, 2.0).item())
