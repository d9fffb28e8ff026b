"""The battery of ``checks.py`` over all that exists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import checks
from whorl.cluster import CLUSTERERS
from whorl.config import Config
from whorl.data import DataOptions, load
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.methods import METHODS
from whorl.methods.base import Batch, Method, Phase, Step
from whorl.methods.losses import cross_distillation, cross_entropy
from whorl.nets.model import Model


class TwoPhase(Method):
    """A stranger's method: a second phase that distils from what the first one left, planned only then."""

    name = "two-phase"

    def plan(self, step: Step) -> Iterator[Phase]:
        yield step.phase("first", step.new + step.exemplars, lambda b: cross_entropy(b.logits, b.labels))
        between: Model = step.model.frozen()

        def loss(batch: Batch) -> Tensor:
            with torch.no_grad():
                teacher = between(batch.images).logits
            return cross_distillation(batch.logits, batch.labels, teacher, 2.0)

        yield step.phase("second", step.exemplars if len(step.exemplars) else step.new, loss)


@pytest.fixture(autouse=True)
def _stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, TwoPhase.name, TwoPhase)


CASES = [
    pytest.param({"method__name": method, "labels": labels}, id=f"{method}-{labels}")
    for method in [*METHODS, TwoPhase.name]
    for labels in ("pseudo", "given")
]
VARIANTS = [
    pytest.param({"memory__reading": "reuse"}, id="reuse"),
    pytest.param({"memory__reading": "recluster"}, id="recluster"),
    pytest.param({"memory__select": "random"}, id="random"),
    pytest.param({"memory__policy": "total", "memory__quota": 24}, id="total"),
    pytest.param({"classifier": "nme"}, id="nme"),
    pytest.param({"net__head": "cosine", "net__final_relu": False}, id="cosine"),
    pytest.param({"stream__first": 4, "train__epochs": 4}, id="first"),
    *[pytest.param({"cluster__name": name}, id=name) for name in CLUSTERERS if name != "kmeans"],
    pytest.param({"pseudo__features": "first"}, id="features-first"),
    pytest.param({"pseudo__features": "scratch"}, id="features-scratch"),
    pytest.param({"pseudo__features": "pca"}, id="features-pca"),
    pytest.param({"pseudo__refresh": 1, "train__epochs": 3}, id="refresh"),
    pytest.param({"pseudo__refresh": 1, "pseudo__ids": "reset", "method__name": "eeil"}, id="refresh-reset"),
    pytest.param({"method__name": "lwf", "method__variant": "local_ce"}, id="lwf-local_ce"),
    pytest.param({"method__name": "icarl", "method__loss": "ce_kd"}, id="icarl-ce_kd"),
    pytest.param(
        {"method__name": "eeil", "method__profile": "twelve", "method__noise": 0.3, "stream__first": 4},
        id="eeil-twelve",
    ),
    pytest.param({"method__name": "wa", "method__reinit": True, "net__head": "linear"}, id="wa-reinit-bias"),
    pytest.param({"method__name": "bic", "memory__policy": "total", "memory__quota": 24}, id="bic-total"),
    pytest.param({"method__name": "ilio", "method__strict": True, "memory__reading": "reuse"}, id="ilio-strict"),
]


@pytest.fixture(params=CASES + VARIANTS)
def config(request: pytest.FixtureRequest) -> Config:
    return checks.small_config(**request.param)


def test_head_grows(config: Config, small_data: Dataset) -> None:
    checks.check_head_grows(config, small_data)


def test_seeds(config: Config, small_data: Dataset, tmp_path: Path) -> None:
    checks.check_seeds(config, small_data, tmp_path)


@pytest.mark.parametrize("changes", CASES + VARIANTS)
def test_resume(changes: dict[str, object], small_data: Dataset, tmp_path: Path) -> None:
    checks.check_resume(checks.small_config(**changes), small_data, tmp_path)


def test_hidden_labels(config: Config, small_data: Dataset, tmp_path: Path) -> None:
    checks.check_hidden_labels(config, small_data, tmp_path)


def test_memory(config: Config, small_data: Dataset) -> None:
    checks.check_memory(config, small_data)


def test_no_empty_class(config: Config, small_data: Dataset) -> None:
    checks.check_no_empty_class(config, small_data)


def test_save_and_go_on(config: Config, small_data: Dataset, tmp_path: Path) -> None:
    checks.check_save_and_go_on(config, small_data, tmp_path)


def test_teacher_is_untouched(config: Config, small_data: Dataset) -> None:
    checks.check_teacher_is_untouched(config, small_data)


def test_averages(config: Config, small_data: Dataset, tmp_path: Path) -> None:
    checks.check_averages(config, small_data, tmp_path)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_fewer_images_than_clusters(name: str) -> None:
    data = load("synthetic", None, DataOptions(resize=8, per_class=1, classes=6))
    learner = checks.make_learner(checks.small_config(train__batch=2, cluster__name=name), data)
    stream = checks.streams(checks.small_config(), data)
    checks.learn(learner, stream[:1])
    with pytest.raises(WhorlError, match="cannot make 9 clusters of 2 samples"):
        learner.labeler.clusterer.fit_predict(learner.features(stream[1].images), 9, 0)
