"""Whorl in Python: the same bits as ``whorl run``, scikit-learn's conventions, all forms of samples, saving, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from whorl import Inputs, Whorl, WhorlError, load_tasks
from whorl.data import DataOptions, load
from whorl.data.configured import load_configured
from whorl.data.stream import class_incremental, split_sizes
from whorl.experiment import run
from whorl.nets.backbone import BACKBONES
from whorl.progress import Quiet
from whorl.recipes import resolve
from whorl.runs import files
from whorl.runs.run import Run
from whorl.state import State
from whorl.tree import merge, override
from whorl.types import HIDDEN, IntArray, granted

FEW = {"train.first_epochs": 2, "train.epochs": 2, "cluster.restarts": 2}


def same(one: State, other: State) -> bool:
    """Whether two learners are equal, bit for bit."""
    tensors = all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in ((one.model, other.model), (one.memory, other.memory))
    )
    means = one.means is other.means is None or np.array_equal(np.asarray(one.means), np.asarray(other.means))
    past = all(np.array_equal(a.labels, b.labels) for a, b in zip(one.past, other.past, strict=True))
    return tensors and means and past and (one.sizes, one.names, one.inputs) == (other.sizes, other.names, other.inputs)


def state(model: Whorl) -> State:
    return model._learner.state()


def vectors(classes: list[int], count: int = 20, seed: int = 0) -> tuple[npt.NDArray[np.float32], IntArray]:
    """Vectors around one centre per class."""
    centres = np.random.default_rng(7).normal(size=(12, 10))
    y = np.repeat(classes, count)
    noise = np.random.default_rng(seed).normal(size=(len(y), 10))
    return (centres[y] + 0.1 * noise).astype(np.float32), y.astype(np.int64)


def taught(**params: Any) -> Whorl:
    """A model that knows the classes 0 to 2."""
    params = {"method": "icarl", "verbose": 0, "options": FEW, **params}
    return Whorl(**params).learn(*vectors([0, 1, 2]))


@pytest.mark.parametrize("method", ["ours", "bic", "joint", "ilio"])
def test_the_same_weights_as_whorl_run_in_one_process_or_in_several(method: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {**FEW}
    if method == "ilio":
        del options["train.epochs"]
    data = load("digits", None, DataOptions(per_class=20))
    asked = {"data": {"name": "digits", "per_class": 20}, "method": {"name": method}, "seed": 3}
    asked |= {"train": {key[6:]: options[key] for key in options if key.startswith("train.")}}
    config = resolve({**asked, "cluster": {"restarts": 2}})
    result = run(config, data, tmp_path)
    stored = Run.open(result.path).load_task(len(result.steps), data.inputs)

    sizes = split_sizes(10, config.stream.step, config.stream.first, config.stream.tasks)
    stream, _ = class_incremental(data, sizes, config.stream.order, labels_given=False)
    one = Whorl(method, net="tiny", recipe="demo", inputs=data.inputs, options=options, random_state=3, verbose=0)
    several = clone(one)
    for delivery in stream:
        pixels = delivery.images.read(np.arange(len(delivery.images)))
        labels = None if delivery.labels is HIDDEN else granted(delivery.labels)
        new = None if labels is not None else delivery.new
        one.learn(pixels, labels, new)
        several.learn(pixels.numpy(), labels, new).save(tmp_path / "zoo")
        several = Whorl.load(tmp_path / "zoo", verbose=0)
    assert same(state(one), state(several))
    assert torch.equal(stored.model["head.weight"], state(one).model["head.weight"])
    assert all(torch.equal(stored.model[name], state(one).model[name]) for name in stored.model)
    assert all(torch.equal(stored.memory[name], state(one).memory[name]) for name in stored.memory)
    assert one.score(data.test, data.test_labels) == pytest.approx(result.steps[-1].acc)
    assert np.array_equal(several.labels_, one.labels_)
    assert several.deliveries_ == one.deliveries_
    assert [(each.samples, each.labelled, each.classes) for each in one.deliveries_] == [
        (120, True, (0, 1, 2, 3, 4, 5)), (40, False, (6, 7)), (40, False, (8, 9)),
    ]  # fmt: skip


@pytest.mark.parametrize("labels", ["pseudo", "given"])
@pytest.mark.parametrize("data", ["digits", "vectors"])
def test_the_tasks_of_an_experiment_give_the_weights_of_its_run(data: str, labels: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(60, 5)), rng.normal(size=(12, 5))
    file = tmp_path / "v.npz"
    np.savez(file, train=train, train_labels=np.arange(60) % 6, test=test, test_labels=np.arange(12) % 6)
    place = file if data == "vectors" else None
    spec = {"stream.step": 2, "data.per_class": 9}
    asked = override(("data.name", data), ("labels", labels), ("method.name", "wa"), ("seed", 4), *spec.items())
    config = resolve(merge(asked, override(*FEW.items())))
    found, loaded = load_configured(config.data, place, False, 0, print)
    result = run(config.model_copy(update={"data": found}), loaded, tmp_path / "runs")
    stored = Run.open(result.path).load_task(len(result.steps), loaded.inputs)
    tasks = load_tasks(data, place, labels, spec)  # type: ignore[arg-type]
    net, recipe = ("tiny", "demo") if data == "digits" else ("auto", "fast")
    model = Whorl("wa", net=net, recipe=recipe, inputs=tasks.inputs, options=FEW, random_state=4, verbose=0)
    for task in tasks:
        model.learn(*task)
    assert len(tasks) == len(result.steps)
    assert all(torch.equal(stored.model[name], value) for name, value in state(model).model.items())
    assert all(torch.equal(stored.memory[name], value) for name, value in state(model).memory.items())
    last = result.steps[-1]
    expected = last.acc if labels == "pseudo" else last.acc_plain
    assert model.score(tasks.test, tasks.test_labels) == pytest.approx(expected)


def test_tasks_take_no_settings_of_the_learner() -> None:
    with pytest.raises(WhorlError, match=r"keys of the sections data and stream, not 'train\.epochs'"):
        load_tasks("digits", options={"train.epochs": 1})


def test_scikit_learns_conventions() -> None:
    model = Whorl("wa", net="mlp", options=FEW, random_state=5)
    assert model.get_params() == {
        "method": "wa", "net": "mlp", "recipe": "fast", "inputs": None, "options": FEW, "device": "auto", "verbose": 1,
        "random_state": 5,
    }  # fmt: skip
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(verbose=0) is model
    with pytest.raises(NotFittedError, match="call learn with labelled samples first"):
        model.predict(vectors([0])[0])
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert model.learn(*vectors([0, 1, 2])) is model
    check_is_fitted(model)
    assert "random_state=5" in repr(model)
    with pytest.raises(NotFittedError):
        clone(model).predict(vectors([0])[0])
    learned = state(model)
    assert same(state(model.learn(vectors([3])[0], new=1).fit(*vectors([0, 1, 2]))), learned)


def test_predictions_agree_with_each_other() -> None:
    model = taught(method="ours").learn(vectors([3, 4], seed=1)[0], new=2)
    x, _ = vectors([0, 1, 2, 3, 4], seed=2)
    probabilities = model.predict_proba(x)
    assert probabilities.shape == (100, 5)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(100), abs=1e-5)
    assert np.array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(x))
    root = np.sqrt(np.mean(vectors([0, 1, 2])[0].astype(np.float64) ** 2))
    assert model.transform(x) == pytest.approx(x / root, rel=1e-5)
    model_state = state(model).model
    logits = torch.from_numpy(model.transform(x)) @ model_state["head.weight"].T + model_state["head.bias"]
    assert probabilities == pytest.approx(torch.softmax(logits.double(), 1).numpy(), abs=1e-6)


def test_scores_by_hand() -> None:
    model = taught()
    x, y = vectors([0, 1, 2], seed=3)
    wrong = np.where(np.arange(60) < 6, (y + 1) % 3, y)
    assert model.score(x, wrong) == pytest.approx(54 / 60)
    assert model.score(x, (y + 1) % 3) == 0  # every class has a name, so names count
    model.learn(vectors([3, 4], seed=1)[0], new=2)
    x, y = vectors([0, 1, 2, 3, 4], seed=3)
    assert model.score(x, (y + 1) % 5) == 1  # the best assignment of names
    assert model.score(x, np.array(["a", "b", "c", "d", "d"])[y]) == pytest.approx(80 / 100)


@pytest.mark.parametrize("stop", [1, 3])
def test_an_interrupted_learn_leaves_the_model_as_it_was(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = taught(net="mlp", method="eeil"), vectors([3, 4], seed=1)[0]
    before, seen = state(model), [0]

    def tick(self: Quiet, images: int, loss: Tensor) -> None:
        seen[0] += 1
        if seen[0] == stop:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Quiet, "tick", tick)
        with pytest.raises(KeyboardInterrupt):
            model.learn(x, new=2)
    assert same(state(model), before)
    assert len(model.deliveries_) == 1
    assert same(state(model.learn(x, new=2)), state(taught(net="mlp", method="eeil").learn(x, new=2)))


def test_an_interrupted_first_delivery_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Whorl(verbose=0, options=FEW)
    with monkeypatch.context() as patch:
        patch.setattr(Quiet, "tick", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.learn(*vectors([0, 1]))
    with pytest.raises(NotFittedError):
        _ = model.classes_


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    taught(verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "delivery 1  train  epoch 2/2  loss" in err
    taught(verbose=0)
    assert capsys.readouterr() == ("", "")


def test_known_classes_among_new_ones() -> None:
    model = taught(options={**FEW, "memory.quota": 4})
    x, y = vectors([1, 3], seed=4)
    model.learn(x, y)
    assert model.deliveries_[1].classes == (3,)
    assert np.array_equal(model.classes_, [0, 1, 2, 3])
    assert np.array_equal(model.labels_, y)
    memory = state(model).memory
    assert np.array_equal(np.bincount(memory["labels"]), [4, 4, 4, 4])
    assert 2 in memory["tasks"][memory["labels"] == 1]  # class 1 improved
    model.learn(*vectors([0, 2], seed=5))
    assert model.deliveries_[2].classes == ()
    assert model.score(*vectors([0, 1, 2, 3], seed=6)) == 1


def test_names_of_classes() -> None:
    x, y = vectors([0, 1])
    model = Whorl("icarl", verbose=0, options=FEW).learn(x, np.array(["owl", "cat"])[y])
    assert list(model.classes_) == ["cat", "owl"]
    assert list(model.predict(x[:1])) == ["owl"]
    model.learn(vectors([2, 3], seed=1)[0], new=2)
    assert list(model.classes_) == ["cat", "owl", "cluster 1", "cluster 2"]
    model.learn(vectors([4], seed=2)[0], ["ant"] * 20).learn(vectors([5], seed=2)[0], new=1)
    assert list(model.classes_) == ["cat", "owl", "cluster 1", "cluster 2", "ant", "cluster 3"]
    numbers = Whorl("icarl", verbose=0, options=FEW).learn(x, torch.from_numpy(y) * 10).learn(x, new=2)
    assert list(numbers.classes_) == [0, 10, 11, 12]
    assert numbers.classes_.dtype == np.int64


class Source:
    """Someone's own ``ImageSource``."""

    size, resident = 16, True

    def __init__(self, pixels: npt.NDArray[np.uint8]) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, indices: IntArray) -> Tensor:
        return torch.from_numpy(self.pixels[indices])


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[npt.NDArray[np.uint8], IntArray, Path]:
    """16-pixel images of two classes: as an array, and as PNG files in class folders."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    labels = np.repeat([0, 1], 8)
    pixels = (
        rng.integers(0, 100, (16, 16, 16, 3)).astype(np.uint8) + (labels * 100).astype(np.uint8)[:, None, None, None]
    )
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        folder = root / ("dark", "light")[label]
        folder.mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:02}.png")
    return pixels, labels, root


def as_table(pixels: npt.NDArray[np.uint8], labels: IntArray) -> Any:
    import datasets

    kinds = datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=["dark", "light"])})
    images = [Image.fromarray(each) for each in pixels]
    return datasets.Dataset.from_dict({"image": images, "kind": labels.tolist()}, kinds)


def test_every_form_of_images_gives_the_same_model(photos: tuple[npt.NDArray[np.uint8], IntArray, Path]) -> None:
    pixels, labels, root = photos
    names = np.array(["dark", "light"])[labels]
    paths = sorted(root.rglob("*.png"))
    table = as_table(pixels, labels)
    given: list[tuple[Any, Any]] = [
        (pixels, names), (torch.from_numpy(pixels), list(names)), (paths, names),
        ([str(path) for path in paths], names),
        (root, None), (str(root), "folders"), (table, None), (table, "kind"), (table, names), (Source(pixels), names),
    ]  # fmt: skip
    models = []
    for images, named in given:
        model = Whorl(net="tiny", inputs=Inputs.images(16), options=FEW, verbose=0).learn(images, named)
        models.append(model.learn(images, new=2))
        assert list(model.classes_) == ["dark", "light", "cluster 1", "cluster 2"]
    for (images, _), model in zip(given, models, strict=True):
        assert same(state(model), state(models[0]))
        assert np.array_equal(model.transform(images), models[0].transform(pixels))


def test_images_are_brought_to_the_size_of_the_first(photos: tuple[npt.NDArray[np.uint8], IntArray, Path]) -> None:
    pixels, labels, root = photos
    model = Whorl(net="tiny", options=FEW, verbose=0).learn(pixels, labels)
    assert model.classifier_.inputs == Inputs.images(16)
    wide = np.pad(pixels, ((0, 0), (0, 0), (5, 5), (0, 0)))
    assert np.array_equal(model.transform(wide), model.transform(pixels))  # the centre square
    assert np.array_equal(model.transform(root), model.transform(pixels))
    small, large = (np.full((2, side, side, 3), 77, np.uint8) for side in (16, 40))
    assert np.array_equal(model.transform(large), model.transform(small))
    assert Whorl(net="tiny", options=FEW, verbose=0).learn(root).classifier_.inputs.size == 32


def test_large_images_are_photos() -> None:
    pixels = np.zeros((4, 128, 128, 3), np.uint8)
    model = Whorl(recipe="paper", options={"train.first_epochs": 0}, verbose=0).learn(pixels, [0, 0, 1, 1])
    assert (model.config_.net.arch, model.classifier_.inputs.photos) == ("resnet18", True)
    own = Whorl("wa", recipe="paper", options={"train.first_epochs": 0}, verbose=0).learn(pixels, [0, 0, 1, 1])
    assert own.config_.optim.milestones == (30, 60, 80, 90)  # WA's constants for ImageNet


class Mine(nn.Module):
    """Someone's own backbone: the mean colour of each quarter, times trained weights."""

    dim = 12

    def __init__(self) -> None:
        super().__init__()
        self.inputs = Inputs.images(16, view="none", mean=(0.5,) * 3, std=(0.5,) * 3)
        self.scale = nn.Parameter(torch.full((12,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1) * self.scale


def test_a_backbone_brought_along(photos: tuple[npt.NDArray[np.uint8], IntArray, Path], tmp_path: Path) -> None:
    pixels, labels, _ = photos
    frozen = {"train.first_epochs": 0, "train.epochs": 1, "cluster.restarts": 2}
    net = Mine()
    model = Whorl(net=net, options=frozen, verbose=0).learn(pixels, labels)
    assert model.classifier_.inputs == net.inputs
    seen = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
    assert model.transform(pixels) == pytest.approx(net(seen).detach().numpy(), abs=1e-5)
    model.learn(pixels, new=2)
    assert torch.equal(net.scale, torch.full((12,), 2.0))  # the user's module is not trained
    assert not torch.equal(state(model).model["backbone.scale"], net.scale)
    model.save(tmp_path)
    with pytest.raises(WhorlError, match="was learned with its own backbone; pass it as `net`"):
        Whorl.load(tmp_path)
    with pytest.raises(WhorlError, match="does not fit this backbone; pass the one that it was learned with"):
        Whorl.load(tmp_path, net=BACKBONES["tiny"](net.inputs, True))  # type: ignore[arg-type]
    loaded = Whorl.load(tmp_path, net=Mine(), verbose=0)
    assert same(state(loaded), state(model))
    assert same(state(loaded.learn(pixels, new=1)), state(model.learn(pixels, new=1)))
    with pytest.raises(WhorlError, match="needs an integer attribute `dim`"):
        Whorl(net=nn.Linear(3, 3)).learn(pixels, labels)
    net.dim = 11
    with pytest.raises(WhorlError, match=r"features of shape \(1, 12\) for 1 sample, but its `dim` is 11"):
        Whorl(net=net, verbose=0).learn(pixels, labels)


def test_a_registered_backbone_with_its_own_inputs(
    photos: tuple[npt.NDArray[np.uint8], IntArray, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, labels, _ = photos
    monkeypatch.setitem(BACKBONES, "mine", lambda inputs, final_relu: Mine())
    options = {"train.first_epochs": 0}
    model = Whorl(net="mine", options=options, verbose=0).learn(pixels.repeat(2, 1).repeat(2, 2), labels)
    assert model.classifier_.inputs == Mine().inputs
    assert model.transform(pixels) == pytest.approx(
        Whorl(net=Mine(), options=options, verbose=0).learn(pixels, labels).transform(pixels)
    )


def test_what_a_stored_model_says(tmp_path: Path) -> None:
    model = taught(random_state=4, inputs=Inputs.vectors(10, 2.0))
    assert model.save(tmp_path / "zoo") == tmp_path / "zoo" / "model.safetensors"
    model.learn(vectors([3])[0], new=1).save(str(tmp_path / "zoo"))
    loaded = Whorl.load(tmp_path / "zoo", device="cpu", verbose=0)
    assert loaded.get_params() == {**model.get_params(), "device": "cpu"}
    assert (loaded.config_, loaded.deliveries_) == (model.config_, model.deliveries_)
    assert [path.name for path in (tmp_path / "zoo").iterdir()] == ["model.safetensors"]
    with pytest.raises(WhorlError, match="was learned with the network 'auto'; leave `net` out"):
        Whorl.load(tmp_path / "zoo", net=Mine())


def test_numbers_of_numpy_can_be_stored(tmp_path: Path) -> None:
    options = {"memory.quota": np.int64(3), "optim.lr": np.float64(0.1), "train.first_epochs": 1, "train.epochs": 1}
    model = Whorl("icarl", options=options, random_state=np.int64(2), verbose=0).learn(X, Y)  # type: ignore[arg-type]
    model.learn(X, new=np.int64(2)).save(tmp_path)  # type: ignore[arg-type]
    loaded = Whorl.load(tmp_path / "model.safetensors", verbose=0)
    assert same(state(loaded), state(model))
    assert (loaded.random_state, loaded.config_) == (2, model.config_)


@pytest.mark.parametrize("method", ["joint", "icarl"])
def test_samples_that_change_later_do_not_matter(method: str, tmp_path: Path) -> None:
    x, z = X.copy(), vectors([3, 4], seed=1)[0]
    model = Whorl(method, options=FEW, verbose=0).learn(x, Y)
    model.save(tmp_path)
    x[:] = 0
    assert same(state(model.learn(z, new=2)), state(Whorl.load(tmp_path, verbose=0).learn(z, new=2)))


def test_the_classifier_cannot_be_changed() -> None:
    model = taught()
    means = model.classifier_.means
    assert means is not None
    with pytest.raises(ValueError, match="read-only"):
        means[0, 0] = 99


def test_scikit_learns_tools() -> None:
    assert is_classifier(Whorl())
    model = Whorl("icarl", options=FEW, verbose=0)
    assert cross_val_score(model, X, Y, cv=2).tolist() == [1, 1]  # folds by class
    still = X.copy()
    still.setflags(write=False)  # torch would warn
    assert same(state(clone(model).learn(still, Y)), state(model.learn(X, Y)))


def test_files_of_the_last_delivery(photos: tuple[npt.NDArray[np.uint8], IntArray, Path], tmp_path: Path) -> None:
    pixels, labels, root = photos
    paths = [str(path) for path in sorted(root.rglob("*.png"))]
    model = Whorl(net="tiny", options=FEW, verbose=0).learn(root)
    assert list(model.files_) == paths
    model.save(tmp_path / "zoo")
    assert Whorl.load(tmp_path / "zoo").files_ == model.files_
    assert list(model.learn(paths[:6], new=1).files_) == paths[:6]
    assert model.learn(pixels, labels=np.array(["dark", "light"])[labels]).files_ == ()


def test_files_that_are_not_models(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match=r"has no model\.safetensors; pass a folder that Whorl\.save wrote"):
        Whorl.load(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"someone's own file")
    for act in (lambda: Whorl.load(tmp_path), lambda: taught().save(tmp_path)):
        with pytest.raises(WhorlError, match=r"model\.safetensors"):
            act()
    assert path.read_bytes() == b"someone's own file"
    path.unlink()
    taught().save(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WhorlError, match=r"cannot read .*model\.safetensors.*; save the model again, or pass another"):
        Whorl.load(tmp_path)
    taught().save(tmp_path)  # a damaged model may be replaced
    with pytest.raises(WhorlError, match=r"cannot make the folder .*: .*; choose another one"):
        taught().save(path / "inside")
    tensors, about = files.read_tensors(path)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 99}, r"has format 99, made by a newer whorl; update this one \(2\)"),
        ({"estimator": {}}, r"is damaged \(estimator\.method: Field required\); save the model again"),
        ({"inputs": None}, r"is damaged \(inputs: Input should be an object\); save the model again"),
    ]
    for change, message in changes:
        files.write_tensors(path, tensors, {**about, **change})
        with pytest.raises(WhorlError, match=message):
            Whorl.load(tmp_path)


X, Y = vectors([0, 1, 2])
PIXELS = np.zeros((4, 8, 8, 3), np.uint8)
BAD: list[tuple[dict[str, Any], tuple[Any, ...], str]] = [
    ({}, (X,), "the initial delivery needs labels"),
    ({}, (X, None, 3), "the initial delivery needs labels"),
    ({}, (X, Y[:-1]), "there are 60 samples but 59 labels"),
    ({}, (X, Y / 2), "`labels` must be integers or strings, one per sample, not float64"),
    ({}, (X, "kind"), "`labels` must be one label per sample"),
    ({}, (X, Y, 4), "the labels hold 3 new class(es), but `new=4`; leave `new` out"),
    ({}, (np.full((4, 3), np.nan), [0, 0, 1, 1]), "some vectors are not finite"),
    ({}, (np.zeros((4, 3, 8, 8), np.uint8), [0, 0, 1, 1]), "not uint8 (4, 3, 8, 8); move the channels to the end"),
    ({}, (np.zeros((4, 8, 8, 3)), [0, 0, 1, 1]), "images must be uint8 in 0..255, not float64 (4, 8, 8, 3)"),
    ({}, (np.zeros((4, 7, 7)), [0, 0, 1, 1]), "samples must be uint8 images [n, height, width, 3] or vectors of"),
    ({}, (np.zeros((4, 0)), [0, 0, 1, 1]), "or vectors of numbers [n, d], not float64 (4, 0)"),
    ({}, (np.zeros((4, 0, 8, 3), np.uint8), [0, 0, 1, 1]), "not uint8 (4, 0, 8, 3)"),
    ({}, (np.full((4, 3), 1e300), [0, 0, 1, 1]), "some vectors are not finite in float32"),
    ({}, ([[1.0, 2.0], [3.0]], [0, 1]), "the samples differ in length; all of them must have the same shape"),
    ({}, (X, np.full(60, 2**63, np.uint64)), "`labels` must not exceed 9223372036854775807"),
    ({}, (PIXELS[:0], []), "there are no samples"),
    ({}, ("nowhere", "folders"), "nowhere is not a folder"),
    ({}, (["nowhere.png"], [0]), "nowhere.png: cannot be read as an image (no such file or directory); repair"),
    ({}, (object(), [0]), "cannot use object as samples"),
    ({"method": "our"}, (X, Y), "unknown method 'our'; did you mean 'ours'?"),
    ({"net": "resnet3"}, (X, Y), "unknown network 'resnet3'"),
    ({"net": "resnet32"}, (X, Y), "network 'resnet32' does not take vectors; set `net.arch` to identity or mlp"),
    ({"net": "mlp"}, (PIXELS, [0, 0, 1, 1]), "network 'mlp' does not take images"),
    ({"recipe": "slow"}, (X, Y), "unknown recipe 'slow'"),
    ({"device": "cuda:9"}, (X, Y), "`device=cuda:9` is not available here"),
    ({"device": None}, (X, Y), "`device` must be a string, not None"),
    ({"inputs": 3}, (X, Y), "`inputs`: "),
    ({"random_state": None}, (X, Y), "`random_state` must be an integer, not None"),
    ({"random_state": 0.5}, (X, Y), "`random_state` must be an integer, not 0.5"),
    ({"method": None}, (X, Y), "`method`: input should be a valid string, not None"),
    ({"options": [("memory.quota", 3)]}, (X, Y), "`options`: input should be a valid dictionary"),
    ({"options": {"memory.quota": {1}}}, (X, Y), "`options` must be config values by key ({1} cannot be stored)"),
    ({"options": {"seed": 5}}, (X, Y), "set `seed` by the parameter `random_state`, not by `options`"),
    ({"options": {"method.name": "wa"}}, (X, Y), "set `method.name` by the parameter `method`"),
    ({"options": {"memory.quota": -1}}, (X, Y), "`memory.quota` must be at least 0, not -1"),
    ({"options": {"memory.qota": 1}}, (X, Y), "unknown config key 'memory.qota'; did you mean 'memory.quota'?"),
    ({"options": {"data.name": "digits"}}, (X, Y), "unknown config key 'data'"),
    ({"method": "lwf", "options": {"classifier": "nme"}}, (X, Y), "`classifier=nme` needs exemplars"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "words", "message"), BAD, ids=[message for _, _, message in BAD])
def test_mistakes_are_one_clear_line(params: dict[str, Any], words: tuple[Any, ...], message: str) -> None:
    with pytest.raises(WhorlError) as caught:
        Whorl(**{"verbose": 0, **params}).learn(*words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_later_deliveries() -> None:
    model = taught()
    for words, message in (
        ((X, None, None, False), "a delivery of new classes alone needs `new`, their number, between 1 and 60"),
        ((X, None, 61, True), "cannot find 61 new classes in 60 samples; `new` must be 0 to 60"),
        ((X, Y, None, True), "`mixed` is about samples without labels; leave it out"),
        ((X, None, 0), "between 1 and 60"),
        ((X, None, 61), "between 1 and 60"),
        ((X, None, 2.5), "`new` must be an integer, not 2.5"),
        ((X, None, "2"), "`new` must be an integer, not '2'"),
        ((X, ["a"] * 60), "the classes so far have integers as names; `labels` must be integers too, not strings"),
        ((PIXELS, [0, 0, 1, 1]), "the network takes vectors of length 10, not images"),
        ((X[:, :9], Y), "the network takes vectors of length 10, not vectors of length 9"),
    ):
        with pytest.raises(WhorlError, match=message.replace("(", r"\(")):
            model.learn(*words)
    with pytest.raises(WhorlError, match="the network takes vectors of length 10, not vectors of length 9"):
        model.predict(X[:, :9])
    with pytest.raises(WhorlError, match="have integers as names; `labels` must be integers too, not strings"):
        model.score(X, Y.astype(str))
    large = Whorl("icarl", verbose=0, options=FEW).learn(X, Y + (2**63 - 4))
    with pytest.raises(WhorlError, match="no integers left to name new classes after 9223372036854775806"):
        large.learn(X, new=2)
    assert large.learn(X, new=1).classes_.tolist() == [2**63 - 4, 2**63 - 3, 2**63 - 2, 2**63 - 1]
    model.set_params(method="wa")
    with pytest.raises(WhorlError, match="`method` cannot change after the initial delivery; make a new Whorl instead"):
        model.learn(X, new=2)
    model.set_params(method="icarl", device="cpu", verbose=0).learn(X, new=2)


def test_broken_photos_are_skipped_when_learning_and_refused_when_predicting(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/4.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(PIXELS[0]).save(tmp_path / name)
    (tmp_path / "b" / "5.png").write_bytes(b"no image")
    model = Whorl(net="tiny", options=FEW, verbose=0)
    with pytest.warns(UserWarning, match=r"skipped: b/5\.png: cannot be read as an image"):
        model.learn(tmp_path)
    assert model.deliveries_[0].samples == 4
    with pytest.raises(WhorlError, match=r"/b/5\.png: cannot be read as an image"):
        model.predict(tmp_path)


@pytest.mark.parametrize(
    ("samples", "labels", "new", "line"),
    [
        ([], [], None, "there are no samples"),
        ([Image.new("RGB", (8, 8))], [0], None, "cannot use images of Pillow as samples; pass arrays"),
        (np.eye(3), [1, "a", "b"], None, "must be all integers or all strings, not both"),
        (np.eye(3), None, True, "`new` must be an integer, not True"),
        (np.zeros((2, 8, 8, 3), np.uint8), [0, 1], None, "the network takes vectors of length 3, not images$"),
    ],
)
def test_one_line_for_wrong_samples(samples: Any, labels: Any, new: Any, line: str) -> None:
    model = Whorl("icarl", verbose=0).learn(np.repeat(np.eye(3), 4, axis=0), np.repeat(np.arange(3), 4))
    with pytest.raises(WhorlError, match=line):
        model.learn(samples, labels, new)


def test_an_array_of_paths(tmp_path: Path) -> None:
    for i in range(6):
        Image.new("RGB", (8, 8), (40 * i, 0, 0)).save(tmp_path / f"{i}.png")
    paths = np.array(sorted(map(str, tmp_path.glob("*.png"))))
    model = Whorl("icarl", net="tiny", recipe="demo", options=FEW, verbose=0).learn(paths, [0, 0, 0, 1, 1, 1])
    assert model.files_ == tuple(paths.tolist())


def test_a_model_without_a_delivery_says_so_as_an_error_of_whorl() -> None:
    with pytest.raises(WhorlError, match="has not learned anything yet"):
        Whorl().predict(np.eye(3))
