"""Regrouping a learner's state: rows of the head, exemplars and deliveries, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from small import deliveries, learn, small_learner
from whorl import Whorl
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.regroup import Regrouping, regrouped
from whorl.state import State

HEAD = {
    "backbone.x": torch.tensor([7.0]),
    "head.weight": torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 6.0], [9.0, 9.0]]),
    "head.bias": torch.tensor([1.0, 2.0, 4.0, 8.0]),
    "head.means": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]]),
    "head.counts": torch.tensor([1.0, 3.0, 0.0, 5.0]),
    "head.newest": torch.tensor([False, False, True, True]),
    "head.eta": torch.tensor(2.0),
}
MEMORY = {
    "images": torch.arange(7, dtype=torch.uint8).reshape(7, 1, 1, 1).expand(7, 2, 2, 3),
    "labels": torch.tensor([0, 0, 1, 1, 2, 3, 3]),
    "tasks": torch.tensor([1, 1, 1, 1, 2, 2, 2]),
}
STATE = State(HEAD, {}, MEMORY, np.ones((4, 2), np.float32), (2, 2), ("a", "b", "c", "d"), Inputs.images(2))


def test_classes_are_merged_and_dropped() -> None:
    how = Regrouping({"a": "a", "b": "b", "c": "a", "d": None}, ["a", "a", "b", "b", "a", None, None])
    found = regrouped(STATE, how)
    assert (found.names, found.sizes) == (("a", "b"), (2, 0))
    assert found.means is None
    expected = {
        "backbone.x": [7.0],
        "head.weight": [[3.0, 3.0], [3.0, 2.0]],
        "head.bias": [2.5, 2.0],
        "head.means": [[1.0, 0.0], [0.0, 1.0]],  # class c had no observations
        "head.counts": [1.0, 3.0],
        "head.newest": [True, False],
        "head.eta": 2.0,
    }
    assert {name: value.tolist() for name, value in found.model.items()} == expected
    assert found.memory["labels"].tolist() == [0, 0, 0, 1, 1]
    assert found.memory["images"][:, 0, 0, 0].tolist() == [0, 4, 1, 2, 3]  # the first of each part, then the second
    assert found.memory["tasks"].tolist() == [1, 2, 1, 1, 1]


def test_means_are_weighted_by_their_counts() -> None:
    found = regrouped(STATE, Regrouping({"b": "a"}, ["a"] * 4 + ["c", "d", "d"]))
    assert found.names == ("a", "c", "d")
    assert found.sizes == (1, 2)
    assert found.model["head.means"][0].tolist() == [0.25, 0.75]
    assert found.model["head.counts"].tolist() == [4.0, 0.0, 5.0]


def test_nothing_to_regroup() -> None:
    found = regrouped(STATE, Regrouping({}, ["a", "a", "b", "b", "c", "d", "d"]))
    assert all(torch.equal(found.model[name], value) for name, value in STATE.model.items())
    assert all(torch.equal(found.memory[name], value) for name, value in STATE.memory.items())
    assert replace(found, model=STATE.model, memory=STATE.memory, means=STATE.means) == STATE


def test_what_cannot_be_regrouped() -> None:
    with pytest.raises(WhorlError, match="if one of them stays"):
        regrouped(STATE, Regrouping(dict.fromkeys("abcd"), [None] * 7))
    with pytest.raises(ValueError, match="7 exemplars need as many classes, not 2"):
        regrouped(STATE, Regrouping({}, ["a", "a"]))


@pytest.mark.parametrize("method", ["ours", "icarl", "lucir", "wa", "bic", "ilio"])
def test_learners_of_all_heads_go_on(method: str, small_data: Dataset) -> None:
    own: dict[str, Any] = {"bic": {"method__every": 2}, "ilio": {"train__epochs": 1}}.get(method, {})
    learner = small_learner(small_data, method__name=method, **own)
    learn(learner, deliveries(small_data, labels_given=True)[:2])
    labels = [learner.names[label] for label in learner.memory.labels]
    how = Regrouping({3: 0}, [0 if name == 3 else name for name in labels])
    after = small_learner(small_data, method__name=method, **own)
    after.restore(regrouped(learner.state(), how))
    assert (after.names, after.sizes, after.known) == ((0, 1, 2), (2, 1), 3)
    assert after.means is None or after.means.shape[0] == 3
    learn(after, deliveries(small_data)[2:3])
    assert after.known == 5


def test_an_estimator_learns_corrections(small_data: Dataset) -> None:
    images = small_data.train.read(np.arange(len(small_data.train))).numpy()
    names = np.array(["a", "b", "c", "d", "e", "f"])[small_data.train_labels]
    options = {"train.epochs": 2, "train.first_epochs": 2, "memory.quota": 4}
    model = Whorl(net="tiny", recipe="demo", options=options, verbose=0).learn(images, names)
    before = model.predict_proba(images)
    exemplars = [
        None if name == "f" else "a" if name == "b" else str(name) for name in model.classes_[model.memory_.labels]
    ]
    how = Regrouping({"b": "a", "f": None}, exemplars)
    for _ in model.learning(images[names == "c"], names[names == "c"], regroup=how):
        assert np.array_equal(model.predict_proba(images), before)  # nothing changes before the end
    assert model.classes_.tolist() == ["a", "c", "d", "e"]
    assert [each.classes for each in model.deliveries_] == [("a", "c", "d", "e"), ()]
    assert set(model.predict(images)) <= set("acde")


def test_a_regrouped_model_is_stored(small_data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> None:
    images = small_data.train.read(np.arange(len(small_data.train))).numpy()
    options = {"train.epochs": 1, "train.first_epochs": 1, "memory.quota": 2}
    model = Whorl(net="tiny", recipe="demo", options=options, verbose=0).learn(images, small_data.train_labels)
    labels = model.classes_[model.memory_.labels]
    how = Regrouping({5: 4}, [min(int(label), 4) for label in labels])
    for _ in model.learning(images[:10], small_data.train_labels[:10], regroup=how):
        pass
    folder = tmp_path_factory.mktemp("stored")
    model.save(folder)
    assert np.array_equal(Whorl.load(folder, verbose=0).predict_proba(images), model.predict_proba(images))
