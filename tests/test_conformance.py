"""The batteries of ``whorl.testing`` over every built-in component, over strangers', and over broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import strangers
from checks import OWN
from whorl.cluster import CLUSTERERS, Clusters, KMeans
from whorl.data.inputs import Inputs
from whorl.labels.extractors import EXTRACTORS, Sight
from whorl.memory import SELECTORS
from whorl.methods import METHODS
from whorl.methods.base import Method
from whorl.nets.backbone import BACKBONES, FOR_VECTORS
from whorl.testing import check_backbone, check_clusterer, check_extractor, check_method, check_selector
from whorl.tree import Tree, merge
from whorl.types import FloatArray, ImageSource, IntArray

ONE_EPOCH = {"first_epochs": 1, "epochs": 1, "batch": 128}
VARIANTS: list[tuple[str, Tree]] = [
    ("ours", {"memory": {"reading": "reuse"}}),
    ("ours", {"memory": {"reading": "recluster"}}),
    ("ours", {"memory": {"select": "random"}}),
    ("ours", {"memory": {"policy": "total", "quota": 24}, "classifier": "nme"}),
    ("ours", {"net": {"head": "cosine", "final_relu": False}}),
    ("ours", {"optim": {"name": "adamw", "lr": 0.01}}),
    ("ours", {"pseudo": {"features": "first"}, "cluster": {"l2": True}}),
    ("eeil", {"pseudo": {"ids": "reset"}}),
    ("eeil", {"method": {"profile": "twelve", "noise": 0.3, "balanced_epochs": 1}, "train": ONE_EPOCH}),
    ("lwf", {"method": {"variant": "local_ce"}}),
    ("icarl", {"method": {"loss": "ce_kd"}}),
    ("wa", {"method": {"reinit": True}, "net": {"head": "linear"}}),
    ("bic", {"memory": {"policy": "total", "quota": 24}}),
    ("ilio", {"method": {"strict": True}, "memory": {"reading": "reuse"}}),
]


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str, tmp_path: Path) -> None:
    check_method(name, tmp_path, OWN.get(name))


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=lambda value: str(value))
def test_variants_of_methods(name: str, settings: Tree, tmp_path: Path) -> None:
    check_method(name, tmp_path, merge(OWN.get(name, {}), settings))


@pytest.mark.parametrize(
    "method",
    [strangers.TwoPhase, strangers.Anchored, strangers.Imprints, strangers.NoEpochs],
    ids=lambda method: method.name,
)
def test_methods_of_a_third_party(method: type[Method], tmp_path: Path) -> None:
    """``Anchored`` plans with what its ``prepare`` wrote; ``Imprints`` and ``NoEpochs`` train nothing."""
    check_method(method, tmp_path)
    assert method.name not in METHODS


@pytest.mark.parametrize(
    ("method", "line"),
    [
        (strangers.Peeks, "hidden labels were used"),
        (strangers.Unseeded, "delivery 1 was learned again with the same seed"),
        (strangers.Counts, "delivery 1 was stopped after epoch 1 of phase 1 and resumed"),
        (strangers.ChangesTeacher, "the previous model was changed in a step"),
        (strangers.ChangesMemory, "delivery 2 was interrupted, and the learner has changed"),
        (strangers.Hoards, "delivery 1: the learner still holds the samples"),
        (strangers.ExtractsTwice, "the features of 28 samples were extracted again"),
        (strangers.NotFinite, "some scores of fc are not finite"),
    ],
)
def test_broken_methods_are_found(method: type[Method], line: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=line):
        check_method(method, tmp_path)


@pytest.mark.parametrize(
    ("method", "line", "kind"),
    [
        (
            strangers.FailsOnKnown,
            "learning a delivery of 2 new and 2 known classes with labels: IndexError: row 0 of a head of 2",
            IndexError,
        ),
        (
            strangers.AssertsBalance,
            "learning a delivery of 2 new and 2 known classes with labels: AssertionError",
            AssertionError,
        ),
    ],
)
def test_errors_of_a_component_name_the_delivery(
    method: type[Method], line: str, kind: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError) as caught:
        check_method(method, tmp_path)
    assert str(caught.value) == line
    assert type(caught.value.__cause__) is kind


@pytest.mark.parametrize("name", CLUSTERERS)
def test_clusterers(name: str, tmp_path: Path) -> None:
    check_clusterer(name, tmp_path)


class OneCluster(KMeans):
    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        found = super().fit_predict(features, k, seed)
        return Clusters(np.zeros_like(found.labels), found.centres, found.inertia)


class OtherCentres(KMeans):
    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        found = super().fit_predict(features, k, seed)
        return Clusters(found.labels, found.centres + 1, found.inertia)


class AnySeed(KMeans):
    calls = 0

    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        AnySeed.calls += 1
        return super().fit_predict(features, k, AnySeed.calls)


class Scales(KMeans):
    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        features /= 2
        return super().fit_predict(features, k, seed)


class NeverRaises(KMeans):
    def fit_predict(self, features: FloatArray, k: int, seed: int) -> Clusters:
        return super().fit_predict(np.nan_to_num(features), min(k, len(features)), seed)


@pytest.mark.parametrize(
    ("clusterer", "line"),
    [
        (OneCluster, r"7 clusters of 40 samples: found \[0\]"),
        (OtherCentres, "the centres are not the means"),
        (AnySeed, "the same seed gives other clusters"),
        (Scales, "the features were changed"),
        (NeverRaises, "more clusters than samples raise no WhorlError"),
    ],
)
def test_broken_clusterers_are_found(clusterer: type[KMeans], line: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=line):
        check_clusterer(clusterer, tmp_path)


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors(name: str, tmp_path: Path) -> None:
    check_selector(name, tmp_path)


def test_broken_selectors_are_found(tmp_path: Path) -> None:
    def repeats(features: FloatArray, quota: int, seed: int, mean: object) -> IntArray:
        return np.zeros(min(quota, len(features)), dtype=np.int64)

    def no_prefix(features: FloatArray, quota: int, seed: int, mean: object) -> IntArray:
        return np.arange(len(features))[::-1][-quota:] if quota else np.arange(0)

    for selector, line in (
        (repeats, "does not select each once"),
        (no_prefix, "7 exemplars are no prefix|1 exemplars"),
    ):
        with pytest.raises(AssertionError, match=line):
            check_selector(selector, tmp_path)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name not in ("resnet18", "resnet18-small")])
def test_backbones(name: str, tmp_path: Path) -> None:
    check_backbone(name, tmp_path, Inputs.vectors(12) if name in FOR_VECTORS else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet18-small"])
def test_large_backbones(name: str, tmp_path: Path) -> None:
    check_backbone(name, tmp_path, Inputs.images(32))


class Pretrained(nn.Module):
    """A stranger's network that brings its weights and its input preparation."""

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.dim, self.layer = dim, nn.Linear(3 * 8 * 8, 5)
        self.inputs = Inputs.images(8, "shift", (0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
        nn.init.normal_(self.layer.weight, std=0.1, generator=torch.Generator().manual_seed(1))
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x.flatten(1)))


