"""Networks of transformers: a tiny DINOv2 with random weights, written by the test."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from conftest import Call
from whorl import Whorl
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.nets.from_hf import rebuilt as rebuilt_net
from whorl.nets.pretrained import Pretrained, named, pretrained, rebuilt
from whorl.types import IntArray

FEW = {"train.first_epochs": 3, "train.epochs": 3, "memory.quota": 4}
PREPARATION = {
    "crop_size": {"height": 28, "width": 28}, "do_center_crop": True, "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.4], "resample": 3, "size": {"shortest_edge": 32},
}  # fmt: skip


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed (pip install 'whorl[hf]')")


@pytest.fixture(scope="module")
def written(transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a network with two layers and 16 features."""
    folder = tmp_path_factory.mktemp("hub") / "dino-tiny"
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.logging.disable_progress_bar()
        transformers.Dinov2Model(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPARATION))
    (folder / "README.md").write_text("---\ntags: []\nlicense: apache-2.0\n---\nlicense: other\n")
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    shutil.copytree(written, tmp_path / "dino-tiny")
    return tmp_path / "dino-tiny"


def photos(side: int, n: int = 60) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], IntArray]:
    """Images of six classes, told apart by their colours."""
    draws = np.random.default_rng(side)
    labels = np.arange(n) % 6
    colours = draws.integers(0, 200, (6, 1, 1, 3))
    return (colours[labels] + draws.integers(0, 40, (n, side, side, 3))).astype(np.uint8), labels


@pytest.mark.parametrize("side", [28, 12, 40])
def test_features_are_those_of_the_network_itself(side: int, written: Path, transformers: Any) -> None:
    images, _ = photos(side)
    found = pretrained(f"hf:{written}")
    inputs = found.suited(Inputs.images(side, view="shift"))
    assert (inputs.size, inputs.view, inputs.mean, inputs.std) == (side, "shift", (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    own = transformers.AutoModel.from_pretrained(written).eval()
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    pixels = (pixels - torch.tensor([0.4, 0.5, 0.6])[:, None, None]) / torch.tensor([0.2, 0.3, 0.4])[:, None, None]
    pixels = F.interpolate(pixels, (28, 28), mode="bicubic", antialias=side > 28) if side != 28 else pixels
    with torch.no_grad():
        features = found(inputs.fixed(torch.from_numpy(images)))
        expected = own(pixel_values=pixels).pooler_output
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)
    assert found.dim == 16


def test_what_the_config_says_is_recorded(written: Path, transformers: Any) -> None:
    origin = pretrained(f"hf:{written}").origin
    assert (origin.name, origin.size, origin.interpolation, origin.licence) == (
        "hf:dino-tiny", 28, "bicubic", "apache-2.0",
    )  # fmt: skip
    assert origin.library == f"transformers {transformers.__version__}"
    assert "images of 28 pixels, bicubic, mean 0.4 0.5 0.6" in str(origin)
    assert pretrained(f"hf:{written}", size=14).origin.size == 14
    again = rebuilt(origin)
    assert {name: value.shape for name, value in again.state_dict().items()} == {
        name: value.shape for name, value in pretrained(f"hf:{written}").state_dict().items()
    }


def test_weights_of_a_file(folder: Path) -> None:
    expected = pretrained(f"hf:{folder}").origin.weights
    shutil.move(folder / "model.safetensors", folder.parent / "w.safetensors")
    assert pretrained(f"hf:{folder}", folder.parent / "w.safetensors").origin.weights == expected
    stored = safetensors.torch.load_file(folder.parent / "w.safetensors")
    safetensors.torch.save_file({k: v for k, v in stored.items() if "layernorm" not in k}, folder.parent / "w")
    torch.save({**stored, "layernorm.weight": torch.ones(3)}, folder.parent / "other.pth")
    (folder.parent / "w").rename(folder.parent / "cut.safetensors")
    for file in ("cut.safetensors", "other.pth"):
        with pytest.raises(WhorlError, match=rf"the weights in .*{file} do not fit hf:.*; set `net.arch` to the netw"):
            pretrained(f"hf:{folder}", folder.parent / file)


@pytest.mark.parametrize("tune", ["none", "last", "all"])
def test_a_stored_model_needs_neither_the_folder_nor_its_name(tune: str, folder: Path) -> None:
    images, labels = photos(28)
    model = Whorl(net=f"hf:{folder}", options={**FEW, "net.tune": tune}, verbose=0)
    model.learn(images[labels < 4], labels[labels < 4])
    model.save(folder.parent / "zoo")
    shutil.rmtree(folder)
    again = Whorl.load(folder.parent / "zoo", verbose=0)
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
    np.testing.assert_array_equal(again.transform(images), model.transform(images))
    assert again.origin_ is not None
    assert again.origin_ == model.origin_
    for each in (model, again):
        each.learn(images[labels >= 4], new=2)
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
    assert model.config_.net.tune == tune


def test_a_frozen_network_is_the_default(written: Path) -> None:
    images, labels = photos(28)
    model = Whorl("wa", net=f"hf:{written}", options={**FEW, "train.first_epochs": 60}, verbose=0).learn(images, labels)
    assert (model.config_.net.tune, model.config_.train.sizes, model.config_.net.final_relu) == ("none", (), False)
    assert model.classifier_.inputs.size == 28
    assert model.score(images, labels) > 0.5


def test_a_run_is_known_by_the_weights_and_not_by_the_folder(folder: Path, call: Call) -> None:
    words = ["run", "--data", "synthetic", "--classes", "4", "--per-class", "10", "--epochs", "2", "--quiet"]
    out, err = call(*words, "--net", f"hf:{folder}", "--labels", "given")
    name = next(line for line in out.splitlines() if "synthetic-ours-given" in line)
    assert "network: hf:dino-tiny" in err
    assert "licence: apache-2.0" in err
    elsewhere = folder.parent / "moved"
    elsewhere.mkdir()
    shutil.move(folder, elsewhere / "dino-tiny")
    assert name in call(*words, "--net", f"hf:{elsewhere / 'dino-tiny'}", "--labels", "given")[0]
    out, _ = call(*words, "--net", f"hf:{elsewhere / 'dino-tiny'}", "--tune", "last")
    assert "labels" in out
    assert "net.tune last" in call("show", "synthetic-ours-pseudo")[0]
    shown = " ".join(call("show", "synthetic-ours-given")[0].split())
    assert "network: hf:dino-tiny (transformers" in shown
    assert "licence: apache-2.0" in shown


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("preprocessor", "has no preprocessor_config.json; put it beside the weights"),
        ("not json", "preprocessor_config.json of hf:.* is damaged"),
        ("no size", "does not state the size of images"),
        ("no mean", "does not state mean and deviation"),
        ("no weights", "the network in .* cannot be loaded .*needs config.json and undamaged weights"),
        ("cut weights", "the network in .* cannot be loaded"),
        ("other weights", "the weights of hf:.* do not fit its config"),
        ("text", "BertModel does not take images alone"),
    ],
)
def test_folders_that_cannot_be_used(change: str, line: str, folder: Path, transformers: Any) -> None:
    file, processor = folder / "model.safetensors", folder / "preprocessor_config.json"
    if change == "preprocessor":
        processor.unlink()
    elif change == "not json":
        processor.write_text("{")
    elif change.startswith("no ") and change != "no weights":
        unwanted = ("size", "crop_size") if change == "no size" else ("image_mean",)
        processor.write_text(json.dumps({key: value for key, value in PREPARATION.items() if key not in unwanted}))
    elif change == "no weights":
        file.unlink()
    elif change == "cut weights":
        file.write_bytes(file.read_bytes()[:1000])
    elif change == "other weights":
        values = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**values, "num_hidden_layers": 3}))
    else:
        small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        transformers.BertModel(transformers.BertConfig(**small, vocab_size=10)).save_pretrained(folder)
    with pytest.raises(WhorlError, match=line):
        pretrained(f"hf:{folder}")


