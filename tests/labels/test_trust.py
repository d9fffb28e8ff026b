"""Trust in the surer part of a cluster, against loops and whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import checks
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import check, run
from whorl.labels.trust import margins, unsure
from whorl.methods import METHODS
from whorl.metrics.match import matched_accuracy
from whorl.reporter import Silent
from whorl.runs.run import Run
from whorl.types import FloatArray, IntArray


def groups(n: int = 60, k: int = 4) -> tuple[FloatArray, IntArray]:
    draws = np.random.default_rng(7)
    labels = np.concatenate([np.arange(k), draws.integers(0, k, n - k)])
    return (draws.normal(size=(k, 5))[labels] + draws.normal(size=(n, 5))).astype(np.float32), labels


def by_loops(features: FloatArray, labels: IntArray, k: int) -> list[float]:
    means = [
        np.mean([f.astype(np.float64) for f, g in zip(features, labels, strict=True) if g == j], 0) for j in range(k)
    ]
    out = []
    for f, own in zip(features, labels, strict=True):
        lengths = [float(np.sqrt(((f - mean) ** 2).sum())) for mean in means]
        out.append(min(length for j, length in enumerate(lengths) if j != own) - lengths[own])
    return out


def test_margins() -> None:
    features, labels = groups()
    np.testing.assert_allclose(margins(features, labels, 4), by_loops(features, labels, 4), atol=1e-4)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9])
def test_the_least_sure_part_of_each_group_is_held_back(share: float) -> None:
    features, labels = groups()
    found, expected = by_loops(features, labels, 4), []
    for j in range(4):
        mine = sorted((i for i in range(60) if labels[i] == j), key=lambda i: -found[i])
        expected += mine[int(np.ceil(share * len(mine))) :]
    assert unsure(features, labels, 4, share).tolist() == sorted(expected)


def test_full_trust_holds_nothing_back_and_ties_keep_the_first() -> None:
    features, labels = groups()
    assert not len(unsure(features, labels, 4, 1.0))
    assert unsure(np.ones((6, 2), dtype=np.float32), np.array([0, 0, 0, 1, 1, 1]), 2, 0.5).tolist() == [2, 5]


def test_a_single_group() -> None:
    features = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    groups = np.zeros(3, dtype=np.int64)
    np.testing.assert_allclose(margins(features, groups, 1), [-2, -1, -3])
    assert unsure(features, groups, 1, 0.5).tolist() == [2]


def test_surer_parts_are_purer() -> None:
    draws = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 200)
    features = (draws.normal(size=(3, 8))[truth] + 0.9 * draws.normal(size=(600, 8))).astype(np.float32)
    from sklearn.cluster import KMeans

    labels = KMeans(3, n_init=5, random_state=0).fit_predict(features).astype(np.int64)
    left = np.setdiff1d(np.arange(600), unsure(features, labels, 3, 0.5))
    everything = matched_accuracy(labels, truth, 3, 3)
    assert matched_accuracy(labels[left], truth[left], 3, 3) > everything + 0.03


def test_held_back_samples_are_neither_trained_on_nor_stored(small_data: Dataset) -> None:
    config = checks.small_config(pseudo__trust=0.4, train__augment="none")
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    halts = list(learner.learn(stream[1], Silent()))
    labels = halts[0].labels
    images = stream[1].images.read(np.arange(len(labels.ids)))
    held_back = {images[i].numpy().tobytes() for i in labels.unsure}
    for j in labels.new_ids:
        mine = int((labels.ids == j).sum())
        assert np.isin(labels.unsure, np.flatnonzero(labels.ids == j)).sum() == mine - int(np.ceil(0.4 * mine))
    stored = [image.numpy().tobytes() for image in learner.memory.images]
    assert stored
    assert not held_back & set(stored)
    before = checks.small_config(train__augment="none")
    trained = halts[0].record
    assert trained is not None
    assert before.train.epochs == 2
    exemplars = 4 * 2
    assert trained.images == len(labels.ids) - len(labels.unsure) + exemplars


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"joint"}))
def test_every_method_learns_the_surer_half_and_resumes(method: str, small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(method__name=method, pseudo__trust=0.5)
    whole = run(config, small_data, tmp_path / "whole")
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path / "parts", reporter=checks.StopsInTask2())
    position = checks.stored(tmp_path / "parts" / whole.path.name)
    assert len(position["epoch.safetensors:unsure"])
    run(config, small_data, tmp_path / "parts")
    assert checks.same(checks.stored(whole.path), checks.stored(tmp_path / "parts" / whole.path.name))


def test_all_samples_count_for_the_accuracy_of_labels(small_data: Dataset, tmp_path: Path) -> None:
    """The clusters do not depend on trust, so neither does the accuracy of the labels of task 2."""
    one, other = (run(checks.small_config(pseudo__trust=share), small_data, tmp_path) for share in (0.5, 1.0))
    assert one.steps[1].label_acc == other.steps[1].label_acc
    first, second = (Run(result.path, result.config).labels(2)[1] for result in (one, other))
    assert np.array_equal(first, second)
    assert not checks.same(checks.stored(one.path), checks.stored(other.path))


def test_bad_combinations() -> None:
    for changes, message in (
        ({"method__name": "joint"}, r"joint learns all samples again in every step; set `pseudo.trust=1`"),
        ({"labels": "corrupted", "label_acc": 0.8}, r"leave out `pseudo.trust`"),
    ):
        with pytest.raises(WhorlError, match=message):
            check(checks.small_config(pseudo__trust=0.5, **changes))


def test_margins_are_those_of_what_is_clustered(small_data: Dataset) -> None:
    """With ``cluster.l2``, the features at length one."""
    config = checks.small_config(pseudo__trust=0.5, cluster__l2=True)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    labels = learner.label(stream[1], Silent())
    features = learner.sight().current(stream[1].images)
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    assert np.array_equal(labels.unsure, unsure(units, labels.ids - 2, 2, 0.5))


def test_given_labels_are_trusted(small_data: Dataset) -> None:
    config = checks.small_config(pseudo__trust=0.5)
    learner = checks.make_learner(config, small_data)
    assert isinstance(learner, Learner)
    stream = checks.streams(checks.small_config(labels="given"), small_data)
    halts = list(learner.learn(stream[0], Silent()))
    assert not len(halts[0].labels.unsure)
    assert torch.equal(torch.from_numpy(halts[0].labels.ids), torch.from_numpy(np.sort(halts[0].labels.ids)))
