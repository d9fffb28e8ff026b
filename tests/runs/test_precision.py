"""``precision=auto``: chosen by measured rates, kept by stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import checks
from whorl import speed
from whorl.data.inputs import Inputs
from whorl.data.source import Dataset
from whorl.engine import Learner
from whorl.runs import precision
from whorl.runs.precision import settled
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.speed import faster, training_rate


@pytest.mark.parametrize(("bf16", "chosen"), [(131.0, "bf16"), (109.0, "fp32"), (13.0, "fp32"), (1.0, "fp32")])
def test_bf16_is_chosen_where_it_is_a_tenth_faster(
    bf16: float, chosen: str, monkeypatch: pytest.MonkeyPatch, small_data: Dataset, tmp_path: Path
) -> None:
    rates, said = {"fp32": 100.0, "bf16": bf16}, list[str]()
    monkeypatch.setattr(speed, "training_rate", lambda arch, inputs, runtime, *_: rates[runtime.precision])
    precision._measured.cache_clear()
    config, notify = checks.small_config(precision="auto"), said.append
    for _ in range(3):  # measured and announced once
        found = settled(config, small_data, tmp_path, Runtime(), notify)
    assert found == config.model_copy(update={"precision": chosen})
    assert said == [f"`precision=auto`: {chosen} (measured 100 images/s in fp32 and {bf16:.0f} images/s in bf16)"]


@pytest.mark.parametrize("stored", ["fp32", "bf16"])
def test_a_stored_run_keeps_its_precision(
    stored: str, monkeypatch: pytest.MonkeyPatch, small_data: Dataset, tmp_path: Path
) -> None:
    monkeypatch.setattr(precision, "_measured", None)  # nothing is measured
    config = checks.small_config(precision="auto")
    Run.at(tmp_path, config.model_copy(update={"precision": "fp32"})).path.mkdir()  # an empty folder is no run
    kept = Run.at(tmp_path, checks.small_config(precision=stored))
    kept.path.mkdir(exist_ok=True)
    kept.begin()
    assert settled(config, small_data, tmp_path, Runtime(), print).precision == stored


def test_other_precisions_stay(small_data: Dataset, tmp_path: Path) -> None:
    config = checks.small_config(precision="bf16")
    assert settled(config, small_data, tmp_path, Runtime(), print) is config


def test_a_rate_counts_images_and_trains_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that advances by a tenth of a second per look, ten batches of 64 are trained in a second."""

    class Counting(nn.Module):
        dim = 3

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.batches: list[int] = []

        def forward(self, x: Tensor) -> Tensor:
            self.batches.append(len(x))
            return x.mean((2, 3)) * self.scale

    clock = iter(range(1_000_000))
    monkeypatch.setattr("whorl.speed.time.perf_counter", lambda: next(clock) / 10)
    net = Counting()
    rate = training_rate("own", Inputs.images(8), Runtime(), 10.0, net)
    # One look before, one after each epoch, and two more inside each epoch by the training loop.
    assert rate == pytest.approx(64 / 0.3, rel=0.05)
    assert net.batches == []
    assert torch.equal(net.scale.detach(), torch.ones(3))


class Single(nn.Module):
    """A backbone for vectors that refuses bf16."""

    dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1:] == (6,)
        if torch.is_autocast_enabled("cpu"):
            raise RuntimeError("not implemented for BFloat16")
        return x * self.scale


def test_a_network_without_bf16_uses_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SECONDS", 0.0)
    assert faster("own", Inputs.vectors(6), Runtime(), Single()) == ("fp32", "bf16 is not possible here")


def test_a_learner_needs_a_settled_precision(small_data: Dataset) -> None:
    with pytest.raises(ValueError, match="choose a precision first"):
        Learner(checks.small_config(precision="auto"), small_data.inputs, Runtime())
