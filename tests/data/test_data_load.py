from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
import torch

from whorl import registry
from whorl.data import DataOptions, Dataset, Notify, load, names
from whorl.data.synthetic import load_synthetic
from whorl.errors import WhorlError


def other_package(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    notify("hello")
    return load_synthetic(directory, DataOptions(classes=4), notify)


def locked(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    raise PermissionError(13, "Permission denied", "/some/where")


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [
        EntryPoint("mine", f"{__name__}:other_package", "whorl.data"),
        EntryPoint("bad", "nowhere:x", "whorl.data"),
        EntryPoint("locked", f"{__name__}:locked", "whorl.data"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **query: EntryPoints(offered).select(**query))


def test_names() -> None:
    assert {"cifar100", "digits", "folder", "imagenet", "imagenet100", "synthetic", "vectors"} <= set(names())


def test_unknown_names_the_nearest() -> None:
    with pytest.raises(WhorlError, match="unknown data set 'cifar10'; did you mean 'cifar100'"):
        load("cifar10", None)
    with pytest.raises(WhorlError, match="hub: needs a name"):
        load("hub:", None)


@pytest.mark.usefixtures("entry")
def test_another_package_may_offer_data() -> None:
    said: list[str] = []
    data = load("mine", None, DataOptions(classes=2, per_class=7, resize=8), said.append)
    assert "mine" in names()
    assert said == ["hello"]
    assert (len(data.train), len(data.test), data.train.size) == (14, 40, 8)
    with pytest.raises(WhorlError, match="the plug-in for data set 'bad' cannot be loaded"):
        load("bad", None)
    with pytest.raises(WhorlError, match=r"^locked cannot be loaded \(.*Permission denied: '/some/where'\)$"):
        load("locked", None)


def test_classes_keeps_the_lowest_ids() -> None:
    whole, few = load("digits", None), load("digits", None, DataOptions(classes=3))
    assert few.class_names == ("0", "1", "2")
    assert np.bincount(few.test_labels).tolist() == np.bincount(whole.test_labels)[:3].tolist()
    rows = np.flatnonzero(whole.train_labels < 3)
    assert torch.equal(few.train.read(np.arange(len(few.train))), whole.train.read(rows))
    with pytest.raises(WhorlError, match=r"digits has 10 classes, fewer than `data.classes=11`"):
        load("digits", None, DataOptions(classes=11))


def test_per_class_limits_the_training_images_only() -> None:
    whole, few = load("digits", None), load("digits", None, DataOptions(per_class=5))
    assert np.bincount(few.train_labels).tolist() == [5] * 10
    assert len(few.test) == len(whole.test)
    assert len(load("digits", None, DataOptions(per_class=10_000)).train) == len(whole.train)


def test_resize_of_resident_images() -> None:
    data = load("digits", None, DataOptions(resize=12, per_class=3))
    assert (data.inputs.size, data.train.size, data.test.size, len(data.train)) == (12, 12, 12, 30)
    assert load("synthetic", None, DataOptions(resize=16)).inputs.size == 16


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"resize": 0}, "`data.resize` must be at least 1, not 0"),
        ({"per_class": -1}, "`data.per_class` must be at least 1, not -1"),
        ({"classes": 0}, "`data.classes` must be at least 1, not 0"),
        ({"workers": -1}, "`workers` must be at least 0, not -1"),
    ],
)
def test_options_out_of_range(bad: dict[str, int], message: str) -> None:
    with pytest.raises(WhorlError, match=f"^{message}$"):
        DataOptions(**bad)  # type: ignore[arg-type]
