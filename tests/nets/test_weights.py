"""Files of weights of other programs, and training the last part of a network."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import checks
from small import deliveries, small_learner
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.nets.model import weights
from whorl.nets.resnet import tiny
from whorl.nets.tune import last_part
from whorl.nets.weights import fingerprint, fit_weights, read_weights

CALLED: list[str] = []


class Code:
    """Something that a pickle can call when it is read."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return CALLED.append, ("called",)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def written(path: Path, found: object) -> Path:
    torch.save(found, path)
    return path


def test_weights_in_every_form_are_the_same(tmp_path: Path) -> None:
    state = dict(net().state_dict())
    safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    wrapped = {f"module.{name}": value for name, value in state.items()}
    files = [
        tmp_path / "w.safetensors",
        written(tmp_path / "plain.pth", state),
        written(tmp_path / "nested.pt", {"epoch": 3, "state_dict": wrapped}),
    ]
    for file in files:
        assert checks.same(read_weights(file), state)


def test_a_file_with_code_is_refused_and_not_run(tmp_path: Path) -> None:
    for name, payload in (("torch.pth", None), ("plain.pth", pickle.dumps(Code()))):
        path = tmp_path / name
        if payload is None:
            torch.save({"layer": Code()}, path)
        else:
            path.write_bytes(payload)
        CALLED.clear()
        with pytest.raises(WhorlError, match="is damaged, or holds more than tensors, which could run code"):
            read_weights(path)
        assert not CALLED


@pytest.mark.parametrize(
    ("name", "payload", "line"),
    [
        ("w.safetensors", b"", "cannot read the weights in .*w.safetensors"),
        ("w.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}", "cannot read the weights"),
        ("w.pth", b"", "cannot read the weights"),
        ("w.pth", b"no weights at all", "is damaged, or holds more than tensors"),
        ("w.pth", None, "there is no file .*w.pth; set `weights` to a file of weights"),
    ],
)
def test_files_that_cannot_be_read(name: str, payload: bytes | None, line: str, tmp_path: Path) -> None:
    if payload is not None:
        (tmp_path / name).write_bytes(payload)
    with pytest.raises(WhorlError, match=line):
        read_weights(tmp_path / name)


def test_a_file_without_weights_by_name(tmp_path: Path) -> None:
    for found in ([torch.zeros(2)], {}, {"a": 1.5}):
        with pytest.raises(WhorlError, match="does not hold weights by name"):
            read_weights(written(tmp_path / "w.pth", found))


def test_weights_fit_a_network_that_has_no_classifier() -> None:
    source, target = net(), net()
    given = {name: value for name, value in source.state_dict().items() if not name.endswith("num_batches_tracked")}
    fit_weights(target, {**given, "classifier.weight": torch.zeros(5, 2)}, Path("w.pth"), "timm:x")
    assert fingerprint(target) == fingerprint(source)
    changed = net()
    assert fingerprint(changed) != fingerprint(source)


def test_weights_that_do_not_fit() -> None:
    state = dict(net().state_dict())
    cut = {name: value for name, value in state.items() if name != "2.weight"}
    line = (
        r"the weights in w.pth do not fit timm:x: 2.weight is missing, one of 1 such tensor, but it has other; "
        "set `net.arch` to the network that they were trained with"
    )
    with pytest.raises(WhorlError, match=line):
        fit_weights(net(), {**cut, "other": torch.zeros(1)}, Path("w.pth"), "timm:x")
    with pytest.raises(WhorlError, match=r"2.weight is \(2, 5\), not \(2, 4\)"):
        fit_weights(net(), {**state, "2.weight": torch.zeros(2, 5)}, Path("w.pth"), "timm:x")


def test_the_last_part_of_a_network() -> None:
    small = tiny()
    assert list(last_part(small)) == [small.blocks[-1]]
    plain = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.LayerNorm(4))
    assert list(last_part(plain)) == [plain[3], plain[2]]
    assert list(last_part(nn.Sequential(plain))) == [plain[3], plain[2]]
    assert list(last_part(nn.ReLU())) == []


def test_only_the_last_part_is_trained(small_data: Dataset) -> None:
    learner = small_learner(small_data, net__tune="last")
    before = weights(learner.model)
    for _ in learner.learn(deliveries(small_data)[0], checks.Notes()):
        pass
    after = weights(learner.model)
    changed = {name for name, value in before.items() if name in after and not same(value, after[name])}
    assert {name.partition("blocks.")[2][:2] for name in changed if "blocks" in name} == {"1."}
    assert not any("stem" in name for name in changed)
    assert any("running_mean" in name for name in changed)
    restored = small_learner(small_data, net__tune="last")
    restored.restore(learner.state())
    assert checks.same(weights(restored.model), after)
    assert [p.requires_grad for p in restored.model.parameters()] == [
        p.requires_grad for p in learner.model.parameters()
    ]


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)