def test_backbones_of_a_third_party(tmp_path: Path) -> None:
    """As a module, and as a factory."""
    check_backbone(Pretrained(), tmp_path / "module")
    check_backbone(lambda inputs, final_relu: Pretrained(), tmp_path / "factory")


class DependsOnBatch(Pretrained):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out - out.mean(dim=0)


class Half(Pretrained):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).half()


@pytest.mark.parametrize(
    ("backbone", "line"),
    [
        (Pretrained(dim=7), r"features \(6, 5\), not \[6, 7\]"),
        (DependsOnBatch(), "depend on the other samples of the batch"),
        (Half(), "the features are torch.float16, not float32"),
        (lambda inputs, final_relu: nn.Sequential(), "needs an integer attribute `dim`"),
    ],
    ids=["dim", "batch", "half", "factory"],
)
def test_broken_backbones_are_found(backbone: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=line):
        check_backbone(backbone, tmp_path)


def test_a_factory_must_draw_from_the_seed(tmp_path: Path) -> None:
    def unseeded(inputs: Inputs, final_relu: bool) -> Pretrained:
        made = Pretrained()
        nn.init.normal_(made.layer.weight)
        return made

    with pytest.raises(AssertionError, match="two networks drawn with the same seed"):
        check_backbone(unseeded, tmp_path)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_extractors(name: str, tmp_path: Path) -> None:
    check_extractor(name, tmp_path)


def both(images: ImageSource, sight: Sight) -> FloatArray:
    return np.concatenate([sight.initial(images), sight.current(images)], axis=1)


def test_extractors_of_a_third_party(tmp_path: Path) -> None:
    """One that uses the initial model, which a learner's state then has to hold."""
    check_extractor(both, tmp_path)


def test_broken_extractors_are_found(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)

    def changing(images: ImageSource, sight: Sight) -> FloatArray:
        return sight.current(images) + np.float32(1e-9 * draws.random())

    def unseeded(images: ImageSource, sight: Sight) -> FloatArray:
        return draws.normal(size=(len(images), 5)).astype(np.float32)

    def of_wide(images: ImageSource, sight: Sight) -> FloatArray:
        return sight.random(images).astype(np.float64)

    for number, (extractor, line) in enumerate(
        [
            (changing, "other features the second time"),
            (unseeded, "delivery 2 was learned again with the same seed"),
            (of_wide, "are float64, not float32"),
        ]
    ):
        with pytest.raises(AssertionError, match=line):
            check_extractor(extractor, tmp_path / str(number))
