"""Runs on vectors from an npz file: every method, clusterer, selector and backbone, scored and resumed as on images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid

from small import deliveries, learn, small_learner
from terminal import whorl
from whorl.cluster import CLUSTERERS
from whorl.config import ExperimentConfig
from whorl.data import DataOptions, load
from whorl.data.source import Dataset, Subset
from whorl.errors import WhorlError
from whorl.experiment import Result, run, workload
from whorl.memory.select import SELECTORS
from whorl.methods import METHODS
from whorl.nets.model import weights
from whorl.recipes import resolve
from whorl.reporter import EpochRecord, Silent
from whorl.runs.checkpoint import load_task
from whorl.runs.files import read_tensors, write_tensors
from whorl.runs.run import Run
from whorl.tree import Tree, merge
from whorl.types import Delivery

CLASSES, DIM = 6, 8
OWN: dict[str, Tree] = {
    "bic": {"method": {"every": 2, "correction_epochs": 2}},
    "eeil": {"method": {"balanced_epochs": 2}},
    "ilio": {"train": {"epochs": 1}},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six separated classes with 20 training and 10 test vectors each."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(CLASSES, DIM))
    arrays: dict[str, Any] = {}
    for part, count in (("train", 20), ("test", 10)):
        labels = np.tile(np.arange(CLASSES), count)
        arrays[part] = (50 * (centres[labels] + rng.normal(size=(len(labels), DIM)))).astype(np.float32)
        arrays[f"{part}_labels"] = labels
    found = tmp_path_factory.mktemp("vectors") / "vectors.npz"
    np.savez(found, **arrays)
    return found


@pytest.fixture(scope="module")
def data(path: Path) -> Dataset:
    return load("vectors", path, DataOptions())


def config_of(data: Dataset, name: str = "ours", /, **more: Any) -> ExperimentConfig:
    base: Tree = {
        "data": {"name": "vectors", "fingerprint": data.fingerprint},
        "stream": {"step": 2},
        "train": {"first_epochs": 4, "epochs": 2, "batch": 16},
        "cluster": {"restarts": 2},
        "method": {"name": name},
    }
    if METHODS[name].needs_memory:
        base["memory"] = {"quota": 6}
    return resolve(merge(base, OWN.get(name, {}), more))


def check_result(found: Result) -> None:
    assert [step.classes for step in found.steps] == [2, 4, 6]
    for step in found.steps:
        assert step.acc is not None
        assert 0 < step.acc <= 1
    assert found.steps[0].acc is not None
    assert found.steps[0].acc > 0.9  # two separated classes


@pytest.mark.parametrize("labels", ["pseudo", "given"])
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method(method: str, labels: str, data: Dataset, tmp_path: Path) -> None:
    found = run(config_of(data, method, labels=labels), data, tmp_path)
    check_result(found)
    tensors, _ = read_tensors(found.path / "task-03.safetensors")
    assert [name for name in tensors if name.startswith("model.backbone")] == []  # the identity has no weights
    assert tensors["model.head.weight"].shape == (CLASSES, DIM)
    if METHODS[method].needs_memory:
        stored, _ = read_tensors(found.path / "memory-03.safetensors")
        assert stored["images"].dtype == torch.float32
        assert stored["images"].shape[1] == DIM
        rows = {tuple(row) for row in data.train.read(np.arange(120)).tolist()}
        assert all(tuple(row) in rows for row in stored["images"].tolist())  # as delivered, not normalised


@pytest.mark.parametrize("cluster", list(CLUSTERERS))
def test_every_clusterer(cluster: str, data: Dataset, tmp_path: Path) -> None:
    """With pseudo labels from such clear clusters, the labels are almost all right."""
    found = run(config_of(data, cluster={"name": cluster}), data, tmp_path)
    check_result(found)
    assert all(step.label_acc is not None and step.label_acc > 0.9 for step in found.steps[1:])


@pytest.mark.parametrize("select", list(SELECTORS))
@pytest.mark.parametrize("reading", ["aligned", "reuse", "recluster"])
def test_every_selector_and_reading(select: str, reading: str, data: Dataset, tmp_path: Path) -> None:
    check_result(run(config_of(data, memory={"select": select, "reading": reading, "quota": 6}), data, tmp_path))


@pytest.mark.parametrize("features", ["current", "first", "scratch", "pca"])
@pytest.mark.parametrize("arch", ["identity", "mlp"])
def test_every_extractor_and_backbone(features: str, arch: str, data: Dataset, tmp_path: Path) -> None:
    config = config_of(data, net={"arch": arch}, pseudo={"features": features}, optim={"lr": 0.05})
    check_result(run(config, data, tmp_path))


def test_class_means_of_the_identity_by_an_independent_classifier(data: Dataset, tmp_path: Path) -> None:
    """With all vectors as exemplars and labels, the nearest mean of unit vectors is that of scikit-learn."""
    config = config_of(data, "icarl", labels="given", memory={"quota": 20, "mirror": False})
    found = run(config, data, tmp_path)
    train, test = (source.read(np.arange(len(source))).numpy() for source in (data.train, data.test))
    train, test = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, test))
    reference = NearestCentroid().fit(train, data.train_labels)
    means = reference.centroids_ / np.linalg.norm(reference.centroids_, axis=1, keepdims=True)
    predicted = (test @ means.T).argmax(axis=1)
    last = found.steps[-1]
    assert last.acc_nme is not None
    assert last.acc_plain == pytest.approx(np.mean(predicted == data.test_labels))


class Stop(Exception):
    """Ends a run after some epochs."""


class StopAfter(Silent):
    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def epoch(self, record: EpochRecord) -> None:
        self.left -= 1
        if not self.left:
            raise Stop


@pytest.mark.parametrize("method", ["ours", "joint", "bic"])
def test_a_resumed_run_ends_with_the_same_bits(method: str, data: Dataset, tmp_path: Path) -> None:
    config = config_of(data, method, net={"arch": "mlp"})
    whole = run(config, data, tmp_path / "whole")
    with pytest.raises(Stop):
        run(config, data, tmp_path / "stopped", reporter=StopAfter(7))
    resumed = run(config, data, tmp_path / "stopped")
    names = sorted(file.name for file in whole.path.glob("*.safetensors"))
    assert names == sorted(file.name for file in resumed.path.glob("*.safetensors"))
    for name in names:
        one, other = (read_tensors(result.path / name)[0] for result in (whole, resumed))
        assert all(torch.equal(value, other[key]) for key, value in one.items())


def test_restoring_needs_no_past_task(data: Dataset, tmp_path: Path) -> None:
    """Only the last model and the initial one are read. Files from before that store no sizes, and need all tasks."""
    found = run(config_of(data), data, tmp_path)
    (found.path / "task-02.safetensors").rename(tmp_path / "second")
    state = load_task(found.path, 3, data.inputs)
    assert (state.sizes, state.names, state.inputs) == ((2, 2, 2), tuple(range(6)), data.inputs)
    last = found.path / "task-03.safetensors"
    write_tensors(last, read_tensors(last)[0])
    with pytest.raises(WhorlError, match=r"cannot read .*task-02"):
        load_task(found.path, 3, data.inputs)
    (tmp_path / "second").rename(found.path / "task-02.safetensors")
    assert load_task(found.path, 3, data.inputs).sizes == (2, 2, 2)


def test_an_unfinished_task_1_cannot_be_reused(data: Dataset, tmp_path: Path) -> None:
    config = config_of(data)
    with pytest.raises(Stop):
        run(config, data, tmp_path / "one", reporter=StopAfter(1))
    unfinished = Run.at(tmp_path / "one", config)
    other = config_of(data, cluster={"name": "gmm", "restarts": 2})
    with pytest.raises(WhorlError, match="has not finished task 1, so it cannot be reused"):
        run(other, data, tmp_path / "two", task1=unfinished)


def test_the_estimate_counts_no_copies_of_vectors(data: Dataset) -> None:
    """Vectors have no views: EEIL's twelve copies are one."""
    twelve = config_of(data, "eeil", method={"profile": "twelve"})
    light = config_of(data, "eeil", method={"profile": "light"})
    assert workload(twelve, data) == workload(light, data)
    assert workload(twelve, data)[0] == 4 * 40


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"net": {"arch": "tiny"}}, "network 'tiny' does not take vectors; set `net.arch` to identity or mlp"),
        ({"memory": {"quota": 0}}, "ours needs exemplars; set `memory.quota` to 1 or more"),
        ({"stream": {"step": 4}}, "`stream.step=4` does not divide the 6 classes"),
        ({"method": {"name": "wa", "clip": True}}, "wa clips negative weights and needs non-negative features"),
    ],
)
def test_settings_that_do_not_suit_vectors(more: Tree, line: str, data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match=line) as caught:
        run(config_of(data, **more), data, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_single_vector_can_be_learned(data: Dataset) -> None:
    """Neither the identity nor the perceptron has batch norm, which would need two."""
    for arch in ("identity", "mlp"):
        learner = small_learner(data, method__name="finetune", net__arch=arch, memory__quota=0)
        learn(learner, deliveries(data, labels_given=True)[:1])
        before = weights(learner.model)["head.weight"]
        one = Delivery(Subset(data.train, np.array([0])), np.array([0]))
        epochs = list(learner.learn(one, Silent()))
        assert [halt.record.images for halt in epochs if halt.record] == [1, 1]
        assert not torch.equal(weights(learner.model)["head.weight"], before)


def test_the_file_is_part_of_the_identity_of_a_run(path: Path, data: Dataset, tmp_path: Path) -> None:
    """Other vectors under the same path make another run."""
    arrays = dict(np.load(path))
    arrays["train"] = arrays["train"] + 1
    np.savez(tmp_path / "other.npz", **arrays)
    other = load("vectors", tmp_path / "other.npz")
    assert config_of(data).title != config_of(other).title


def test_the_command_line(path: Path, tmp_path: Path) -> None:
    words = f"run --data vectors --data-dir {path} --step 2 --epochs 2 --quota 6 --json".split()
    document = json.loads(whorl(*words, cwd=tmp_path).stdout)
    assert [step["classes"] for step in document["steps"]] == [2, 4, 6]
    assert document["config"]["net"]["arch"] == "identity"
    (tmp_path / "bad.npz").write_bytes(b"no vectors")
    refused = whorl("run", "--data", "vectors", "--data-dir", "bad.npz", "--step", "2", cwd=tmp_path, code=2)
    assert refused.stderr == "whorl: bad.npz is not an npz file; write it with numpy.savez\n"
