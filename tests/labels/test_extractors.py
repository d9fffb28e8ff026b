"""The features that pseudo labels are made from, on images and on vectors, computed by hand."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
import torch

from small import deliveries, learn, small_learner
from whorl import registry
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Dataset, VectorSource
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.labels import extractors
from whorl.labels.extractors import EXTRACTORS, GROUP, Sight, flattened, principal_components
from whorl.nets.backbone import build
from whorl.nets.extract import extract
from whorl.nets.resnet import fold
from whorl.seeds import derive
from whorl.types import FloatArray, ImageSource

IMAGES = Inputs.images(8, "none", (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))


def pixels(n: int, size: int = 8) -> ArraySource:
    draws = torch.Generator().manual_seed(size)
    return ArraySource(torch.randint(0, 256, (n, size, size, 3), dtype=torch.uint8, generator=draws))


def vectors(n: int, size: int = 6) -> VectorSource:
    return VectorSource(torch.randn(n, size, generator=torch.Generator().manual_seed(n)))


def unused(images: ImageSource) -> FloatArray:
    raise AssertionError("this extractor does not need the model")


@pytest.fixture(scope="module")
def vector_data() -> Dataset:
    """Six separated classes of vectors, 20 training samples each."""
    rng = np.random.default_rng(0)
    centres, labels = 4 * rng.normal(size=(6, 5)), np.repeat(np.arange(6), 20)
    train, test = (
        VectorSource(torch.from_numpy((centres[labels] + rng.normal(size=(120, 5))).astype(np.float32)))
        for _ in range(2)
    )
    names = tuple("abcdef")
    return Dataset("vectors", train, test, labels, labels, names, "", Inputs.vectors(5, 4.0))


@pytest.fixture(params=["images", "vectors"])
def data(request: pytest.FixtureRequest, small_data: Dataset, vector_data: Dataset) -> Dataset:
    return small_data if request.param == "images" else vector_data


def watch(learner: Learner) -> list[FloatArray]:
    """The features that the learner clusters from now on."""
    seen: list[FloatArray] = []
    plain = learner.labeler.extractor

    def watched(images: ImageSource, sight: Sight) -> FloatArray:
        seen.append(plain(images, sight))
        return seen[-1]

    learner.labeler.extractor = watched
    return seen


@pytest.mark.parametrize("name", [name for name in EXTRACTORS if name != "networks"])  # see test_networks.py
def test_every_extractor_labels_images_and_vectors(name: str, data: Dataset) -> None:
    learner = small_learner(data, pseudo__features=name, memory__reading="reuse")
    seen, stream = watch(learner), deliveries(data)
    learn(learner, stream[:1])
    initial = learner.classifier
    for number in (1, 2):
        images = stream[number].images
        if name == "current":
            expected = learner.classifier.features(images)
        elif name == "first":
            expected = initial.features(images)
        elif name == "scratch":
            expected = random_features(learner, data, images)
        else:
            expected = principal_components(images, data.inputs, learner.model.dim, seed=0)
        learn(learner, stream[number : number + 1])
        np.testing.assert_allclose(seen[number - 1], expected, rtol=1e-4, atol=1e-5)
        assert learner.labels is not None
        assert set(learner.labels.ids.tolist()) == {2 * number, 2 * number + 1}
        assert len(learner.labels.ids) == len(images)
    assert len(seen) == 2


def random_features(learner: Learner, data: Dataset, images: ImageSource) -> FloatArray:
    net = build(learner.config.net.arch, data.inputs, learner.config.net.final_relu, derive(0, "scratch"))
    assert isinstance(net, torch.nn.Module)
    return extract(fold(net), learner.model.dim, images, data.inputs, learner.runtime)


def test_flattened_images_and_vectors_by_hand() -> None:
    source = pixels(130)
    raw = source.images.numpy().astype(np.float64) / 255
    points = ((raw - IMAGES.mean) / IMAGES.std).transpose(0, 3, 1, 2).reshape(130, -1)
    np.testing.assert_allclose(flattened(source, IMAGES), points, rtol=1e-4, atol=1e-4)
    rows = vectors(7)
    np.testing.assert_allclose(flattened(rows, Inputs.vectors(6, 2.0)), rows.vectors.numpy() / 2, rtol=1e-6)


def test_large_images_are_scaled_down_before_pca() -> None:
    """To a side of 64; images of one colour keep it."""
    plain = pixels(3, 128).images[:, :1, :1].expand(3, 128, 128, 3)
    found = flattened(ArraySource(plain), Inputs.images(128, "none", (0.0,) * 3, (1.0,) * 3))
    assert found.shape == (3, 3 * 64 * 64)
    colours = plain[:, 0, 0].numpy() / 255
    np.testing.assert_allclose(found.reshape(3, 3, -1), np.repeat(colours[:, :, None], 64 * 64, axis=2), atol=1e-5)


@pytest.mark.parametrize("kind", ["images", "vectors"])
def test_principal_components_against_a_full_decomposition(kind: str, small_data: Dataset) -> None:
    """Up to the sign of a component, rows are the centred inputs times the first right singular vectors."""
    source: ImageSource = deliveries(small_data)[0].images if kind == "images" else vectors(40, 30)
    inputs = IMAGES if kind == "images" else Inputs.vectors(30)
    points = flattened(source, inputs).astype(np.float64)
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    found = principal_components(source, inputs, 5, seed=0)
    np.testing.assert_allclose(np.abs(found), np.abs(centred @ directions[:5].T), rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(principal_components(source, inputs, 5, seed=0), found)


@pytest.mark.parametrize(("components", "expected"), [(32, 32), (500, 40)])
def test_pca_has_as_many_components_as_the_backbone_has_features_if_it_can(components: int, expected: int) -> None:
    sight = Sight(unused, unused, unused, IMAGES, components, 0)
    assert extractors.pca(pixels(40), sight).shape == (40, expected)


def mean_colour(images: ImageSource, sight: Sight) -> FloatArray:
    """An extractor as another package brings it."""
    return np.asarray(images.read(np.arange(len(images))).float().mean((1, 2)).numpy())


def test_entry_points(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [
        EntryPoint(name, f"test_extractors:{thing}", GROUP)
        for name, thing in (("colour", "mean_colour"), ("broken", "missing"), ("pca", "mean_colour"))
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(offered).select(group=group))
    assert extractors.find("pca") is extractors.pca
    learner = small_learner(small_data, pseudo__features="colour")
    learn(learner, deliveries(small_data)[:1])
    found = watch(learner)
    learn(learner, deliveries(small_data)[1:])
    for features, delivery in zip(found, deliveries(small_data)[1:], strict=True):
        assert features.shape == (40, 3)
        np.testing.assert_array_equal(
            features, mean_colour(delivery.images, Sight(unused, unused, unused, IMAGES, 3, 0))
        )
    with pytest.raises(WhorlError, match="the plug-in for extractor 'broken' cannot be loaded"):
        extractors.find("broken")
    with pytest.raises(WhorlError, match="unknown extractor 'color'; did you mean 'colour'"):
        small_learner(small_data, pseudo__features="color")


def test_the_model_after_the_initial_delivery_survives_a_restore(small_data: Dataset) -> None:
    stream = deliveries(small_data)
    learner = small_learner(small_data, pseudo__features="first")
    learn(learner, stream[:2])
    again = small_learner(small_data, pseudo__features="first")
    again.restore(learner.state())
    for one in (learner, again):
        learn(one, stream[2:])
        assert one.labels is not None
    assert learner.labels is not None
    assert again.labels is not None
    np.testing.assert_array_equal(learner.labels.ids, again.labels.ids)
    assert small_learner(small_data).state().initial == {}  # stored only for the extractor that needs it
