"""Losses as pure functions of logits. Sums run over classes, means over the batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Eq. 2: the mean over the batch of -log p(label), over all classes seen."""
    return F.cross_entropy(logits, labels)


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Eq. 1: cross-entropy from the teacher's softened distribution to the student's over the teacher's classes.

    The teacher's distribution is the target (docs/protocol.md A1) and there is no factor T² (A2).
    """
    old = logits[:, : teacher.shape[1]]
    target = torch.softmax(teacher / temperature, dim=1)
    return -(target * torch.log_softmax(old / temperature, dim=1)).sum(dim=1).mean()


def cross_distillation(logits: Tensor, labels: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Eq. 3: alpha · Eq. 1 + (1 - alpha) · Eq. 2 with alpha = m / (m + n)."""
    alpha = teacher.shape[1] / logits.shape[1]
    return alpha * distillation(logits, teacher, temperature) + (1 - alpha) * cross_entropy(logits, labels)
