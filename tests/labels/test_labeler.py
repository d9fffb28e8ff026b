"""The labels of deliveries: given ones, clusters, and clusters made again during training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from small import deliveries, learn, small_learner
from whorl.cluster import Clusters, KMeans
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Dataset
from whorl.engine import Learner
from whorl.errors import HiddenLabelError, WhorlError
from whorl.experiment import check
from whorl.labels.extractors import Sight
from whorl.labels.labeler import Labeler
from whorl.nets.model import weights
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.sections import PseudoConfig
from whorl.seeds import derive
from whorl.tree import override
from whorl.types import HIDDEN, Delivery, FloatArray, ImageSource, IntArray, Labelling, granted


@dataclass
class Recorder:
    """k-means that remembers its input and output."""

    inner: KMeans = field(default_factory=lambda: KMeans(restarts=2))
    seen: list[FloatArray] = field(default_factory=list)
    found: list[IntArray] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        got = self.inner.fit_predict(features, k, seed)
        self.seen.append(features)
        self.found.append(got.labels)
        self.seeds.append(seed)
        return got


def images(n: int) -> ArraySource:
    draws = torch.Generator().manual_seed(n)
    return ArraySource(torch.randint(0, 256, (n, 8, 8, 3), dtype=torch.uint8, generator=draws))


def rows(source: ImageSource) -> FloatArray:
    return np.asarray(source.read(np.arange(len(source))).flatten(1).float().numpy())


def corner(source: ImageSource, sight: Sight) -> FloatArray:
    return rows(source)[:, :4]


SIGHT = Sight(rows, rows, rows, Inputs.images(8), 192, 0)


def labeler(**config: Any) -> tuple[Labeler, Recorder]:
    recorder = Recorder()
    return Labeler(PseudoConfig(**config), 5, corner, recorder), recorder


def test_clusters_become_new_classes() -> None:
    """The extractor's features are clustered with a seed that belongs to the delivery; ids follow the known ones."""
    made, recorder = labeler()
    found = made.label(Delivery(images(20), new=3), number=4, known=7, sight=SIGHT)
    np.testing.assert_array_equal(recorder.seen[0], rows(images(20))[:, :4])
    assert recorder.seeds == [derive(5, "cluster", 4)]
    np.testing.assert_array_equal(found.ids, recorder.found[0] + 7)
    assert (found.known, found.new, found.new_ids.tolist()) == (7, 3, [7, 8, 9])
    assert found.is_new.all()
    assert found.known_ids.tolist() == []


def test_given_labels_may_mix_known_and_new_classes() -> None:
    made, recorder = labeler()
    ids = np.array([4, 0, 3, 4, 2, 0])
    found = made.label(Delivery(images(6), ids), number=2, known=3, sight=SIGHT)
    assert not recorder.seen
    np.testing.assert_array_equal(found.ids, ids)
    assert (found.known, found.new) == (3, 2)
    assert found.is_new.tolist() == [True, False, True, True, False, False]
    assert found.new_ids.tolist() == [3, 4]
    assert found.known_ids.tolist() == [0, 2]


def test_given_labels_may_hold_known_classes_only() -> None:
    found = labeler()[0].label(Delivery(images(3), np.array([1, 1, 0]), new=0), 2, 3, SIGHT)
    assert (found.new, found.new_ids.tolist(), found.known_ids.tolist()) == (0, [], [0, 1])


@pytest.mark.parametrize(
    ("delivery", "known", "line"),
    [
        (
            Delivery(images(4), np.array([3, 5, 3, 5])),
            3,
            "new classes must be numbered 3, 4, … without gaps; found 3, 5",
        ),
        (Delivery(images(2), np.array([-1, 0])), 3, "class ids must not be negative, found -1"),
        (Delivery(images(2), np.array([3, 4]), new=3), 3, r"the labels hold 2 new class\(es\), but 3 were announced"),
        (Delivery(images(3), np.array([0, 1])), 0, "there are 3 samples but 2 labels"),
        (Delivery(images(4)), 3, "state how many new classes to look for with `new`"),
        (Delivery(images(4), new=2), 0, "the initial delivery needs labels"),
        (Delivery(images(4), new=5), 3, "cannot make 5 clusters of 4 samples"),
        (Delivery(images(4), new=0), 3, "cannot make 0 clusters; ask for at least 1"),
    ],
)
def test_deliveries_that_cannot_be_labelled(delivery: Delivery, known: int, line: str) -> None:
    with pytest.raises(WhorlError, match=line) as caught:
        labeler()[0].label(delivery, 2, known, SIGHT)
    assert "\n" not in str(caught.value)


def test_an_empty_delivery_is_refused(small_data: Dataset) -> None:
    learner = small_learner(small_data)
    for delivery in (Delivery(images(0), np.array([], np.int64)), Delivery(images(0), new=2)):
        with pytest.raises(WhorlError, match="there are no samples"):
            next(learner.learn(delivery, Silent()))


def test_hidden_labels_cannot_be_used() -> None:
    assert Delivery(images(2)).labels is HIDDEN
    with pytest.raises(HiddenLabelError):
        granted(HIDDEN)
    for use in (list, len, np.asarray, bool, int, lambda labels: labels[0], lambda labels: labels == 1):
        with pytest.raises(HiddenLabelError):
            use(HIDDEN)


