"""Model folders with networks that are not trained: exemplars are features, and corrections need no photos."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from albums import SETTINGS, digit_of, digits
from whorl import registry
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.estimator import Whorl
from whorl.photos.asked import Settings
from whorl.photos.intake import hashed
from whorl.photos.opening import loaded
from whorl.photos.zoo import Zoo

FROZEN = Settings(
    method="icarl", net="grey", recipe="demo", tune="none", options={"train.first_epochs": 2, "train.epochs": 2}
)


class Grey(nn.Module):
    """Grey pixels as features. It brings its own preparation, of 8 pixels a side."""

    dim = 64

    def __init__(self) -> None:
        super().__init__()
        self.inputs = Inputs.images(8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        self.mix = nn.Conv2d(3, 1, 1, bias=False)
        nn.init.constant_(self.mix.weight, 1 / 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.mix(x).flatten(1)
        return out


def grey(inputs: Inputs, final_relu: bool) -> Grey:
    """The factory of a plug-in."""
    return Grey()


@pytest.fixture(scope="module", autouse=True)
def plug_in() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        offered = [EntryPoint("grey", f"{__name__}:grey", "whorl.nets")]
        patch.setattr(registry, "entry_points", lambda group: EntryPoints(offered).select(group=group))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder ``zoo``, which has learned 0 to 3 by labels and 4 to 6, with some of 0, without."""
    home = tmp_path_factory.mktemp("frozen")
    digits(home / "labelled", range(4), 0, 30, labelled=True)
    digits(home / "may", range(4, 7), 0, 20)
    digits(home / "may", [0], 50, 10)
    with Zoo.new(home / "zoo", verbose=0) as zoo:
        zoo.learn(home / "labelled", settings=FROZEN)
        zoo.learn(home / "may")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "home"))


def _model(zoo: Zoo) -> Whorl:
    return loaded(zoo.folder, zoo._store)


def test_photos_are_read_at_the_side_of_the_network(made: Path) -> None:
    with Zoo.open(made / "zoo", verbose=0) as zoo:
        model = _model(zoo)
        assert model.classifier_.inputs.size == 8
        answers = zoo.predict(made / "labelled", threshold=0)
    assert np.mean([one.answer == str(digit_of(one.file)) for one in answers]) > 0.8


def test_exemplars_are_found_by_their_features(made: Path) -> None:
    with Zoo.open(made / "zoo", verbose=0) as zoo:
        model = _model(zoo)
        rows = dict(zoo._store.rows("SELECT pixels, class FROM image"))
    memory = model.memory_
    assert memory.images.shape[1:] == (64,)
    stored = [rows[hashed(image.numpy())] for image in memory.images]
    assert stored == model.classes_[memory.labels].tolist()


def test_corrections_need_no_photos(home: Path) -> None:
    digits(home / "test", [0, 1, 2, 3], 100, 10)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        store = zoo._store
        with store.writing():
            store.many("UPDATE image SET path = '/gone/' || id || '-' || ?", [("x",)])
        first, second = [one.id for one in zoo.clusters() if one.name is None and not one.junk][:2]
        members = len(zoo.images(first)) + len(zoo.images(second))
        zoo.merge([first, second])
        assert zoo.learn().corrected >= members
        joined = zoo.clusters()[-1] if not zoo.clusters()[-1].junk else zoo.clusters()[-2]
        assert joined.images == members
        zoo.split(joined.id, into=2)
        zoo.learn()
        model = _model(zoo)
        rows = dict(store.rows("SELECT pixels, class FROM image"))
        stored = [rows[hashed(image.numpy())] for image in model.memory_.images]
        assert stored == model.classes_[model.memory_.labels].tolist()
        assert zoo.learn().corrected == 0
        answers = zoo.predict(home / "test", threshold=0)
    assert np.mean([one.answer == str(digit_of(one.file)) for one in answers]) > 0.6


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (replace(FROZEN, resize=16), "`resize` cannot be chosen for grey, which takes 8 pixels; leave it out"),
        (replace(FROZEN, weights=Path("w")), "`weights` is for networks of timm and transformers, not for grey"),
        (replace(SETTINGS, options={"net.size": 28}), "`net.size` is for networks of timm and transformers"),
    ],
)
def test_choices_that_do_not_fit_the_network(settings: Settings, line: str, made: Path, tmp_path: Path) -> None:
    with Zoo.new(tmp_path / "zoo", verbose=0) as zoo, pytest.raises(WhorlError, match=line):
        zoo.learn(made / "labelled", settings=settings)
    assert not (tmp_path / "zoo").exists()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Settings(net="tiny"), "net"),
        (Settings(tune="all"), "net.tune"),
        (Settings(resize=16), "resize"),
        (Settings(options={"train.epochs": 3}), "train.epochs"),
        (Settings(seed=1), "random_state"),
    ],
)
def test_choices_that_cannot_change(settings: Settings, name: str, made: Path) -> None:
    with Zoo.open(made / "zoo", verbose=0) as zoo:
        with pytest.raises(WhorlError, match=f"`{name}` cannot change after the first delivery"):
            zoo.learn(made / "may", settings=settings)
        assert zoo.learn(made / "may", settings=FROZEN).delivery is None


def test_a_network_of_transformers(made: Path, tmp_path: Path) -> None:
    """A tiny one with random weights; its origin is in the log."""
    transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = tmp_path / "dino-tiny"
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=14, patch_size=7
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.logging.disable_progress_bar()
        transformers.Dinov2Model(config).save_pretrained(folder)
    preparation = {
        "crop_size": {"height": 14, "width": 14}, "do_center_crop": True, "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.3, 0.4], "resample": 3, "size": {"shortest_edge": 14},
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    shutil.move(folder / "model.safetensors", tmp_path / "w.safetensors")
    asked = replace(FROZEN, net=f"hf:{folder}", tune=None, weights=tmp_path / "w.safetensors")
    lines = list[str]()
    with Zoo.new(tmp_path / "zoo", verbose=0) as zoo:
        zoo.learn(made / "labelled", settings=asked, notify=lines.append)
        assert any(line.startswith("network: hf:dino-tiny (transformers") for line in lines)
        assert zoo.history()[0].about["net"] == str(_model(zoo).origin_)
        assert _model(zoo).classifier_.inputs.size == 14
        assert zoo.learn(made / "labelled", "folders", settings=asked).delivery is None
        assert len(zoo.predict(made / "may")) == 70
        with pytest.raises(WhorlError, match="`net` cannot change after the first delivery"):
            zoo.learn(made / "may", settings=Settings(net="tiny"))
