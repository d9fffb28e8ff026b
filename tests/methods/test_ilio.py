"""ILIO: each new image is in one block, each block makes two updates, and class means are updated online."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import checks
from references import accommodate, eq1, eq2, unit, wide
from scenes import features_of, heard, names_of, read_all, scene, seen_by, stored_bytes, watch
from whorl.data.source import Dataset
from whorl.data.stream import Stream
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.methods import method_class
from whorl.methods.base import Batch
from whorl.methods.ilio import paired
from whorl.nets.heads import MeansHead
from whorl.reporter import Silent
from whorl.types import IntArray, granted


def train_online(learner: Learner, stream: Stream, task: int) -> list[list[int]]:
    """Which new images each batch of the online phase read, up to the end of training."""
    counting = checks.Logged(stream[task - 1].images)
    halts = learner.learn(replace(stream[task - 1], images=counting), Silent())
    halt = next(halts)
    log = counting.log[1:]  # the first read is a check of the kind of samples
    assert halt.record is not None
    assert halt.record.phase == "online"
    assert (halt.record.epochs, halt.record.lr) == (1, 0.01)
    assert next(halts, None) is None  # a single pass
    return log


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("block", "sizes"), [(16, [16, 16, 8]), (13, [13, 13, 14])])
def test_every_new_image_is_in_one_block(
    strict: bool, block: int, sizes: list[int], small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where the images are read: a block makes exactly two updates, or one with ``strict``.

    The second goes with as many exemplars, which come in turn; a last block of one joins the one before.
    """
    plain = checks.without_views(small_data)
    options = {"method__block": block, "method__strict": strict}
    config = checks.small_config(method__name="ilio", labels="given", memory__quota=7, **options)
    learner, stream = checks.make_learner(config, plain), checks.streams(config, plain)
    checks.learn(learner, stream[:1])
    exemplars = names_of(learner.memory.images)
    batches: list[tuple[list[int], list[bytes]]] = []

    def tell(batch: Batch) -> None:
        batches.append((batch.labels.tolist(), names_of(stored_bytes(batch, learner.inputs))))

    watch(monkeypatch, lambda phase, model: heard(phase, tell))
    log = train_online(learner, stream, 2)
    blocks, seconds = log[::2], log[1::2]
    assert [len(one) for one in blocks] == sizes
    assert sorted(index for one in blocks for index in one) == list(range(40))
    assert seconds == [[]] * 3 if strict else [sorted(one) for one in seconds] == [sorted(one) for one in blocks]
    rehearsed: Counter[bytes] = Counter()
    for number, (labels, names) in enumerate(batches):
        new = [label for label in labels if label >= 2]
        if number % 2 == 0:
            assert len(new) == len(labels) == sizes[number // 2]
            continue
        assert len(new) == (0 if strict else sizes[number // 2])
        assert len(labels) - len(new) == sizes[number // 2]
        rehearsed.update(name for name, label in zip(names, labels, strict=True) if label < 2)
    assert set(rehearsed) == set(exemplars)
    assert sorted(rehearsed.values()) == [2] * 2 + [3] * 12  # 40 turns over 14 exemplars


def test_blocks_are_shuffled(small_data: Dataset) -> None:
    config = checks.small_config(method__name="ilio", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    order = [index for one in train_online(learner, stream, 2)[::2] for index in one]
    assert order != sorted(order)
    labels = granted(stream[1].labels)[order[:16]]
    assert 2 < np.count_nonzero(labels == 2) < 14  # a block has both classes


@pytest.mark.parametrize(("task", "first", "old"), [(2, 2, 2), (2, 4, 4), (3, 2, 4)])
def test_loss_of_a_block(task: int, first: int, old: int, small_data: Dataset) -> None:
    """Eq. 3; in its cross-entropy, old logits are the mean of the student's and the teacher's."""
    at = scene(small_data, task, method__name="ilio", stream__first=first)
    batch = at.batch(labels=old + torch.arange(12) % 2)
    logits, labels, teacher = wide(batch.logits), batch.labels.numpy(), at.teacher(batch)
    alpha = old / (old + 2)
    blended = accommodate(logits, teacher, 0.5)
    expected = alpha * eq1(logits, teacher, 2.0) + (1 - alpha) * eq2(blended, labels)
    phase = at.phase()
    for number in (0, 2, 8):
        assert phase.loss(replace(batch, number=number)).item() == pytest.approx(expected, rel=1e-4)
    assert eq2(blended, labels) != pytest.approx(eq2(logits, labels), rel=1e-2)


def test_loss_of_the_balanced_update(small_data: Dataset) -> None:
    """Plain cross-entropy over all classes."""
    at = scene(small_data, 2, method__name="ilio")
    batch = at.batch()
    expected = eq2(wide(batch.logits), batch.labels.numpy())
    for number in (1, 3, 9):
        assert at.phase().loss(replace(batch, number=number)).item() == pytest.approx(expected, rel=1e-5)


def test_options_reach_the_loss(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="ilio", method__accommodation=0.9, method__temperature=3.0)
    batch = at.batch()
    logits, teacher = wide(batch.logits), at.teacher(batch)
    expected = 0.5 * eq1(logits, teacher, 3.0) + 0.5 * eq2(accommodate(logits, teacher, 0.9), batch.labels.numpy())
    assert at.phase().loss(batch).item() == pytest.approx(expected, rel=1e-4)


def means_head(learner: Learner) -> MeansHead:
    head = learner.model.head
    assert isinstance(head, MeansHead)
    return head


def test_running_class_means(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each feature f of a block's first update: mean ← (count · mean + f) / (count + 1).

    Those of task 1 are computed after its training.
    """
    config = checks.small_config(method__name="ilio", labels="given")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    means, counts = np.zeros((6, 32)), np.zeros(6)

    def observe(features: np.ndarray, labels: IntArray) -> None:
        for f, label in zip(unit(features), labels, strict=True):
            means[label] = (counts[label] * means[label] + f) / (counts[label] + 1)
            counts[label] += 1

    observe(features_of(learner.model, read_all(stream[0].images), learner.inputs), granted(stream[0].labels))
    np.testing.assert_allclose(wide(means_head(learner).means), means[:2], atol=1e-5)
    assert means_head(learner).counts.tolist() == [20, 20]

    def tell(batch: Batch) -> None:
        if batch.number % 2 == 0:
            observe(wide(batch.features), batch.labels.numpy())

    watch(monkeypatch, lambda phase, model: heard(phase, tell))
    checks.learn(learner, stream[1:])
    np.testing.assert_allclose(wide(means_head(learner).means), means, atol=1e-5)
    assert means_head(learner).counts.tolist() == counts.tolist() == [20] * 6
    scores = learner.classifier.scores(small_data.test)
    z, centres = unit(features_of(learner.model, read_all(small_data.test), learner.inputs)), unit(means)
    expected = [[-np.sum((row - centre) ** 2) for centre in centres] for row in z]
    np.testing.assert_allclose(scores["ncm"], expected, atol=1e-3)
    assert set(scores) == {"fc", "nme", "ncm"}
    assert learner.config.classifier == "fc"


def in_turn(new: int, old: int, size: int, strict: bool, draws: torch.Generator) -> list[list[int]]:
    """Blocks taken from a shuffled order one by one, and exemplars from a shuffled ring."""
    order: list[int] = torch.randperm(new, generator=draws).tolist()
    ring = [new + position for position in torch.randperm(old, generator=draws).tolist()]
    blocks: list[list[int]] = []
    while order:
        take = size + 1 if len(order) == size + 1 else size
        blocks.append(order[:take])
        order = order[take:]
    out: list[list[int]] = []
    turn = 0
    for block in blocks:
        rehearsed = []
        for _ in block:
            rehearsed.append(ring[turn % old])
            turn += 1
        out += [block, rehearsed if strict else block + rehearsed]
    return out


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("size", [2, 3, 16])
def test_paired(strict: bool, size: int) -> None:
    for new, old in [(1, 1), (2, 5), (3, 1), (7, 2), (16, 40), (17, 3), (33, 7), (34, 7), (48, 100)]:
        expected = in_turn(new, old, size, strict, torch.Generator().manual_seed(new))
        found = paired(new, old, size, strict, torch.Generator().manual_seed(new))
        assert [batch.tolist() for batch in found] == expected
        assert all(batch.dtype == np.int64 for batch in found)
        blocks = [len(batch) for batch in found[::2]]
        assert sum(blocks) == new
        assert min(blocks) > 1 or new == 1
        uses = np.bincount(np.concatenate(found[1::2]), minlength=new + old)[new:]
        assert uses.max() - uses.min() <= 1


def test_the_number_of_epochs_is_fixed(small_data: Dataset) -> None:
    config = checks.small_config(method__name="ilio", train__epochs=3)
    with pytest.raises(WhorlError, match=r"uses each new image once, so `train\.epochs` must be 1"):
        method_class("ilio")(**config.method.options).check(config, (), True)
    config = checks.small_config(method__name="ilio", train__first_epochs=3)
    method_class("ilio")(**config.method.options).check(config, (), True)


def test_task_one_is_offline(small_data: Dataset) -> None:
    """Several shuffled passes with the recipe's optimiser, and plain cross-entropy."""
    at = scene(small_data, 1, method__name="ilio", train__first_epochs=5)
    (phase,) = at.learner.method.plan(at.step)
    assert (phase.name, phase.epochs, phase.batch) == ("train", 5, 16)
    assert phase.batches is None
    assert phase.after is None
    assert phase.optim == at.learner.config.optim.at(1)
    batch = seen_by(at.model, at.batch())
    for number in (0, 1):
        found = phase.loss(replace(batch, number=number)).item()
        assert found == pytest.approx(eq2(wide(batch.logits), batch.labels.numpy()), rel=1e-5)


def test_the_online_optimiser(small_data: Dataset) -> None:
    at = scene(small_data, 2, method__name="ilio", method__lr=0.03, method__block=8)
    phase = at.phase()
    assert (phase.optim.lr, phase.optim.schedule, phase.optim.momentum) == (0.03, "constant", 0.9)
    assert phase.optim.weight_decay == 1e-5 != at.learner.config.optim.weight_decay
    other = scene(small_data, 2, method__name="ilio", method__weight_decay=0.25).phase()
    assert other.optim.weight_decay == 0.25
    assert (phase.epochs, phase.batch) == (1, 8)
