"""What loaders declare, and how it chooses networks and constants."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from whorl import registry
from whorl.data import LOADERS, DataOptions, Dataset, Notify, Traits, declares, find_loader, load, traits_of
from whorl.data.vectors import load_vectors
from whorl.recipes import resolve
from whorl.tree import Tree


@declares(Traits(224, classes=200, usual={"stream": {"step": 20}}))
def birds(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    raise NotImplementedError


@declares(Traits(vectors=True))
def sounds(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    return load_vectors(directory, options, notify)


def silent(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    raise NotImplementedError


@pytest.fixture(autouse=True)
def _entry(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [EntryPoint(name, f"{__name__}:{name}", "whorl.data") for name in ("birds", "sounds", "silent")]
    monkeypatch.setattr(registry, "entry_points", lambda **query: EntryPoints(offered).select(**query))


@pytest.mark.parametrize("method", ["icarl", "lucir", "wa", "bic", "eeil"])
def test_photos_of_another_package_get_the_constants_for_photos(method: str) -> None:
    asked: Tree = {"recipe": "paper", "method": {"name": method}}
    found = resolve({**asked, "data": {"name": "birds"}})
    same = resolve({**asked, "data": {"name": "folder", "resize": 224, "classes": 200}, "stream": {"step": 20}})
    assert (found.net.arch, found.stream.step) == ("resnet18", 20)
    for section in ("method", "net", "train", "optim", "memory"):
        assert getattr(found, section) == getattr(same, section), section
    small = resolve({**asked, "data": {"name": "birds", "resize": 64}})
    assert small.net.arch == "resnet32"


def test_vectors_of_another_package_get_the_identity() -> None:
    found = resolve({"data": {"name": "sounds"}, "stream": {"step": 2}, "method": {"name": "wa"}})
    assert found.net.arch == "identity"
    assert found.method.options["clip"] is False


def test_without_traits_the_samples_are_small_images() -> None:
    assert traits_of(find_loader("silent")) == Traits(32)
    assert resolve({"data": {"name": "silent"}, "stream": {"step": 2}}).net.arch == "resnet32"


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_declared_sizes_are_those_of_the_data(name: str) -> None:
    traits, data = traits_of(LOADERS[name]), load(name, None)
    assert (traits.size, traits.photos, traits.vectors) == (data.inputs.size, data.inputs.photos, False)
    assert traits.classes in (None, len(data.class_names))


def test_every_built_in_loader_declares_its_traits() -> None:
    sizes = {name: traits_of(loader).size for name, loader in LOADERS.items()}
    assert sizes == {
        "cifar100": 32, "digits": 8, "folder": 32, "imagenet": 224, "imagenet100": 224, "synthetic": 16, "vectors": 0,
    }  # fmt: skip
    assert all(hasattr(loader, "traits") for loader in LOADERS.values())
    assert traits_of(find_loader("hub:someone/something")) == Traits(32, files=True)
