"""Losses as pure functions of logits, features and cosines: summed over classes, averaged over the batch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from whorl.methods.base import Batch, Loss, Step


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Eq. 2: the mean of -log p(label) over the batch, with the softmax over all classes learned so far."""
    return F.cross_entropy(logits, labels)


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Eq. 1: cross-entropy between the softened outputs of teacher (the target) and student on the teacher's classes.

    There is no factor T² (docs/protocol.md, A1 and A2).
    """
    old = logits[:, : teacher.shape[1]]
    target = torch.softmax(teacher / temperature, dim=1)
    return -(target * torch.log_softmax(old / temperature, dim=1)).sum(dim=1).mean()


def cross_distillation(logits: Tensor, labels: Tensor, teacher: Tensor, temperature: float, alpha: float) -> Tensor:
    """Eq. 3: alpha · Eq. 1 + (1 - alpha) · Eq. 2; the paper's alpha is m / (m + n), see :attr:`Step.alpha`."""
    return alpha * distillation(logits, teacher, temperature) + (1 - alpha) * cross_entropy(logits, labels)


def classify(batch: Batch) -> Tensor:
    """Eq. 2 of a batch: the loss of every initial step with a softmax."""
    return cross_entropy(batch.logits, batch.labels)


def distil(step: Step, temperature: float) -> Loss:
    """Eq. 2 in the initial step, Eq. 3 afterwards: the loss of ours, WA and BiC."""

    def loss(batch: Batch) -> Tensor:
        teacher = step.teacher(batch.images).logits
        return cross_distillation(batch.logits, batch.labels, teacher, temperature, step.alpha)

    return classify if step.initial else loss


def classify_and_distil(step: Step, temperature: float, weight: float, own: bool = False) -> Loss:
    """Eq. 2, after the initial step plus ``weight`` times Eq. 1. With ``own``, Eq. 2 is over the delivery's classes."""
    classes = torch.from_numpy(step.labelling.classes)

    def loss(batch: Batch) -> Tensor:
        hard = partial_cross_entropy(batch.logits, batch.labels, classes) if own else classify(batch)
        return hard + weight * distillation(batch.logits, step.teacher(batch.images).logits, temperature)

    return classify if step.initial else loss


def partial_cross_entropy(logits: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
    """Eq. 2 over these classes. Samples of other classes do not count; without any it is 0."""
    place = torch.full((logits.shape[1],), -100).index_copy(0, classes, torch.arange(len(classes)))
    targets = place.to(labels.device)[labels]
    if not (targets >= 0).any():
        return logits.sum() * 0
    return F.cross_entropy(logits[:, classes.to(logits.device)], targets, ignore_index=-100)


def distil_sigmoids(step: Step, width: int) -> Loss:
    """iCaRL's loss of a step; in the initial step there is no teacher and all targets are one-hot."""
    again = step.labelling.known_ids.tolist()

    def loss(batch: Batch) -> Tensor:
        teacher = batch.logits[:, :0] if step.initial else step.teacher(batch.images).logits
        return sigmoid_distillation(batch.logits, batch.labels, teacher, width, again)

    return loss


def headwise_distillation(logits: Tensor, teacher: Tensor, sizes: Sequence[int], temperature: float) -> Tensor:
    """EEIL: Eq. 1 within the classes of each earlier delivery, summed over the deliveries."""
    ends = list(itertools.accumulate(sizes, initial=0))
    heads = [slice(*ends[i : i + 2]) for i in range(len(sizes)) if sizes[i]]
    return torch.stack([distillation(logits[:, at], teacher[:, at], temperature) for at in heads]).sum()


def sigmoid_distillation(
    logits: Tensor, labels: Tensor, teacher: Tensor, width: int, again: Sequence[int] = ()
) -> Tensor:
    """iCaRL: sigmoid cross-entropy over all classes, summed and divided by ``width``, averaged over the batch.

    The targets of old classes are the teacher's outputs for every sample. Those of new classes are one-hot, and so are
    those of the old classes in ``again``, which the delivery holds.
    """
    hot = F.one_hot(labels, logits.shape[1]).to(logits)
    target = hot.clone()
    target[:, : teacher.shape[1]] = torch.sigmoid(teacher)
    target[:, again] = hot[:, again]
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / (width * len(logits))


def less_forget(features: Tensor, teacher: Tensor) -> Tensor:
    """LUCIR: one minus the cosine between the student's and the teacher's features of the same image."""
    return (1 - F.cosine_similarity(features.float(), teacher.float(), dim=1)).mean()


def margin_ranking(cosines: Tensor, labels: Tensor, known: int, negatives: int, margin: float) -> Tensor:
    """LUCIR: keep the cosine of old samples to their class a margin above that to the nearest new classes.

    The mean of max(0, margin - own cosine + other cosine) over pairs of an old sample and one of its ``negatives``
    nearest new classes; 0 without old samples.
    """
    old = (labels < known).unsqueeze(1)
    own = cosines.gather(1, labels.unsqueeze(1))
    nearest = cosines[:, known:].topk(negatives, dim=1).values
    return (F.relu(margin - own + nearest) * old).sum() / (negatives * old.sum()).clamp(min=1)


def accommodated(logits: Tensor, teacher: Tensor, ratio: float) -> Tensor:
    """ILIO's logits: ``ratio`` · student + (1 - ratio) · teacher for old classes, the student's for new ones."""
    m = teacher.shape[1]
    return torch.cat([ratio * logits[:, :m] + (1 - ratio) * teacher, logits[:, m:]], dim=1)


def modified_cross_distillation(
    logits: Tensor, labels: Tensor, teacher: Tensor, temperature: float, ratio: float, alpha: float
) -> Tensor:
    """ILIO: Eq. 3 with the cross-entropy computed on the accommodated logits."""
    blended = accommodated(logits, teacher, ratio)
    return alpha * distillation(logits, teacher, temperature) + (1 - alpha) * cross_entropy(blended, labels)
