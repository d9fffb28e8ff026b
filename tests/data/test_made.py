"""The data sets that need no files: digits and synthetic, with and without options."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from whorl.data import DataOptions, Dataset, load
from whorl.types import ImageSource


def pixels(source: ImageSource) -> torch.Tensor:
    return source.read(np.arange(len(source)))


def test_digits_are_the_bundled_ones() -> None:
    data = load("digits", None)
    grey, labels = load_digits(return_X_y=True)
    everything = torch.cat([pixels(data.train), pixels(data.test)])
    assert (data.train.size, data.train.resident) == (8, True)
    assert (data.inputs.kind, data.inputs.size, data.inputs.view, data.inputs.mirrors) == ("images", 8, "shift", False)
    assert torch.equal(everything[..., 0], everything[..., 2])
    ours = np.rint(everything[..., 0].double().numpy() * 16 / 255).reshape(-1, 64)
    both = np.column_stack([ours, np.concatenate([data.train_labels, data.test_labels])])
    theirs = np.column_stack([grey, labels])
    assert np.array_equal(both[np.lexsort(both.T)], theirs[np.lexsort(theirs.T)])


def test_digits_split_and_statistics() -> None:
    data = load("digits", None)
    shares = np.bincount(data.test_labels) / (np.bincount(data.train_labels) + np.bincount(data.test_labels))
    assert np.abs(shares - 0.2).max() < 0.005
    values = pixels(data.train).double() / 255
    assert data.inputs.mean[0] == pytest.approx(values.mean().item(), abs=1e-4)
    assert data.inputs.std[0] == pytest.approx(values.std().item(), abs=2e-4)


def score(model: object, data: Dataset) -> float:
    train, test = (pixels(source).flatten(1).numpy().astype(np.float32) for source in (data.train, data.test))
    return float(model.fit(train, data.train_labels).score(test, data.test_labels))  # type: ignore[attr-defined]


def test_synthetic_is_learnable_but_not_by_mean_images() -> None:
    data = load("synthetic", None)
    assert (len(data.train), len(data.test), len(data.class_names), data.inputs.size) == (1000, 200, 10, 16)
    assert 0.5 < score(NearestCentroid(), data) < 0.9
    assert score(KNeighborsClassifier(1), data) > 0.95


def test_synthetic_is_the_same_each_time_and_classes_do_not_depend_on_their_number() -> None:
    few, many = (load("synthetic", None, DataOptions(classes=n)) for n in (3, 6))
    assert torch.equal(pixels(few.train), pixels(many.train)[:300])
    assert torch.equal(pixels(few.test), pixels(load("synthetic", None, DataOptions(classes=3)).test))


def test_synthetic_makes_as_many_images_as_requested() -> None:
    data = load("synthetic", None, DataOptions(classes=30, per_class=120))
    assert np.bincount(data.train_labels).tolist() == [120] * 30
    assert np.bincount(data.test_labels).tolist() == [20] * 30
    assert len(data.train) == 3600
