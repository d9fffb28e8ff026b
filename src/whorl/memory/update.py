"""Updating the memory after a step: exemplars of new classes, and better exemplars of known ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whorl.memory.holdout import is_held_out, positions, weave
from whorl.memory.memory import Memory
from whorl.memory.nme import class_means
from whorl.memory.select import Selection, exemplars
from whorl.nets.extract import Features
from whorl.seeds import derive
from whorl.types import FloatArray, ImageSource, IntArray, Labelling


@dataclass(frozen=True)
class Update:
    """What a delivery offers to the memory."""

    number: int
    """The number of the delivery, counted from 1."""
    images: ImageSource
    labels: Labelling
    held: IntArray
    """The samples that were held out for validation."""
    hold_out_every: int
    """One in this many exemplars is a held-out sample; 0 means none."""
    features: Callable[[ImageSource], FloatArray]
    """The features of samples by the model after the step."""


@dataclass(frozen=True)
class _Addition:
    """Exemplars to store: samples, labels, delivery numbers, features."""

    images: Tensor
    labels: IntArray
    tasks: IntArray
    features: FloatArray


def updated(memory: Memory, update: Update, how: Selection) -> tuple[Memory, FloatArray]:
    """The memory after a delivery, and the features of its exemplars by the model after the step.

    New classes get exemplars by Algorithm 2. For known classes with samples in the delivery, exemplars are selected
    among the stored ones and the new samples together; a sample that is stored already is offered once.
    """
    old = update.features(memory.source) if len(memory) else np.empty((0, 0), dtype=np.float32)
    if how.quota == 0 or not len(update.labels.ids):
        return memory, old
    new = update.features(update.images)
    additions = [_improved(memory, (old, new), update, how, int(label)) for label in update.labels.known_ids]
    if update.labels.new:
        additions.append(_of_new_classes(update, new, how))
    if not additions:
        return memory, old
    labels = np.concatenate([one.labels for one in additions])
    images, tasks = torch.cat([one.images for one in additions]), np.concatenate([one.tasks for one in additions])
    found = np.concatenate([one.features for one in additions])
    after, origin = memory.replaced(images, labels, tasks)
    return after, np.concatenate([old, found])[origin] if len(memory) else found[origin]


def exemplar_means(memory: Memory, seen: FloatArray, features: Features, mirror: bool) -> FloatArray:
    """The class means of the exemplars, whose features are ``seen``, and of their mirror images if ``mirror``."""
    labels = memory.labels
    if mirror:
        seen, labels = np.concatenate([seen, features(memory.source, mirror=True)]), np.tile(labels, 2)
    return class_means(seen, labels, features.model.classes)


def _of_new_classes(update: Update, features: FloatArray, how: Selection) -> _Addition:
    labels = update.labels
    trained = np.setdiff1d(np.flatnonzero(labels.is_new), np.union1d(update.held, labels.unsure))
    offered = Labelling(labels.ids[trained], labels.known, labels.new)
    chosen, ids = exemplars(features[trained], offered, how)
    indices = trained[chosen]
    if update.hold_out_every:
        held = update.held
        both = [weave(indices[ids == j], held[labels.ids[held] == j], update.hold_out_every) for j in labels.new_ids]
        indices, ids = np.concatenate(both), np.repeat(labels.new_ids, [len(one) for one in both])
    return _Addition(
        update.images.read(indices).cpu(), ids.astype(np.int64), np.full(len(ids), update.number), features[indices]
    )


def _improved(
    memory: Memory, known: tuple[FloatArray, FloatArray], update: Update, how: Selection, label: int
) -> _Addition:
    """The best exemplars of a known class among the stored ones and the delivery's samples.

    ``known`` are the features of both. Samples that were held out before, or are now, stay held out: none of them is
    ever trained on. A delivered sample that is stored already is left out, and the stored one keeps its role.
    """
    stored = np.flatnonzero(memory.labels == label)
    mine = np.setdiff1d(np.flatnonzero(update.labels.ids == label), update.labels.unsure)
    images = update.images.read(mine).cpu()
    if len(stored):
        there = memory.images[torch.from_numpy(stored)]
        unseen = positions(there, images) < 0
        mine, images = mine[unseen], torch.cat([there, images[torch.from_numpy(unseen)]])
    features = np.concatenate([known[0][stored], known[1][mine]]) if len(stored) else known[1][mine]
    tasks = np.concatenate([memory.tasks[stored], np.full(len(mine), update.number)])
    every, held = update.hold_out_every, np.zeros(len(features), dtype=np.bool_)
    if every:
        held[is_held_out(memory.ranks[stored], every)] = True
        held[len(stored) :] = np.isin(mine, update.held)
    pool = np.flatnonzero(~held)
    ranked = pool[how.selector(features[pool], how.quota, derive(how.seed, "improve", label), None)]
    if every:
        ranked = weave(ranked, np.flatnonzero(held), every)
    chosen = torch.from_numpy(ranked)
    return _Addition(images[chosen], np.full(len(ranked), label), tasks[ranked], features[ranked])
