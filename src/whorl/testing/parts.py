"""The batteries for clusterers, selectors, backbones and extractors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from whorl import cluster
from whorl.cluster import CLUSTERERS, Clusterer, Clusters
from whorl.data.inputs import Inputs
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.labels import extractors
from whorl.labels.extractors import EXTRACTORS, Extractor, Sight
from whorl.memory.select import SELECTORS, Selector, get_selector
from whorl.nets import backbone as nets
from whorl.nets.backbone import BACKBONES, Backbone, Factory
from whorl.nets.model import weights
from whorl.nets.resnet import fold
from whorl.sections import ClusterConfig
from whorl.testing.bench import (
    INITIAL,
    MIXED,
    NEW,
    Bench,
    Material,
    content,
    hidden,
    images,
    no_errors,
    registered,
    require,
    require_same,
    vectors,
)
from whorl.testing.methods import check_again, check_lesson
from whorl.tree import Tree
from whorl.types import FloatArray, ImageSource


def check_clusterer(clusterer: str | Callable[..., Clusterer], folder: Path) -> None:
    """Check that a clusterer always returns the number of clusters asked for, and the same ones for the same seed.

    Also checked are the means and the inertia it reports, that it leaves its input alone, its errors, and that a
    learner learns an unlabelled delivery with it, stops and resumes.

    Parameters
    ----------
    clusterer : str or class
        The name of a registered clusterer, or a class that takes the fields of
        :class:`whorl.cluster.base.Options` as keyword arguments.
    folder : Path
        An empty folder for checkpoints, such as ``tmp_path`` of pytest.

    Raises
    ------
    AssertionError
        If a promise is broken. The message says which one.
    """
    with registered(CLUSTERERS, clusterer, "clusterer on the bench") as name:
        made = cluster.create(name, **ClusterConfig(restarts=2).model_dump(exclude={"name"}))
        draws = np.random.default_rng(0)
        spread = draws.normal(size=(40, 5)).astype(np.float32)
        repeated = np.repeat(spread[:3], 4, axis=0)
        for points, k in ((spread, 1), (spread, 7), (spread[:6], 6), (repeated, 3), (repeated, 5), (spread[:1], 1)):
            _check_clusters(made, points, k)
        for points, k, what in (
            (spread[:3], 4, "more clusters than samples"),
            (np.where(np.arange(5) == 2, np.nan, spread), 2, "features that are not finite"),
        ):
            try:
                made.fit_predict(points.astype(np.float32), k, 0)
            except WhorlError:
                continue
            raise AssertionError(f"{what} raise no WhorlError")
        _check_learning(folder, {"cluster": {"name": name}, "memory": {"reading": "aligned"}})


def _check_clusters(made: Clusterer, points: FloatArray, k: int) -> None:
    before, seed = points.copy(), 2**62 + 5
    what = f"{k} clusters of {len(points)} samples"
    with no_errors(what):
        found = made.fit_predict(points, k, seed)
        again: Clusters = made.fit_predict(points.copy(), k, seed)
    require(np.array_equal(points, before), f"{what}: the features were changed")
    require(
        found.labels.dtype == np.int64 and found.labels.shape == (len(points),), f"{what}: labels are not int64 [n]"
    )
    require(np.array_equal(np.unique(found.labels), np.arange(k)), f"{what}: found {np.unique(found.labels)}")
    means = np.stack([points[found.labels == j].astype(np.float64).mean(axis=0) for j in range(k)])
    require(
        bool(np.allclose(found.centres, means, atol=1e-4)), f"{what}: the centres are not the means of the clusters"
    )
    inertia = np.square(points - means[found.labels]).sum()
    require(bool(np.isclose(found.inertia, inertia, rtol=1e-4, atol=1e-6)), f"{what}: the inertia is not {inertia}")
    require(np.array_equal(again.labels, found.labels), f"{what}: the same seed gives other clusters")


def check_selector(selector: str | Selector, folder: Path) -> None:
    """Check that a selector ranks samples without repeating one, so that every prefix is a smaller choice.

    Parameters
    ----------
    selector : str or callable
        The name of a registered selector, or a :data:`whorl.memory.select.Selector`.
    folder : Path
        An empty folder for checkpoints, such as ``tmp_path`` of pytest.

    Raises
    ------
    AssertionError
        If a promise is broken. The message says which one.
    """
    with registered(SELECTORS, selector, "selector on the bench") as name:
        found = get_selector(name)
        points = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
        before = points.copy()
        for mean in (None, points[:5].mean(axis=0)):
            whole = found(points, 30, 1, mean)
            require(np.array_equal(np.sort(whole), np.arange(30)), "a quota of all samples does not select each once")
            for quota in (0, 1, 7, 99):
                chosen = found(points, quota, 1, mean)
                require(np.array_equal(chosen, whole[:quota]), f"{quota} exemplars are no prefix of a larger choice")
            require(np.array_equal(found(points, 30, 1, mean), whole), "the same seed gives another choice")
        require(np.array_equal(points, before), "the features were changed")
        require(len(found(points[:0], 3, 1, None)) == 0, "samples are selected where there are none")
        _check_learning(folder, {"memory": {"select": name}})


def check_backbone(backbone: str | Factory | Backbone, folder: Path, inputs: Inputs | None = None) -> None:
    """Check that a backbone turns prepared inputs into features, and that a learner can train, store and restore it.

    Parameters
    ----------
    backbone : str, callable or torch.nn.Module
        The name of a registered backbone, a :data:`whorl.nets.backbone.Factory`, or the module itself.
    folder : Path
        An empty folder for checkpoints, such as ``tmp_path`` of pytest.
    inputs : Inputs, optional
        What the backbone takes. By default the module's own ``inputs`` if it has some, else images of 8×8 pixels.

    Raises
    ------
    AssertionError
        If a promise is broken. The message says which one.
    """
    if isinstance(backbone, nn.Module):
        with no_errors("the backbone"):
            module = nets.checked(backbone)
        material = _material(nets.own_inputs(module) or inputs or images().inputs)
        _check_module(module, material)
        _check_learning(folder, {}, material, module)
        return
    material = _material(inputs or images().inputs)
    with registered(BACKBONES, cast("str | Factory", backbone), "backbone on the bench") as name:
        with no_errors("making the backbone"):
            one, two = (nets.build(name, material.inputs, True, 7) for _ in range(2))
        require_same(weights(_module(one)), weights(_module(two)), "two networks drawn with the same seed")
        material = _material(nets.own_inputs(one) or material.inputs)
        _check_module(one, material)
        _check_learning(folder, {"net": {"arch": name}}, material)


def _module(backbone: Backbone) -> nn.Module:
    assert isinstance(backbone, nn.Module)
    return backbone


def _material(inputs: Inputs) -> Material:
    found = vectors(inputs.size) if inputs.kind == "vectors" else images(inputs.size)
    return replace(found, inputs=inputs)


def _check_module(backbone: Backbone, material: Material) -> None:
    module = _module(backbone)
    x = material.inputs.fixed(material.test.read(np.arange(6)))

    def features(of: nn.Module, inputs: Tensor) -> Tensor:
        with torch.no_grad(), no_errors(f"the features of prepared inputs {list(inputs.shape)}"):
            found: Tensor = of(inputs)
        return found

    looking = copy.deepcopy(module).eval()
    found = features(looking, x)
    require(found.shape == (6, backbone.dim), f"6 inputs give features {tuple(found.shape)}, not [6, {backbone.dim}]")
    require(found.dtype == torch.float32, f"the features are {found.dtype}, not float32")
    require(bool(torch.isfinite(found).all()), "some features are not finite")
    alone = torch.cat([features(looking, x[i : i + 1]) for i in range(6)])
    require(
        bool(torch.allclose(alone, found, rtol=1e-3, atol=1e-4)),
        "in eval mode, the features of a sample depend on the other samples of the batch",
    )
    require(
        bool(torch.allclose(features(fold(module), x), found, rtol=1e-3, atol=1e-4)),
        "the frozen copy gives other features",
    )
    training = copy.deepcopy(module).train()
    parameters = [p for p in training.parameters() if p.requires_grad]
    if parameters:
        training(x).square().sum().backward()
        unused = sum(p.grad is None for p in parameters)
        require(not unused, f"{unused} of {len(parameters)} parameters get no gradient")


def check_extractor(extractor: str | Extractor, folder: Path) -> None:
    """Check that an extractor gives the same finite features each time, and that a learner can label with them.

    Parameters
    ----------
    extractor : str or callable
        The name of a registered extractor, or a :data:`whorl.labels.extractors.Extractor`.
    folder : Path
        An empty folder for checkpoints, such as ``tmp_path`` of pytest.

    Raises
    ------
    AssertionError
        If a promise is broken. The message says which one.
    """
    with registered(EXTRACTORS, extractor, "extractor on the bench") as name:
        found = extractors.find(name)
    compare = False

    def watched(samples: ImageSource, sight: Sight) -> FloatArray:
        before = samples.read(np.arange(len(samples))).clone()
        features = found(samples, sight)
        require(features.ndim == 2 and len(features) == len(samples), f"{len(samples)} samples give {features.shape}")
        require(features.dtype == np.float32, f"the features are {features.dtype}, not float32")
        require(bool(np.isfinite(features).all()), "some features are not finite")
        require(torch.equal(before, samples.read(np.arange(len(samples)))), "the samples were changed")
        if compare:
            again = found(samples, sight)
            require(np.array_equal(again, features), "the same samples give other features the second time")
        return features

    with registered(EXTRACTORS, watched, "extractor on the bench") as name:
        for material in (images(), vectors()):
            networks = int(material.inputs.kind == "images")
            if found is extractors.networks and not networks:
                continue
            pseudo = {"features": name, "networks": networks}
            bench = _check_learning(folder / material.inputs.kind, {"pseudo": pseudo}, material)
            compare = True
            bench.teach(bench.learner(1), hidden(NEW))
            compare = False
            _check_restored(bench, bench.learner())


def _check_restored(bench: Bench, learner: Learner) -> None:
    """A learner restored from a state in memory must learn what the one it came from learns."""
    other = Learner(bench.config, bench.material.inputs, learner.runtime)
    other.restore(learner.state())
    for each in (learner, other):
        bench.teach(each, hidden(MIXED))
    require_same(content(other), content(learner), "a delivery learned by a restored learner")


def _check_learning(
    folder: Path,
    settings: Tree,
    material: Material | None = None,
    backbone: Backbone | None = None,
) -> Bench:
    """Learn with the paper's method, check the scores, and learn the last delivery again: whole, and resumed."""
    bench = Bench.of("ours", material or images(), folder, settings)
    bench.backbone = backbone
    learner = bench.learner()
    for parcel in (INITIAL, hidden(NEW)):
        check_lesson(bench, learner, parcel)
    check_again(bench, [1])
    return bench
