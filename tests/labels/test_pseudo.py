"""What pseudo labels are made from, and when they are made anew, against doing it by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from whorl.labels.pixels import pixels, principal_components

import checks
from whorl.cluster import Clusters, KMeans
from whorl.config import Config
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import check
from whorl.nets.extract import extract
from whorl.nets.model import Model, weights
from whorl.reporter import Silent
from whorl.seeds import derive
from whorl.types import FloatArray, IntArray


@dataclass
class Recorder:
    """k-means that remembers what it was given."""

    inner: KMeans
    seen: list[FloatArray] = field(default_factory=list)
    found: list[IntArray] = field(default_factory=list)

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        got = self.inner.fit_predict(features, k, seed)
        self.seen.append(features)
        self.found.append(got.labels)
        return got


def watched(config: Config, data: Dataset) -> tuple[Learner, Recorder]:
    learner = checks.make_learner(config, data)
    recorder = Recorder(KMeans(restarts=2))
    learner.labeler.clusterer = recorder
    return learner, recorder


def ours(**changes: Any) -> Config:
    return checks.small_config(memory__reading="reuse", **changes)


def test_features_of_the_first_model(small_data: Dataset) -> None:
    learner, recorder = watched(ours(pseudo__features="first"), small_data)
    stream = checks.streams(learner.config, small_data)
    checks.learn(learner, stream[:1])
    first = learner.frozen
    checks.learn(learner, stream[1:])
    assert len(recorder.seen) == 2
    for task, seen in zip(stream[1:], recorder.seen, strict=True):
        np.testing.assert_array_equal(seen, extract(first, task.images, learner.augment, learner.runtime))
    last = extract(learner.frozen, stream[2].images, learner.augment, learner.runtime)
    assert not np.allclose(recorder.seen[1], last)


def test_features_of_a_random_net(small_data: Dataset) -> None:
    """The same net in every task and for every history, in eval mode with the statistics it was born with."""
    learner, recorder = watched(ours(pseudo__features="scratch"), small_data)
    stream = checks.streams(learner.config, small_data)
    checks.learn(learner, stream)
    net = Model("tiny", "linear", True, derive(0, "scratch")).eval()
    for task, seen in zip(stream[1:], recorder.seen, strict=True):
        images = task.images.read(np.arange(len(task.images)))
        by_hand = net.backbone(learner.augment.look(images)).detach().numpy()
        np.testing.assert_allclose(seen, by_hand, rtol=1e-4, atol=1e-5)


def test_principal_components_against_a_full_decomposition(small_data: Dataset) -> None:
    """Up to the sign of a component, rows are the centred pixels times the first right singular vectors."""
    learner = checks.make_learner(ours(pseudo__features="pca"), small_data)
    images = checks.streams(learner.config, small_data)[1].images
    raw = images.read(np.arange(len(images))).numpy().astype(np.float64) / 255
    points = ((raw - small_data.mean) / small_data.std).transpose(0, 3, 1, 2).reshape(len(raw), -1)
    np.testing.assert_allclose(pixels(images, learner.augment), points, rtol=1e-4, atol=1e-4)
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    found = principal_components(images, learner.augment, 5, seed=0)
    expected = centred @ directions[:5].T
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-2, atol=1e-2)


def test_components_are_as_many_as_the_net_has_features_or_as_there_can_be(small_data: Dataset) -> None:
    learner, recorder = watched(ours(pseudo__features="pca"), small_data)
    checks.learn(learner, checks.streams(learner.config, small_data)[:2])
    assert recorder.seen[0].shape == (40, 32)  # 40 images, 192 values each, 32 features
    few = checks.streams(learner.config, small_data)[0].images
    assert principal_components(few, learner.augment, 500, seed=0).shape == (40, 40)


def test_refresh_comes_every_k_epochs_and_not_after_the_last(small_data: Dataset) -> None:
    learner, recorder = watched(ours(pseudo__refresh=2, train__epochs=6), small_data)
    stream = checks.streams(learner.config, small_data)
    checks.learn(learner, stream[:1])
    assert not recorder.seen  # labels are given in task 1
    changes, before = [], None
    for halt in learner.learn(stream[1], Silent()):
        changes.append(before is not None and not np.array_equal(before, halt.labels))
        before = halt.labels
    assert len(recorder.seen) == 3  # at the start, after epochs 2 and 4
    assert not any(changes[index] for index in (0, 2, 4, 5))
    np.testing.assert_array_equal(learner.learned[1].labels, before)


def test_refreshed_labels_are_aligned_and_learned_from(small_data: Dataset) -> None:
    """With two groups there are two ways to name them: the one that keeps more labels is taken."""
    learner, recorder = watched(ours(pseudo__refresh=1, train__epochs=3), small_data)
    stream = checks.streams(learner.config, small_data)
    checks.learn(learner, stream[:1])
    labels = [halt.labels for halt in learner.learn(stream[1], Silent())]
    current = recorder.found[0] + 2
    for groups, used in zip(recorder.found[1:], labels, strict=False):
        names = max(([2, 3], [3, 2]), key=lambda names: int((np.array(names)[groups] == current).sum()))
        np.testing.assert_array_equal(used, np.array(names)[groups])
        current = used
    assert set(learner.memory.labels[learner.memory.tasks == 2].tolist()) == {2, 3}


def test_reset_draws_the_new_rows_anew_and_forgets_their_momentum(small_data: Dataset) -> None:
    config = ours(pseudo__refresh=1, pseudo__ids="reset", train__epochs=2)
    learner, recorder = watched(config, small_data)
    stream = checks.streams(config, small_data)
    checks.learn(learner, stream[:1])
    steps = learner.learn(stream[1], Silent())
    halt = next(steps)
    bound = 32**-0.5
    rows = halt.model["head.weight"]
    assert rows[2:].abs().max() <= bound
    assert halt.momenta["head.weight"][2:].abs().max() == 0
    assert halt.momenta["head.weight"][:2].abs().max() > 0
    np.testing.assert_array_equal(halt.labels, recorder.found[1] + 2)  # as they come, without alignment
    assert not list(steps)[-1].model["head.weight"].equal(rows)


def test_a_refresh_that_never_comes_due_is_ours_bit_for_bit(small_data: Dataset) -> None:
    never, late = (
        checks.make_learner(ours(pseudo__refresh=refresh, train__epochs=3), small_data) for refresh in (0, 3)
    )
    for learner in (never, late):
        checks.learn(learner, checks.streams(learner.config, small_data))
    assert checks.same(weights(never.model), weights(late.model))
    assert checks.same(never.memory.state(), late.memory.state())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"labels": "given", "pseudo__refresh": 1}, "leave them out with --labels given"),
        ({"labels": "given", "pseudo__features": "pca"}, "leave them out with --labels given"),
        ({"pseudo__refresh": 1, "pseudo__features": "first"}, "it does not go with --features first"),
        ({"pseudo__refresh": 1, "method__name": "ilio"}, "ilio sees each image once; it does not go with --refresh"),
        ({"pseudo__refresh": 1, "method__name": "bic"}, "bic holds images out by their first labels"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(WhorlError, match=line):
        check(checks.small_config(**changes))
