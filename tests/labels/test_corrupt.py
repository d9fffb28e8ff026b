"""Labels of a chosen accuracy, against counts by hand and against runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import checks
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.experiment import check, run
from whorl.labels.corrupt import corrupted
from whorl.metrics.match import aligned
from whorl.recipes import resolve
from whorl.runs.run import Run
from whorl.types import IntArray

K, N = 4, 400


def clustered(share: float = 0.6) -> tuple[IntArray, IntArray]:
    """True labels, and groups of which this share is right; class c is confused with c + 1 only."""
    draws = np.random.default_rng(3)
    truth = np.repeat(np.arange(K), N // K)
    groups = np.where(draws.random(N) < share, truth, (truth + 1) % K)
    return truth, (groups + 2) % K  # the numbers of groups mean nothing


@pytest.mark.parametrize("accuracy", [0.52, 0.6, 0.75, 0.9, 1.0])
def test_the_accuracy_is_the_asked_one_and_mistakes_are_those_of_the_groups(accuracy: float) -> None:
    truth, groups = clustered()
    labels = corrupted(truth, groups, K, accuracy, seed=5)
    assert (labels == truth).sum() == round(accuracy * N)
    wrong = labels != truth
    assert np.array_equal(labels[wrong], (truth[wrong] + 1) % K)


def test_more_accurate_labels_only_repair_some_of_the_groups() -> None:
    truth, groups = clustered()
    before, labels = aligned(groups, truth, K), corrupted(truth, groups, K, 0.8, seed=5)
    assert np.array_equal(labels[labels != before], truth[labels != before])
    other = corrupted(truth, groups, K, 0.8, seed=6)
    assert np.array_equal(labels, corrupted(truth, groups, K, 0.8, seed=5))
    assert not np.array_equal(labels, other)


def test_less_accurate_labels_keep_the_proportions_of_the_mistakes() -> None:
    """Class 0 is confused with 1 three times as often as with 2; further mistakes are drawn in that proportion."""
    truth = np.repeat(np.arange(3), 4000)
    groups = truth.copy()
    groups[:300], groups[300:400] = 1, 2
    labels = corrupted(truth, groups, 3, 0.5, seed=1)
    assert (labels == truth).sum() == 6000
    of_0 = labels[:4000][labels[:4000] != 0]
    assert len(of_0) > 1000
    assert abs((of_0 == 1).mean() - 0.75) < 0.03
    of_1 = labels[4000:8000][labels[4000:8000] != 1]  # never confused: any other class
    assert abs((of_1 == 0).mean() - 0.5) < 0.05


@pytest.mark.parametrize("accuracy", [0.0, 0.3])
def test_labels_that_the_matching_would_improve_are_refused(accuracy: float) -> None:
    """All mistakes are of one kind here, so that with less than half of the labels right, the mistakes are matched."""
    truth, groups = clustered()
    with pytest.raises(WhorlError, match=rf"would count as {1 - accuracy:.3f}"):
        corrupted(truth, groups, K, accuracy, seed=5)


def test_a_class_without_images_is_an_error() -> None:
    with pytest.raises(WhorlError, match="1 of 3 classes have no image left"):
        corrupted(np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 2]), 3, 0.0, 0)


def test_a_run_learns_labels_of_the_asked_accuracy(small_data: Dataset, tmp_path: Path) -> None:
    """Also if it is stopped inside of task 2 and resumed."""
    config = checks.small_config(labels="corrupted", label_acc=0.8)
    result = run(config, small_data, tmp_path / "whole")
    for step, new in zip(result.steps[1:], Run(result.path, config).labels(len(result.steps))[1:], strict=True):
        assert step.label_acc == pytest.approx(round(0.8 * len(new)) / len(new))
    assert "-corrupted-" in result.path.name
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path / "parts", reporter=checks.StopsInTask2())
    again = run(config, small_data, tmp_path / "parts")
    assert checks.same(checks.stored(result.path), checks.stored(again.path))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"labels": "corrupted"}, "need each other"),
        ({"label_acc": 0.5}, "need each other"),
        ({"labels": "given", "label_acc": 0.5}, "need each other"),
        ({"labels": "corrupted", "label_acc": 0.5, "pseudo": {"refresh": 2}}, "leave out `pseudo.refresh`"),
        ({"labels": "corrupted", "label_acc": 1.5}, "label_acc"),
    ],
)
def test_bad_combinations(asked: dict[str, object], message: str) -> None:
    with pytest.raises(WhorlError, match=message):
        check(resolve({"data": {"name": "digits"}, "stream": {"step": 2}, **asked}))