def test_code_beside_the_weights_is_not_run(folder: Path) -> None:
    values = json.loads((folder / "config.json").read_text())
    values["auto_map"] = {"AutoModel": "evil.Evil", "AutoConfig": "evil.Config"}
    (folder / "config.json").write_text(json.dumps(values))
    mark = folder.parent / "ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    assert isinstance(pretrained(f"hf:{folder}"), Pretrained)
    assert not mark.exists()


def test_a_name_that_cannot_be_had(transformers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co'.\nCheck your connection.")

    monkeypatch.setattr(transformers.utils, "cached_file", offline)
    with pytest.raises(WhorlError, match=r"hf:some/dino cannot be had \(We couldn't connect.*set `net.arch` to hf:FOL"):
        pretrained("hf:some/dino")


def test_names_without_a_network() -> None:
    for arch in ("hf:", "timm:", "resnet32"):
        with pytest.raises(WhorlError, match=f"'{arch}' does not name a pretrained network; write timm:NAME, hf:NAME"):
            pretrained(arch)
    for arch, weights, size, key in (("resnet32", Path("w.pth"), None, "weights"), ("tiny", None, 64, "net.size")):
        with pytest.raises(WhorlError, match=f"`{key}` is for networks of timm and transformers, not for {arch}"):
            named(arch, weights, size)
    assert named("tiny", None, None) is None


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(WhorlError, match=r"needs transformers; type: pip install 'whorl\[hf\]'"):
        pretrained("hf:facebook/dinov2-small")
    with pytest.raises(WhorlError, match="needs transformers"):
        rebuilt_net("{}")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(WhorlError, match=r"needs timm; type: pip install 'whorl\[timm\]'"):
        pretrained("timm:resnet18")


def test_a_missing_folder(transformers: Any, tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match="there is no folder"):
        pretrained(f"hf:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("tune", ["none", "last"])
def test_a_network_that_is_passed_as_a_module_counts_as_its_name(tune: str, written: Path, tmp_path: Path) -> None:
    images, labels = photos(20)
    net = pretrained(f"hf:{written}", size=14)
    model = Whorl(net=net, options={**FEW, "net.tune": tune}, verbose=0).learn(images, labels)
    assert (model.config_.net.arch, model.origin_) == ("hf:dino-tiny", net.origin)
    model.save(tmp_path)
    again = Whorl.load(tmp_path, verbose=0)
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
    if tune == "none":
        expected = Whorl(net=f"hf:{written}", options={**FEW, "net.size": 14}, verbose=0).learn(images, labels)
        np.testing.assert_array_equal(expected.predict_proba(images), model.predict_proba(images))
