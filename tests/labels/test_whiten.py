"""Whitening by the spread within labelled classes, against scikit-learn, and whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import checks
from whorl import Whorl
from whorl.cluster import KMeans
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import check, run
from whorl.labels.extractors import EXTRACTORS
from whorl.labels.whiten import Whitening
from whorl.metrics.match import matched_accuracy
from whorl.recipes import resolve
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run
from whorl.seeds import derive
from whorl.tree import override
from whorl.types import FloatArray, ImageSource, IntArray, granted


def classes(seed: int = 0, n: int = 400, d: int = 6) -> tuple[FloatArray, IntArray]:
    """Four classes, wide in the first dimensions and narrow in the last ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    spread = np.linspace(3, 0.2, d)
    points = rng.normal(size=(4, d))[labels] + rng.normal(size=(n, d)) * spread + 5
    return points.astype(np.float32), labels.astype(np.int64)


def test_against_shrunk_covariance_of_scikit_learn() -> None:
    """LDA's pooled covariance, shrunk by scikit-learn: the whitened one is the identity, up to the shrinkage."""
    points, labels = classes()
    found = Whitening.fit(points, labels)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(points.astype(np.float64), labels)  # priors as in the sample
    shrunk = shrunk_covariance(lda.covariance_, shrinkage=0.1)
    matrix = found.matrix.astype(np.float64)
    np.testing.assert_allclose(matrix @ shrunk @ matrix, np.eye(6), atol=1e-3)
    np.testing.assert_allclose(found.matrix, found.matrix.T, atol=1e-5)
    np.testing.assert_allclose(found.mean, points.mean(axis=0), rtol=1e-5)
    other, _ = classes(1)
    expected = (other - points.mean(axis=0)) @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found(other), expected, atol=1e-4)
    assert found(other).dtype == np.float32


def test_wide_directions_count_less() -> None:
    """New classes that differ in a narrow direction are found after whitening, and not before."""
    rng = np.random.default_rng(2)
    points, labels = classes(3, d=8)
    truth = np.arange(200) % 2
    spread = np.linspace(3, 0.2, 8)
    new = (rng.normal(size=(200, 8)) * spread + 5).astype(np.float32)
    new[:, -1] += 2 * truth

    def right(features: FloatArray) -> float:
        return matched_accuracy(KMeans().fit_predict(features, 2, 0).labels, truth, 2, 2)

    assert right(new) < 0.7
    assert right(Whitening.fit(points, labels)(new)) > 0.85


@pytest.mark.parametrize("same", [True, False])
def test_classes_that_do_not_vary(same: bool) -> None:
    """One sample per class, or equal samples: nothing is known about the spread, and nothing is scaled."""
    points = np.ones((4, 3), dtype=np.float32) if same else np.eye(4, 3, dtype=np.float32)
    found = Whitening.fit(points, np.arange(4))
    np.testing.assert_allclose(found.matrix, found.matrix[0, 0] * np.eye(3), atol=1e-6)
    assert np.isfinite(found(points)).all()


def test_fewer_samples_than_dimensions() -> None:
    points, labels = classes(n=5, d=40)
    assert np.isfinite(Whitening.fit(points, labels)(points)).all()


@pytest.mark.parametrize("features", ["first", "networks"])
def test_what_is_clustered(features: str, small_data: Dataset) -> None:
    """After two tasks: features of the initial networks, whitened by what the first delivery showed."""
    several = {"pseudo__networks": 2} if features == "networks" else {}
    config = checks.small_config(pseudo__features=features, pseudo__transform="root", pseudo__whiten=True, **several)
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)

    def rooted(images: ImageSource) -> FloatArray:
        sight = learner.sight()
        return learner.labeler.features(images, lambda asked: EXTRACTORS[features](asked, sight), learner.inputs)

    checks.learn(learner, stream[:1])
    first, third = rooted(stream[0].images), rooted(stream[2].images)
    assert first.shape[1] == (2 if features == "networks" else 1) * learner.model.dim
    expected = Whitening.fit(first, granted(stream[0].labels))(third)
    checks.learn(learner, stream[1:2])
    groups = learner.labeler.clusterer.fit_predict(expected, 2, derive(config.seed, "cluster", 3)).labels
    found = learner.labeler.label(stream[2], 3, learner.known, learner.sight())
    assert np.array_equal(found.ids - found.known, groups)


def test_a_saved_model_keeps_it(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (36, 16, 16, 3), dtype=np.uint8)
    options = {"pseudo.whiten": True, "pseudo.features": "first", "train.first_epochs": 1, "train.epochs": 1}
    model = Whorl(net="tiny", options=options, verbose=0).learn(images[:18], np.arange(18) % 3)
    model.save(tmp_path)
    again = Whorl.load(tmp_path, verbose=0)
    for each in (model, again):
        each.learn(images[18:], new=2)
    assert np.array_equal(model.labels_, again.labels_)


@pytest.mark.parametrize(("how", "message"), [("missing", "it has no whitening"), ("shape", "whitening of features")])
def test_a_damaged_file(how: str, message: str, small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(pseudo__features="first", pseudo__whiten=True)
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path, reporter=checks.StopsInTask2())
    path = Run.at(tmp_path, config).path / "task-01.safetensors"
    tensors, about = read_tensors(path)
    if how == "missing":
        del tensors["whitening.mean"]
    else:
        tensors["whitening.mean"] = tensors["whitening.mean"][:-1]
    write_tensors(path, tensors, about)
    with pytest.raises(WhorlError, match=message):
        run(config, small_data, tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"pseudo.features": "current"},
            r"which `pseudo.features=current` does not use; set it to first or networks",
        ),
        ({"pseudo.features": "scratch"}, r"or `pseudo.whiten=false`"),
        ({"pseudo.features": "first", "pseudo.refine": 1}, r"leave out `pseudo.refine`"),
    ],
)
def test_bad_combinations(asked: dict[str, object], message: str) -> None:
    wanted = {"data.name": "digits", "stream.step": 2, "pseudo.whiten": True, **asked}
    with pytest.raises(WhorlError, match=message):
        check(resolve(override(*wanted.items())))
