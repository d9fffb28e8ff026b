"""Losses as pure functions of logits, features and cosines. Sums run over classes, means over the batch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from whorl.methods.base import Batch, Loss, Step


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


def classify(batch: Batch) -> Tensor:
    """Eq. 2 of a batch: the loss of every first task with a softmax."""
    return cross_entropy(batch.logits, batch.labels)


def distil(step: Step, temperature: float) -> Loss:
    """Eq. 2 in task 1, Eq. 3 afterwards: the loss of ours, WA and BiC."""

    def loss(batch: Batch) -> Tensor:
        return cross_distillation(batch.logits, batch.labels, step.teacher(batch.images).logits, temperature)

    return classify if step.task == 1 else loss


def classify_and_distil(step: Step, temperature: float, weight: float, first: int) -> Loss:
    """Eq. 2 over the columns from ``first`` on, plus, after task 1, ``weight`` times Eq. 1."""

    def loss(batch: Batch) -> Tensor:
        own = cross_entropy(batch.logits[:, first:], batch.labels - first)
        return own + weight * distillation(batch.logits, step.teacher(batch.images).logits, temperature)

    return classify if step.task == 1 else loss


def distil_sigmoids(step: Step, width: int) -> Loss:
    """iCaRL's loss of a step; in task 1 there is no teacher, and all targets are one-hot."""

    def loss(batch: Batch) -> Tensor:
        teacher = batch.logits[:, :0] if step.task == 1 else step.teacher(batch.images).logits
        return sigmoid_distillation(batch.logits, batch.labels, teacher, width)

    return loss


def headwise_distillation(logits: Tensor, teacher: Tensor, sizes: Sequence[int], temperature: float) -> Tensor:
    """EEIL: Eq. 1 within the columns of each task's head, summed over the heads."""
    ends = list(itertools.accumulate(sizes, initial=0))
    heads = [slice(*ends[i : i + 2]) for i in range(len(sizes))]
    return torch.stack([distillation(logits[:, at], teacher[:, at], temperature) for at in heads]).sum()


def sigmoid_distillation(logits: Tensor, labels: Tensor, teacher: Tensor, width: int) -> Tensor:
    """iCaRL: sigmoid cross-entropy over all columns, summed and divided by ``width``, mean over the batch.

    The targets of old columns are the teacher's outputs for every sample, those of new columns are one-hot.
    """
    target = F.one_hot(labels, logits.shape[1]).to(logits)
    target[:, : teacher.shape[1]] = torch.sigmoid(teacher)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / (width * len(logits))


def less_forget(features: Tensor, teacher: Tensor) -> Tensor:
    """LUCIR: one minus the cosine between the student's and the teacher's feature of the same image."""
    return (1 - F.cosine_similarity(features.float(), teacher.float(), dim=1)).mean()


def margin_ranking(cosines: Tensor, labels: Tensor, known: int, negatives: int, margin: float) -> Tensor:
    """LUCIR: samples of old classes keep their cosine a margin above those of the nearest new classes.

    The mean over (sample, nearest new class) of max(0, margin - own cosine + theirs); 0 without old samples.
    """
    old = (labels < known).unsqueeze(1)
    own = cosines.gather(1, labels.unsqueeze(1))
    nearest = cosines[:, known:].topk(negatives, dim=1).values
    return (F.relu(margin - own + nearest) * old).sum() / (negatives * old.sum()).clamp(min=1)


def accommodated(logits: Tensor, teacher: Tensor, ratio: float) -> Tensor:
    """ILIO: old logits are ``ratio`` · student + (1 - ratio) · teacher, new ones the student's alone (A35)."""
    m = teacher.shape[1]
    return torch.cat([ratio * logits[:, :m] + (1 - ratio) * teacher, logits[:, m:]], dim=1)


def modified_cross_distillation(
    logits: Tensor, labels: Tensor, teacher: Tensor, temperature: float, ratio: float
) -> Tensor:
    """ILIO: Eq. 3 with its cross-entropy taken on the accommodated logits."""
    alpha = teacher.shape[1] / logits.shape[1]
    blended = accommodated(logits, teacher, ratio)
    return alpha * distillation(logits, teacher, temperature) + (1 - alpha) * cross_entropy(blended, labels)
