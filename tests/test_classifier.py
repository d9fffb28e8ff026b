"""The classifier against plain forward passes and formulas: immutable, and complete without the learner."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from references import softmax, unit
from small import deliveries, learn, small_learner
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.nets.heads import MeansHead
from whorl.reporter import Silent
from whorl.types import FloatArray, ImageSource


@pytest.fixture(scope="module")
def learner(small_data: Dataset) -> Learner:
    made = small_learner(small_data)
    learn(made, deliveries(small_data))
    return made


def forward(learner: Learner, images: ImageSource) -> tuple[FloatArray, FloatArray]:
    """Features and logits of the model in eval mode."""
    model = learner.model.eval()
    with torch.no_grad():
        out = model(learner.inputs.fixed(images.read(np.arange(len(images)))))
    return out.features.numpy(), out.logits.numpy()


def test_scores_by_hand(learner: Learner, small_data: Dataset) -> None:
    classifier, test = learner.classifier, small_data.test
    features, logits = forward(learner, test)
    np.testing.assert_allclose(classifier.features(test), features, rtol=1e-3, atol=1e-4)
    found = classifier.scores(test)
    assert list(found) == ["fc", "nme"]
    np.testing.assert_allclose(found["fc"], logits, rtol=1e-3, atol=1e-4)
    memory = learner.memory
    kept, _ = forward(learner, memory.source)
    for row, query in zip(found["nme"], unit(features.astype(np.float64)), strict=True):
        for label in range(6):
            mean = unit(kept[memory.labels == label].astype(np.float64)).mean(axis=0)
            distance = np.square(query - mean / np.linalg.norm(mean)).sum()
            assert row[label] == pytest.approx(-distance, abs=1e-3)


@pytest.mark.parametrize("rule", ["fc", "nme"])
def test_predictions_follow_the_rule(rule: str, learner: Learner, small_data: Dataset) -> None:
    classifier, test = dataclasses.replace(learner.classifier, rule=rule), small_data.test
    scores = classifier.scores(test)[rule]
    assert classifier.predict(test).tolist() == scores.argmax(axis=1).tolist()
    np.testing.assert_allclose(classifier.probabilities(test), softmax(scores.astype(np.float64)), atol=1e-6)


def test_means_are_computed_once(learner: Learner) -> None:
    """When a delivery has been learned; classifiers share them and have no exemplars."""
    classifier = learner.classifier
    assert classifier.means is not None
    assert learner.classifier.means is not None
    assert np.shares_memory(classifier.means, learner.classifier.means)
    np.testing.assert_allclose(np.linalg.norm(classifier.means, axis=1), 1, rtol=1e-5)
    assert not any(value is learner.memory for value in vars(classifier).values())


def test_a_classifier_stays_as_it_is_while_the_learner_learns(small_data: Dataset) -> None:
    learner, stream, test = small_learner(small_data), deliveries(small_data), small_data.test
    learn(learner, stream[:1])
    classifier = learner.classifier
    before = {name: scores.copy() for name, scores in classifier.scores(test).items()}
    learn(learner, stream[1:])
    after = classifier.scores(test)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert after["fc"].shape[1] == 2
    assert learner.classifier.scores(test)["fc"].shape[1] == 6
    assert not any(parameter.requires_grad for parameter in classifier.net.parameters())
    assert not classifier.net.training
    with pytest.raises(dataclasses.FrozenInstanceError):
        classifier.rule = "nme"  # type: ignore[misc]


def test_without_exemplars_there_is_no_nearest_mean(small_data: Dataset) -> None:
    learner = small_learner(small_data, method__name="finetune", memory__quota=0)
    learn(learner, deliveries(small_data)[:1])
    assert learner.classifier.means is None
    assert list(learner.classifier.scores(small_data.test)) == ["fc"]


def test_running_means_of_the_head_are_a_third_rule(small_data: Dataset) -> None:
    learner = small_learner(small_data, method__name="ilio", train__epochs=1)
    learn(learner, deliveries(small_data)[:2])
    classifier, head = learner.classifier, learner.model.head
    assert isinstance(head, MeansHead)
    features, _ = forward(learner, small_data.test)
    queries, means = unit(features.astype(np.float64)), unit(head.means.double().numpy())
    expected = -np.square(queries[:, None] - means[None]).sum(axis=2)
    np.testing.assert_allclose(classifier.scores(small_data.test)["ncm"], expected, atol=1e-3)


def test_names(small_data: Dataset) -> None:
    learner, stream = small_learner(small_data), deliveries(small_data, labels_given=True)
    for delivery, names in ((stream[0], ("cat", "dog")), (stream[1], ())):
        for _ in learner.learn(delivery, Silent(), names=names):
            pass
    assert learner.classifier.names == ("cat", "dog", 2, 3)
    with pytest.raises(ValueError, match="2 new classes need as many names, not 1"):
        for _ in learner.learn(stream[2], Silent(), names=("owl",)):
            pass
    assert learner.known == 4
