"""The exemplars of old tasks: raw images, the labels they were learned with, and the task they came in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from whorl.data.source import ArraySource
from whorl.errors import WhorlError, unknown
from whorl.types import ImageSource, IntArray

Policy = Literal["per-class", "total"]


def _no_images() -> Tensor:
    return torch.empty((0, 0, 0, 3), dtype=torch.uint8)


def _no_numbers() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Memory:
    """Exemplars under a quota: so many per class (the paper), or so many in total (iCaRL). Quota 0 is no memory.

    A memory is never changed; ``add`` returns a new one. Within a class the order of storing is the rank order of the
    selector, so that a prefix is the best smaller set; nothing here shuffles.
    """

    policy: Policy
    quota: int
    images: Tensor = field(default_factory=_no_images)
    """uint8 [N, S, S, 3], without augmentation."""
    labels: IntArray = field(default_factory=_no_numbers)
    tasks: IntArray = field(default_factory=_no_numbers)

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            raise unknown("memory policy", self.policy, get_args(Policy))
        if self.quota < 0:
            raise WhorlError(f"a memory cannot hold {self.quota} images; set --quota to 0 or more")

    def __len__(self) -> int:
        return len(self.labels)

    def per_class(self, n_classes: int) -> int:
        """How many exemplars a class may have once ``n_classes`` are stored."""
        if self.policy == "per-class" or self.quota == 0:
            return self.quota
        if self.quota < n_classes:
            raise WhorlError(
                f"a memory of {self.quota} images has no room for {n_classes} classes; "
                f"raise --quota to at least {n_classes}"
            )
        return self.quota // n_classes

    def add(self, images: Tensor, labels: IntArray, task: int) -> Memory:
        """The memory with these exemplars behind the old ones, and every class cut to the prefix its quota allows."""
        _check(images, labels, self.images if len(self) else images)
        if self.quota == 0 or not len(labels):
            return self
        every_label = np.concatenate([self.labels, labels.astype(np.int64)])
        every_task = np.concatenate([self.tasks, np.full(len(labels), task, dtype=np.int64)])
        every_image = torch.cat([self.images, images.cpu()]) if len(self) else images.cpu()
        keep = np.flatnonzero(_ranks(every_label) < self.per_class(len(np.unique(every_label))))
        return replace(
            self, images=every_image[torch.from_numpy(keep)], labels=every_label[keep], tasks=every_task[keep]
        )

    def by_class(self) -> Iterator[tuple[int, IntArray]]:
        """Each label, ascending, with the positions of its exemplars in rank order."""
        for label in np.unique(self.labels):
            yield int(label), np.flatnonzero(self.labels == label)

    @property
    def ranks(self) -> IntArray:
        """The place of each exemplar among those of its class."""
        return _ranks(self.labels)

    @property
    def source(self) -> ImageSource:
        """The images, as every other part of whorl reads images."""
        return ArraySource(self.images)

    def state(self) -> dict[str, Tensor]:
        """All that is stored, as tensors for safetensors. Policy and quota belong to the config."""
        return {
            "images": self.images,
            "labels": torch.from_numpy(self.labels.copy()),
            "tasks": torch.from_numpy(self.tasks.copy()),
        }

    @classmethod
    def from_state(cls, policy: Policy, quota: int, state: Mapping[str, Tensor]) -> Memory:
        """The memory whose ``state`` this was."""
        return cls(policy, quota, state["images"], state["labels"].numpy(), state["tasks"].numpy())


def _ranks(labels: IntArray) -> IntArray:
    """The position of each sample among those of its label."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(labels)) - np.searchsorted(ordered, ordered)
    return ranks


def _check(images: Tensor, labels: IntArray, stored: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(f"exemplars must be uint8 [n, S, S, 3], not {images.dtype} {tuple(images.shape)}")
    if labels.shape != (len(images),):
        raise ValueError(f"{len(images)} exemplars need as many labels, not {labels.shape}")
    if images.shape[1:] != stored.shape[1:]:
        raise ValueError(f"exemplars of {tuple(images.shape[1:])} do not fit a memory of {tuple(stored.shape[1:])}")
