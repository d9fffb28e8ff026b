"""The loop against one written by hand, and the precision and layout switches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from whorl.config import OptimConfig
from whorl.data.augment import Augment
from whorl.data.source import ArraySource
from whorl.errors import WhorlError
from whorl.fit import Epoch, fit
from whorl.methods.base import Phase, Samples
from whorl.methods.losses import cross_entropy
from whorl.nets.model import Model, weights
from whorl.reporter import Silent
from whorl.runtime import Runtime, find_device, threads_for
from whorl.seeds import derive, generator

AUGMENT = Augment("none", 8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def phase(n: int = 33, epochs: int = 2, batch: int = 16) -> Phase:
    images = torch.randint(0, 256, (n, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Samples(ArraySource(images), np.arange(n) % 3)
    optim = OptimConfig(lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3, schedule="constant")
    return Phase("test", data, lambda b: cross_entropy(b.logits, b.labels), epochs, batch, optim)


def model() -> Model:
    made = Model("tiny", "linear", True, 0)
    made.grow(3)
    return made


def train(what: Phase, runtime: Runtime | None = None) -> tuple[Model, list[Epoch]]:
    runtime = runtime or Runtime(channels_last=False)
    net = runtime.place(model())
    return net, list(fit(what, net, AUGMENT, runtime, 5, (2, 0), Silent()))


def test_against_a_loop_by_hand() -> None:
    """SGD with Nesterov momentum and decay written out; the last batch, a single image, is left out."""
    what = phase()
    ours, epochs = train(what)
    net = model().train()
    images, labels = what.data.images.read(np.arange(33)), torch.from_numpy(what.data.labels)
    velocity = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    for epoch in range(2):
        order = torch.randperm(33, generator=generator(5, "shuffle", 2, 0, epoch))
        total = 0.0
        for index in (order[:16], order[16:32]):
            x = ((images[index].float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)
            loss = F.cross_entropy(net(x).logits, labels[index])
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            total += loss.item() * 16
            with torch.no_grad():
                for (name, p), g in zip(net.named_parameters(), gradients, strict=True):
                    g = g + 1e-3 * p
                    velocity[name] = 0.9 * velocity[name] + g
                    p.sub_(0.05 * (g + 0.9 * velocity[name]))
        assert epochs[epoch].loss == pytest.approx(total / 32, rel=1e-4)
    for name, value in weights(net).items():
        torch.testing.assert_close(weights(ours)[name], value, rtol=1e-3, atol=1e-4)
    assert [epoch.images for epoch in epochs] == [32, 32]


def test_every_image_is_used_once_an_epoch() -> None:
    seen: list[int] = []
    base = phase(n=40, epochs=1)
    images = torch.zeros(40, 8, 8, 3, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(40)

    def loss(batch: object) -> torch.Tensor:
        pixels = batch.images[:, 0, 0, 0] * 0.25 * 255 + 0.5 * 255  # type: ignore[attr-defined]
        seen.extend(pixels.round().int().tolist())
        return cross_entropy(batch.logits, batch.labels)  # type: ignore[attr-defined]

    train(replace(base, data=Samples(ArraySource(images), base.data.labels), loss=loss))
    assert sorted(seen) == list(range(40))


def test_batches_may_be_larger_than_the_data() -> None:
    _, epochs = train(phase(n=5, epochs=1, batch=64))
    assert epochs[0].images == 5


@pytest.mark.parametrize(
    ("runtime", "tolerance"),
    [(Runtime(channels_last=True), 1e-4), (Runtime(precision="bf16"), 0.1)],
    ids=["channels-last", "bf16"],
)
def test_layout_and_precision_change_little(runtime: Runtime, tolerance: float) -> None:
    _, plain = train(phase(epochs=1))
    _, other = train(phase(epochs=1), runtime)
    assert other[0].loss == pytest.approx(plain[0].loss, rel=tolerance)


def test_bf16_keeps_float32_weights() -> None:
    net, _ = train(phase(epochs=1), Runtime(precision="bf16"))
    assert all(p.dtype == torch.float32 for p in net.parameters())


def test_compile_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Model] = []

    def compiled(module: Model) -> Model:
        asked.append(module)
        return module

    monkeypatch.setattr(torch, "compile", compiled)
    train(phase(epochs=1), Runtime(compile=True))
    assert len(asked) == 1
    train(phase(epochs=1), Runtime())
    assert len(asked) == 1


def test_devices() -> None:
    assert find_device("cpu") == "cpu"
    with pytest.raises(WhorlError, match="--device tpu is not available here; this machine has: cpu"):
        find_device("tpu")


def test_the_tiny_net_runs_in_one_thread() -> None:
    before = torch.get_num_threads()
    with threads_for("tiny"):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_seeds_are_a_function_of_their_purpose() -> None:
    assert derive(0, "shuffle", 1, 2) == derive(0, "shuffle", 1, 2)
    found = {
        derive(0, "shuffle", 1, 2),
        derive(1, "shuffle", 1, 2),
        derive(0, "augment", 1, 2),
        derive(0, "shuffle", 2, 1),
        derive(0, "shuffle", 12),
    }
    assert len(found) == 5
    assert all(0 <= seed < 2**63 for seed in found)