@pytest.mark.parametrize("ids", ["aligned", "reset"])
def test_refreshed_labels_by_hand(ids: str) -> None:
    """With two clusters there are two ways to name them: ``aligned`` takes the one that keeps more labels."""
    made, recorder = labeler(ids=ids, refresh=1)
    for seed in range(6):
        features = np.random.default_rng(seed).normal(size=(31, 2)).astype(np.float32)
        before = np.random.default_rng(seed + 10).integers(0, 2, 31) + 4
        found = made.refreshed(Labelling(before, 4, 2), features, number=3, done=seed)
        assert recorder.seeds[-1] == derive(5, "cluster", 3, seed)
        groups = recorder.found[-1]
        names = max(([4, 5], [5, 4]), key=lambda names: int((np.array(names)[groups] == before).sum()))
        np.testing.assert_array_equal(found.ids, np.array(names)[groups] if ids == "aligned" else groups + 4)
        assert (found.known, found.new) == (4, 2)


def test_when_labels_are_refreshed() -> None:
    made, _ = labeler(refresh=2)
    unlabelled, labelled = Delivery(images(4), new=2), Delivery(images(2), np.array([0, 1]))
    assert [done for done in range(1, 7) if made.due(unlabelled, done, 6)] == [2, 4]
    assert not any(made.due(labelled, done, 6) for done in range(1, 7))
    never, _ = labeler()
    assert not any(never.due(unlabelled, done, 6) for done in range(1, 7))


def watched(data: Dataset, **changes: Any) -> tuple[Learner, Recorder]:
    learner = small_learner(data, memory__reading="reuse", **changes)
    recorder = Recorder()
    learner.labeler.clusterer = recorder
    learn(learner, deliveries(data)[:1])
    assert not recorder.seen  # the initial delivery has labels
    return learner, recorder


def test_refresh_happens_every_k_epochs_and_not_after_the_last(small_data: Dataset) -> None:
    learner, recorder = watched(small_data, pseudo__refresh=2, train__epochs=6)
    labels = [halt.labels.ids for halt in learner.learn(deliveries(small_data)[1], Silent())]
    assert len(recorder.seen) == 3  # at the start, after epochs 2 and 4
    for epoch in (2, 4, 5):  # counted from 0; the others end with a refresh
        np.testing.assert_array_equal(labels[epoch], labels[epoch - 1])
    assert learner.labels is not None
    np.testing.assert_array_equal(learner.labels.ids, labels[-1])
    assert set(learner.memory.labels[learner.memory.tasks == 2].tolist()) == {2, 3}


def test_refresh_clusters_the_features_of_the_model_in_training(small_data: Dataset) -> None:
    learner, recorder = watched(small_data, pseudo__refresh=1, train__epochs=2)
    delivery = deliveries(small_data)[1]
    halt = next(iter(learner.learn(delivery, Silent())))
    then = small_learner(small_data)
    then.restore(learner.state())
    then.model = then._builder.model(halt.model)
    then.frozen = then.model.frozen()
    np.testing.assert_allclose(recorder.seen[1], then.classifier.features(delivery.images), rtol=1e-4, atol=1e-5)


def test_reset_draws_the_new_rows_again_and_clears_their_momentum(small_data: Dataset) -> None:
    learner, recorder = watched(small_data, pseudo__refresh=1, pseudo__ids="reset", train__epochs=2)
    steps = learner.learn(deliveries(small_data)[1], Silent())
    halt = next(steps)
    rows = halt.model["head.weight"]
    assert rows[2:].abs().max() <= 32**-0.5
    for name in ("head.weight", "head.bias"):
        momentum = halt.optimiser[f"{name}/momentum_buffer"]
        assert momentum[2:].abs().max() == 0
        assert momentum[:2].abs().max() > 0
    np.testing.assert_array_equal(halt.labels.ids, recorder.found[1] + 2)  # not aligned
    assert not list(steps)[-1].model["head.weight"].equal(rows)


def test_a_refresh_after_the_last_epoch_never_happens(small_data: Dataset) -> None:
    """``pseudo.refresh`` of at least the number of epochs changes nothing, bit for bit."""
    never, late = (small_learner(small_data, pseudo__refresh=refresh, train__epochs=3) for refresh in (0, 3))
    for learner in (never, late):
        learn(learner, deliveries(small_data))
    ours, theirs = weights(never.model), weights(late.model)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    memory = late.memory.state()
    assert all(torch.equal(value, memory[name]) for name, value in never.memory.state().items())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"labels": "given", "pseudo.refresh": 1}, "leave them out with `labels=given`"),
        ({"labels": "given", "pseudo.features": "pca"}, "leave them out with `labels=given`"),
        ({"pseudo.refresh": 1, "pseudo.features": "first"}, "cannot be combined with `pseudo.features=first`"),
        ({"pseudo.refresh": 1, "method.name": "ilio"}, "ilio uses each image once; it cannot be combined with"),
        ({"pseudo.refresh": 1, "method.name": "bic"}, "bic holds images out by their initial labels"),
    ],
)
def test_settings_that_exclude_each_other(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(WhorlError, match=line):
        check(resolve(override(("data.name", "synthetic"), *changes.items())))
