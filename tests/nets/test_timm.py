"""Networks of timm. Its weights cannot be downloaded in a test: random ones are written to a file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch

from whorl.errors import WhorlError
from whorl.nets.model import weights
from whorl.nets.pretrained import pretrained, rebuilt

NAME = "test_efficientnet"


@pytest.fixture(scope="module")
def timm() -> Any:
    try:
        timm: Any = importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm cannot be imported ({error})")
    return timm


def test_features_are_those_of_the_network_itself(timm: Any, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        own = timm.create_model(NAME, pretrained=False).eval()
    safetensors.torch.save_file(weights(own), tmp_path / "w.safetensors")
    found = pretrained(f"timm:{NAME}", tmp_path / "w.safetensors")
    config = timm.data.resolve_model_data_config(own)
    origin = found.origin
    assert (origin.size, origin.mean, origin.std) == (config["input_size"][1], config["mean"], config["std"])
    assert (origin.name, origin.library) == (f"timm:{NAME}", f"timm {timm.__version__}")
    x = torch.rand(3, 3, origin.size, origin.size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = own.forward_head(own.forward_features(x), pre_logits=True)
        torch.testing.assert_close(found(x), expected)
    again = rebuilt(origin)
    again.load_state_dict(found.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(x), found(x))


def test_names_and_weights_that_cannot_be_used(timm: Any, tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match=r"timm has no network 'resnet81'; did you mean timm:resnet18"):
        pretrained("timm:resnet81")
    safetensors.torch.save_file({"conv_stem.weight": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(WhorlError, match=f"do not fit timm:{NAME}"):
        pretrained(f"timm:{NAME}", tmp_path / "w.safetensors")


def test_weights_that_cannot_be_downloaded(timm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("cannot connect")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(WhorlError, match=rf"the weights of timm:{NAME} cannot be had .*set `weights` to the file"):
        pretrained(f"timm:{NAME}")


def test_a_torchvision_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> ModuleType:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr("whorl.nets.from_timm.importlib.import_module", fails)
    line = r"torchvision does not load \(operator torchvision::nms does not exist\); install the torchvision that"
    with pytest.raises(WhorlError, match=line):
        pretrained("timm:resnet18")
