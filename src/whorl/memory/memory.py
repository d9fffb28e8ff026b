"""The exemplars: stored samples, the labels they were learned with, and the delivery each came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from whorl.data.source import in_memory
from whorl.errors import WhorlError, unknown
from whorl.types import ImageSource, IntArray

Policy = Literal["per-class", "total"]


def _no_images() -> Tensor:
    return torch.empty((0, 0, 0, 3), dtype=torch.uint8)


def _no_numbers() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Memory:
    """Stored exemplars, with a quota per class (the paper) or in total (iCaRL). A quota of 0 stores nothing.

    A memory is immutable; ``add`` returns a new one. Exemplars are sorted by class, and within a class by the rank the
    selector gave them, so that a prefix is the best smaller set.
    """

    policy: Policy
    quota: int
    images: Tensor = field(default_factory=_no_images)
    """The samples without augmentation: uint8 [N, S, S, 3], or float32 [N, D]."""
    labels: IntArray = field(default_factory=_no_numbers)
    tasks: IntArray = field(default_factory=_no_numbers)
    """The number of the delivery each exemplar came in."""

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            raise unknown("memory policy", self.policy, get_args(Policy))
        if self.quota < 0:
            raise WhorlError(f"a memory cannot hold {self.quota} images; set `memory.quota` to 0 or more")

    def __len__(self) -> int:
        return len(self.labels)

    def per_class(self, n_classes: int) -> int:
        """The number of exemplars per class when ``n_classes`` classes are stored."""
        if self.policy == "per-class" or self.quota == 0:
            return self.quota
        if self.quota < n_classes:
            raise WhorlError(
                f"a memory of {self.quota} images has no room for {n_classes} classes; "
                f"raise `memory.quota` to at least {n_classes}"
            )
        return self.quota // n_classes

    def add(self, images: Tensor, labels: IntArray, tasks: IntArray | int) -> Memory:
        """The memory with these exemplars, every class cut to the number its quota allows.

        The exemplars given for a class replace those stored for it. To improve a class that is already stored, select
        among the stored exemplars and the new samples together, and add the result. ``tasks`` are the numbers of the
        deliveries the exemplars came in.
        """
        return self.replaced(images, labels, tasks)[0]

    def replaced(self, images: Tensor, labels: IntArray, tasks: IntArray | int) -> tuple[Memory, IntArray]:
        """Like ``add``, and where each exemplar came from: its position here, or ``len(self)`` + that in ``images``."""
        _check(images, labels, self.images if len(self) else images)
        if self.quota == 0 or not len(labels):
            return self, np.arange(len(self))
        every_label = np.concatenate([self.labels, labels.astype(np.int64)])
        every_task = np.concatenate([self.tasks, np.broadcast_to(tasks, len(labels)).astype(np.int64)])
        every_image = torch.cat([self.images, images.cpu()]) if len(self) else images.cpu()
        stays = np.append(~np.isin(self.labels, labels), np.ones(len(labels), dtype=np.bool_))
        order = np.flatnonzero(stays)
        order = order[np.argsort(every_label[order], kind="stable")]
        keep = order[_ranks(every_label[order]) < self.per_class(len(np.unique(every_label)))]
        after = replace(
            self, images=every_image[torch.from_numpy(keep)], labels=every_label[keep], tasks=every_task[keep]
        )
        return after, keep

    @property
    def ranks(self) -> IntArray:
        """The rank of each exemplar within its class."""
        return _ranks(self.labels)

    @cached_property
    def source(self) -> ImageSource:
        """The exemplars as a source of samples."""
        return in_memory(self.images)

    def state(self) -> dict[str, Tensor]:
        """The exemplars as tensors. Policy and quota belong to the config."""
        return {
            "images": self.images,
            "labels": torch.from_numpy(self.labels.copy()),
            "tasks": torch.from_numpy(self.tasks.copy()),
        }

    @classmethod
    def from_state(cls, policy: Policy, quota: int, state: Mapping[str, Tensor]) -> Memory:
        """The memory with this ``state``."""
        return cls(policy, quota, state["images"], state["labels"].numpy(), state["tasks"].numpy())


def _ranks(labels: IntArray) -> IntArray:
    """The position of each sample among those of its label."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(labels)) - np.searchsorted(ordered, ordered)
    return ranks


def _check(images: Tensor, labels: IntArray, stored: Tensor) -> None:
    pictures = images.dtype == torch.uint8 and images.ndim == 4 and images.shape[3] == 3
    if not pictures and not (images.dtype == torch.float32 and images.ndim == 2):
        raise ValueError(
            f"exemplars must be uint8 [n, S, S, 3] or float32 [n, D], not {images.dtype} {tuple(images.shape)}"
        )
    if labels.shape != (len(images),):
        raise ValueError(f"{len(images)} exemplars need as many labels, not {labels.shape}")
    if images.shape[1:] != stored.shape[1:]:
        raise ValueError(f"exemplars of {tuple(images.shape[1:])} do not fit a memory of {tuple(stored.shape[1:])}")
