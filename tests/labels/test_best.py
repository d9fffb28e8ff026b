"""The pieces of ``labeler=best`` against NumPy, and whole runs with every method."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import checks
from whorl.cluster.base import Clusterer, Clusters
from whorl.config import write_toml
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Dataset, Turned, VectorSource
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.experiment import check, run
from whorl.known import OWN_NET
from whorl.labels.labeler import side_by_side
from whorl.methods import METHODS
from whorl.nets.rotations import Rotations, rotation_head
from whorl.recipes import resolve, resolve_learner
from whorl.runs.checkpoint import load_model
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.testing import check_method
from whorl.tree import merge, parse_override, read_toml
from whorl.types import FloatArray


def test_rooted_features_by_hand() -> None:
    features = np.array([[4, 9, 0], [1, -1, 0], [0, 0, 0]], dtype=np.float32)
    mirrored = np.array([[0, 9, 0], [1, -7, 0], [0, 0, 0]], dtype=np.float32)
    found = side_by_side([[features, mirrored]])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], np.array([2**0.5, 3, 0]) / 11**0.5, rtol=1e-6)
    np.testing.assert_allclose(found[1], np.array([1, -2, 0]) / 5**0.5, rtol=1e-6)
    assert not found[2].any()
    joined = side_by_side([[features, mirrored], [mirrored]])
    assert np.array_equal(joined[:, :3], found)
    np.testing.assert_allclose(joined[1, 3:], np.array([1, -(7**0.5), 0]) / 8**0.5, rtol=1e-6)


def test_turned_images() -> None:
    images = torch.randint(0, 256, (5, 6, 6, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = Turned(ArraySource(images), 0, mirror=True)
    assert (len(found), found.size, found.resident) == (5, 6, True)
    assert np.array_equal(found.read(np.array([3, 1])).numpy(), images.numpy()[[3, 1], :, ::-1])
    found = Turned(ArraySource(images), 3, mirror=True)
    assert np.array_equal(found.read(np.array([4])).numpy()[0], np.rot90(images.numpy()[4, :, ::-1], 3))


class Watched:
    """A clusterer that keeps the points it is given."""

    def __init__(self, inner: Clusterer) -> None:
        self._inner, self.points = inner, np.empty((0, 0), dtype=np.float32)

    def fit_predict(self, points: FloatArray, k: int, seed: int) -> Clusters:
        self.points = points
        return self._inner.fit_predict(points, k, seed)


@pytest.mark.parametrize("transform", ["root", "turns"])
@pytest.mark.parametrize("mirrors", [True, False])
def test_clustered_features_are_those_of_all_views(mirrors: bool, transform: str, small_data: Dataset) -> None:
    """Against features that are averaged, rooted and scaled here; images without a mirror image have one view."""
    data = replace(small_data, inputs=replace(small_data.inputs, mirrors=mirrors))
    config = checks.small_config(pseudo__transform=transform)
    learner, stream = checks.make_learner(config, data), checks.streams(config, data)
    checks.learn(learner, stream[:1])
    learner.labeler.clusterer = watched = Watched(learner.labeler.clusterer)
    learner.labeler.label(stream[1], 2, learner.known, learner.sight())
    images = stream[1].images.read(np.arange(len(stream[1].images)))
    expected = []
    for turns in range(4 if transform == "turns" else 1):
        both = [np.rot90(each, turns, (1, 2)).copy() for each in (images.numpy(), images.numpy()[:, :, ::-1])]
        with torch.inference_mode():
            upright, mirrored = (
                learner.frozen.backbone(learner.inputs.fixed(torch.from_numpy(each))).numpy() for each in both
            )
        roots = np.sqrt(np.maximum((upright + mirrored) / 2 if mirrors else upright, 0))
        expected.append(roots / np.linalg.norm(roots, axis=1, keepdims=True))
    np.testing.assert_allclose(watched.points, np.hstack(expected), atol=1e-4)


def test_half_of_a_batch_is_rotated() -> None:
    draws = torch.Generator().manual_seed(1)
    images, labels = torch.randn(41, 3, 5, 5, generator=draws), torch.arange(41) % 4
    head = rotation_head(7, 4, seed=2)
    views, targets = Rotations(head).views(images, labels, torch.Generator().manual_seed(3))
    assert views.shape == (21, 3, 5, 5)
    turns = targets.numpy() % 3 + 1
    assert np.array_equal(targets.numpy() // 3, labels[:21].numpy())
    assert set(turns.tolist()) == {1, 2, 3}
    for view, image, turn in zip(views.numpy(), images.numpy(), turns.tolist(), strict=False):
        assert np.array_equal(view, np.rot90(image, turn, (1, 2)))


def test_the_loss_of_rotations() -> None:
    head, draws = rotation_head(7, 4, seed=2), torch.Generator().manual_seed(1)
    features, targets = torch.randn(9, 7, generator=draws), torch.randint(0, 12, (9,), generator=draws)
    assert head.bias is not None
    logits = features.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = -np.log(shares[np.arange(9), targets.numpy()]).mean()
    assert Rotations(head).loss(features[:0], features, targets).item() == pytest.approx(expected, rel=1e-5)
    assert float(F.cross_entropy(torch.from_numpy(logits), targets)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_learns_and_resumes_with_it(method: str, small_data: Dataset, tmp_path: Path) -> None:
    """Layers beside the network are stored with a position inside task 1, and gone at its end."""
    config = checks.small_config(method__name=method, labeler="best", stream__tasks=2)
    whole = run(config, small_data, tmp_path / "whole")
    for epochs, initial in ((1, True), (6, False)):  # task 1 has two epochs for each of two networks and the model
        with pytest.raises(checks.Killed):
            run(config, small_data, tmp_path / "parts", reporter=checks.KillAfter(epochs))
        position = checks.stored(tmp_path / "parts" / whole.path.name)
        assert any("asides" in name for name in position) == initial
    run(config, small_data, tmp_path / "parts")
    found = checks.stored(whole.path)
    assert checks.same(found, checks.stored(tmp_path / "parts" / whole.path.name))
    assert not any("asides" in name for name in found)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_battery(method: str, tmp_path: Path) -> None:
    trust = 1 if method == "joint" else 0.6
    settings = {"labeler": "best", "pseudo": {"trust": trust}, "cluster": {"restarts": 2}}
    check_method(method, tmp_path, merge(checks.OWN.get(method, {}), settings))


def test_what_it_stands_for() -> None:
    config = resolve({"data": {"name": "digits"}, "labeler": "best"})
    assert (config.pseudo.features, config.pseudo.networks, config.pseudo.arch) == ("networks", 2, "auto")
    assert (config.pseudo.transform, config.pseudo.whiten, config.cluster.name) == ("root", True, "sinkhorn")
    assert config.train.asides(initial=True) == ()
    plain = resolve({"data": {"name": "digits"}, "labeler": "best", "pseudo": {"whiten": False}})
    assert (plain.pseudo.networks, plain.pseudo.whiten) == (2, False)
    usual = resolve({"data": {"name": "digits"}})
    assert usual.hash == resolve({"data": {"name": "digits"}, "labeler": "paper"}).hash
    assert len({usual.hash, plain.hash, config.hash}) == 3


@pytest.mark.parametrize(
    "key", ["pseudo.features='current'", "pseudo.transform='none'", "pseudo.whiten=false", "train.sizes=[]"]
)
def test_a_stored_config_names_the_same_run(key: str, tmp_path: Path) -> None:
    """Also where it sets a key back to the value it has without a labeler or a recipe."""
    asked = merge({"data": {"name": "digits"}, "labeler": "best", "recipe": "fast"}, parse_override(key))
    config = resolve(asked)
    (tmp_path / "config.toml").write_text(write_toml(config))
    assert resolve(read_toml(tmp_path / "config.toml")) == config


def test_other_choices_of_the_user_replace_what_does_not_go_with_them() -> None:
    base = {"data": {"name": "digits"}, "labeler": "best"}
    refreshed = resolve({**base, "pseudo": {"refresh": 2}})
    assert (refreshed.pseudo.features, refreshed.pseudo.networks, refreshed.pseudo.whiten) == ("current", 0, False)
    assert refreshed.pseudo.transform == "root"
    components = resolve({**base, "pseudo": {"features": "pca"}})
    assert (components.pseudo.features, components.pseudo.networks) == ("pca", 0)
    own = resolve({**base, "pseudo": {"features": "first", "whiten": True}})
    assert (own.pseudo.features, own.pseudo.networks, own.pseudo.whiten) == ("first", 0, True)
    check(refreshed)
    check(components)


def test_vectors_have_no_views() -> None:
    """What needs views of images is left out, and so are networks beside one that was trained before."""
    pretrained = {"labeler": "best", "net": {"arch": OWN_NET}}
    for asked, inputs in (({"labeler": "best"}, Inputs.vectors(6)), (pretrained, Inputs.images(8))):
        config = resolve_learner(asked, inputs)
        plain = resolve_learner({**asked, "labeler": "paper"}, inputs)
        assert (config.pseudo.features, config.pseudo.networks) == ("first", 0)
        assert (config.pseudo.transform, config.pseudo.whiten, config.cluster.name) == ("root", True, "sinkhorn")
        changes = {"labeler": "paper", "cluster": plain.cluster, "pseudo": plain.pseudo}
        assert config.model_copy(update=changes) == plain


def test_rotations_change_what_is_learned(small_data: Dataset, tmp_path: Path) -> None:
    plain = run(checks.small_config(), small_data, tmp_path)
    for rotations in ("initial", "always"):
        turned = run(checks.small_config(train__rotations=rotations), small_data, tmp_path)
        assert not checks.same(checks.stored(plain.path), checks.stored(turned.path))


def test_rotations_in_the_initial_task_alone(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(train__rotations="initial")
    with pytest.raises(InterruptedError):
        run(config, small_data, tmp_path, reporter=checks.StopsInTask2())
    position = checks.stored(Run.at(tmp_path, config).path)
    assert not any("rotations" in name for name in position)
    always = checks.small_config(train__rotations="always")
    whole = [run(each, small_data, tmp_path).path for each in (config, always)]
    one, other = (load_model(path, 1)[0] for path in whole)
    assert checks.same(one, other)
    one, other = (load_model(path, 2)[0] for path in whole)
    assert not checks.same(one, other)


def test_vectors_cannot_be_rotated() -> None:
    inputs = Inputs.vectors(6)
    config = resolve_learner({"train": {"rotations": "initial"}}, inputs)
    with pytest.raises(WhorlError, match="needs images, and these are vectors"):
        Learner(config, inputs, Runtime())


@pytest.mark.parametrize("transform", ["root", "turns"])
def test_vectors_have_one_view(transform: str) -> None:
    inputs = Inputs.vectors(6)
    config = resolve_learner({"pseudo": {"transform": transform}}, inputs)
    learner = Learner(config, inputs, Runtime())
    vectors = torch.rand(8, 6, generator=torch.Generator().manual_seed(0))
    found = learner.labeler.features(VectorSource(vectors), learner.sight().current, inputs)
    expected = np.sqrt(vectors.numpy())
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5)


def test_given_labels_need_no_labeler() -> None:
    config = resolve({"data": {"name": "digits"}, "labels": "given", "labeler": "best"})
    with pytest.raises(WhorlError, match="are about pseudo labels"):
        check(config)
