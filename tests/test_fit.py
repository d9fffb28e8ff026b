"""The training loop against one written by hand, and precision, layout, compilation and threads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import kstest
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parameters_to_vector
from torch.optim.optimizer import register_optimizer_step_pre_hook

import checks
from whorl.data.inputs import Inputs, scaled
from whorl.data.source import ArraySource, Dataset
from whorl.errors import WhorlError
from whorl.experiment import run
from whorl.fit import Epoch, Purpose, fit
from whorl.methods.base import Batch, Phase, Samples
from whorl.methods.losses import cross_entropy
from whorl.nets.backbone import build
from whorl.nets.extract import extract
from whorl.nets.heads import CorrectedHead, LinearHead
from whorl.nets.model import Model, weights
from whorl.reporter import Silent
from whorl.runtime import Runtime, find_device, threads_for
from whorl.sections import OptimConfig
from whorl.seeds import derive, generator
from whorl.types import IntArray

INPUTS = Inputs("images", 8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
PURPOSE = Purpose(5, task=2, phase=0)


def phase(n: int = 33, epochs: int = 2, batch: int = 16) -> Phase:
    images = torch.randint(0, 256, (n, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Samples(ArraySource(images), np.arange(n) % 3)
    optim = OptimConfig(lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3, schedule="constant")
    return Phase("test", data, lambda b: cross_entropy(b.logits, b.labels), epochs, batch, optim)


def model() -> Model:
    made = Model(build("tiny", INPUTS, True, 0), LinearHead(32), 0)
    made.grow(3)
    return made


def train(what: Phase, runtime: Runtime | None = None) -> tuple[Model, list[Epoch]]:
    runtime = runtime or Runtime(channels_last=False)
    net = runtime.place(model())
    return net, list(fit(what, net, INPUTS, runtime, PURPOSE, Silent()))


def test_against_a_loop_by_hand() -> None:
    """SGD with Nesterov momentum and weight decay written out. The last batch, a single image, is skipped."""
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


def adamw() -> Phase:
    optim = OptimConfig(name="adamw", lr=0.01, weight_decay=0.1, schedule="constant")
    return replace(phase(), optim=optim)


def test_adamw_against_a_loop_by_hand() -> None:
    """Moments with betas of 0.9 and 0.999, corrected for their start at zero; the decay is not part of the gradient.

    Of the head alone, since early steps of Adam magnify the rounding of gradients near zero, which deep ones have.
    """
    net, runtime = model(), Runtime(channels_last=False)
    what = replace(adamw(), trains=list(net.head.parameters()), mode="eval")
    images, labels = what.data.images.read(np.arange(33)), torch.from_numpy(what.data.labels)
    with torch.no_grad():
        features = net.frozen().backbone(INPUTS.fixed(images))
    head = {name: value.clone() for name, value in weights(net.head).items()}
    one, two = ({name: torch.zeros_like(value) for name, value in head.items()} for _ in range(2))
    epochs = list(fit(what, net, INPUTS, runtime, PURPOSE, Silent()))
    step = 0
    for epoch in range(2):
        order = torch.randperm(33, generator=generator(5, "shuffle", 2, 0, epoch))
        for index in torch.split(order, 16):
            step += 1
            slope = torch.softmax(features[index] @ head["weight"].T + head["bias"], dim=1)
            slope = (slope - F.one_hot(labels[index], 3)) / len(index)
            for name, g in (("weight", slope.T @ features[index]), ("bias", slope.sum(dim=0))):
                one[name] = 0.9 * one[name] + 0.1 * g
                two[name] = 0.999 * two[name] + 0.001 * g * g
                moment, spread = one[name] / (1 - 0.9**step), two[name] / (1 - 0.999**step)
                head[name] = (1 - 0.01 * 0.1) * head[name] - 0.01 * moment / (spread.sqrt() + 1e-8)
    assert step == 6
    for name, value in head.items():
        torch.testing.assert_close(weights(net.head)[name], value, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(epochs[-1].optimiser[f"head.{name}/exp_avg"], one[name], rtol=1e-3, atol=1e-4)
        assert epochs[-1].optimiser[f"head.{name}/step"].item() == 6


@pytest.mark.parametrize("what", [phase(), adamw()], ids=["sgd", "adamw"])
def test_a_phase_goes_on_from_the_optimiser_stored_by_name(what: Phase) -> None:
    """In any order of the names, with the same bits; without the stored state it ends elsewhere."""
    whole, epochs = train(what)
    for state, equal in ((dict(reversed(epochs[0].optimiser.items())), True), ({}, False)):
        net, _ = train(replace(what, epochs=1))
        runtime = Runtime(channels_last=False)
        rest = list(fit(what, net, INPUTS, runtime, PURPOSE, Silent(), (1, state)))
        assert [epoch.epoch for epoch in rest] == [1]
        assert checks.same(weights(net), weights(whole)) == equal
        assert checks.same(rest[0].optimiser, epochs[1].optimiser) == equal


def test_every_image_is_used_once_per_epoch() -> None:
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


def test_channels_last_changes_only_rounding() -> None:
    _, plain = train(phase(epochs=1))
    _, other = train(phase(epochs=1), Runtime(channels_last=True))
    assert other[0].loss == pytest.approx(plain[0].loss, rel=1e-4)


@contextmanager
def convolutions() -> Iterator[list[Tensor]]:
    """The outputs of all convolutions that are computed meanwhile."""
    found: list[Tensor] = []

    def note(module: nn.Module, inputs: object, output: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            found.append(output.detach())

    hook = register_module_forward_hook(note)
    try:
        yield found
    finally:
        hook.remove()


@pytest.mark.parametrize(("precision", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_the_network_computes_in_the_precision_asked_for(precision: str, expected: torch.dtype) -> None:
    """In training and when features are extracted; weights, momentum and features are float32 in either case."""
    logits: list[Tensor] = []

    def loss(batch: Batch) -> Tensor:
        logits.append(batch.logits)
        return cross_entropy(batch.logits, batch.labels)

    runtime = Runtime(precision=precision)
    what = replace(phase(epochs=1), loss=loss)
    with convolutions() as outputs:
        net, epochs = train(what, runtime)
    assert len(outputs) >= 2 * len(logits) == 4
    assert {tensor.dtype for tensor in (*outputs, *logits)} == {expected}
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert len(epochs[0].optimiser) == len(list(net.parameters()))
    assert {momentum.dtype for momentum in epochs[0].optimiser.values()} == {torch.float32}
    with convolutions() as outputs:
        features = extract(net.frozen().backbone, net.dim, what.data.images, INPUTS, runtime)
    assert {tensor.dtype for tensor in outputs} == {expected}
    assert features.dtype == np.float32


def test_bf16_changes_the_loss_a_little() -> None:
    _, plain = train(phase(epochs=1))
    _, other = train(phase(epochs=1), Runtime(precision="bf16", channels_last=False))
    assert 1e-6 < abs(other[0].loss / plain[0].loss - 1) < 0.02


@pytest.mark.parametrize("compiled", [True, False])
def test_training_calls_the_compiled_network(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each of the four batches, if compilation was asked for; the weights are the same as without it."""
    given: list[nn.Module] = []
    calls: list[int] = []

    def compile_(module: nn.Module) -> Callable[[Tensor], object]:
        given.append(module)

        def call(images: Tensor) -> object:
            calls.append(len(images))
            return module(images)

        return call

    monkeypatch.setattr(torch, "compile", compile_)
    net, _ = train(phase(), Runtime(compile=compiled, channels_last=False))
    assert given == ([net] if compiled else [])
    assert calls == ([16] * 4 if compiled else [])
    assert checks.same(weights(net), weights(train(phase())[0]))


def test_devices() -> None:
    assert find_device("cpu") == "cpu"
    with pytest.raises(WhorlError, match="`device=tpu` is not available here; this machine has: cpu"):
        find_device("tpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("arch", "threads"), [("tiny", 1), ("resnet32", 2)])
def test_only_the_tiny_net_is_limited_to_one_thread(
    arch: str, threads: int, small_data: Dataset, tmp_path: Path
) -> None:
    """In every update of a run; the number of threads before the run is restored after it."""
    with threads_for(arch):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2
    seen: list[int] = []
    hook = register_optimizer_step_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    try:
        run(checks.small_config(net__arch=arch, stream__tasks=1), small_data, tmp_path)
    finally:
        hook.remove()
    assert len(seen) >= 4
    assert set(seen) == {threads}
    assert torch.get_num_threads() == 2


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


@pytest.mark.parametrize("finished", [True, False])
def test_only_the_named_parameters_learn(finished: bool) -> None:
    """The others get no gradient and do not decay. They can learn again when the phase has ended or was interrupted."""
    net = model()
    before = weights(net)
    frozen = next(net.backbone.parameters()).requires_grad_(False)  # frozen before the phase began
    states: list[set[str]] = []

    def loss(batch: Batch) -> torch.Tensor:
        states.append({name for name, p in net.named_parameters() if p.requires_grad})
        return cross_entropy(batch.logits, batch.labels)

    what = replace(phase(n=32, epochs=3), trains=list(net.head.parameters()), mode="eval", loss=loss)
    epochs = fit(what, net, INPUTS, Runtime(), PURPOSE, Silent())
    learning = {"head.weight", "head.bias"}
    assert set(next(epochs).optimiser) == {f"{name}/momentum_buffer" for name in learning}
    assert next(epochs).epoch == 1
    if finished:
        assert len(list(epochs)) == 1
    else:
        assert not list(net.backbone.parameters())[-1].requires_grad
        epochs.close()  # as an interrupt does
    assert states == [learning] * (6 if finished else 4)
    assert all(p.grad is None for name, p in net.named_parameters() if name not in learning)
    assert {name for name, value in weights(net).items() if not torch.equal(value, before[name])} == learning
    assert not frozen.requires_grad
    assert all(p.requires_grad for p in net.parameters() if p is not frozen)


def test_a_phase_can_train_parameters_that_are_usually_frozen() -> None:
    """The scalars of a corrected head learn during the phase and are frozen again after it."""
    net = Model(build("tiny", INPUTS, True, 0), CorrectedHead(32), 0)
    net.grow(3)
    head = net.head
    assert isinstance(head, CorrectedHead)
    what = replace(phase(epochs=1), trains=(head.beta, head.gamma), mode="eval")
    list(fit(what, net, INPUTS, Runtime(), PURPOSE, Silent()))
    assert (head.beta.item(), head.gamma.item()) != (1, 0)
    assert not head.beta.requires_grad
    assert head.weight.requires_grad


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_eval_mode_keeps_the_running_statistics(mode: Literal["train", "eval"]) -> None:
    """Eval mode also uses them: the loss sees the outputs of the model in eval mode. Weights learn in either mode."""
    net = model()
    before = weights(net)
    agreed: list[bool] = []

    def loss(batch: Batch) -> torch.Tensor:
        assert net.training == (mode == "train")
        with torch.no_grad():
            agreed.append(torch.allclose(copy.deepcopy(net).eval()(batch.images).logits, batch.logits, atol=1e-5))
        return cross_entropy(batch.logits, batch.labels)

    list(fit(replace(phase(n=32, epochs=1), mode=mode, loss=loss), net, INPUTS, Runtime(), PURPOSE, Silent()))
    after = weights(net)
    statistics = [name for name in before if "running" in name or "num_batches" in name]
    assert len(statistics) > 6
    for name in statistics:
        assert torch.equal(before[name], after[name]) == (mode == "eval")
    assert agreed == [mode == "eval"] * 2
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_a_phase_can_choose_its_batches() -> None:
    """The phase draws its batches for each epoch. They are used in that order, and each batch has its number."""
    plans: list[list[list[int]]] = []
    seen: list[tuple[int, list[int]]] = []
    base = phase(n=12, epochs=2)
    labels = np.arange(12) % 3

    def batches(draws: torch.Generator) -> list[IntArray]:
        order = torch.randperm(12, generator=draws).numpy()
        plans.append([order[:3].tolist(), order[:3].tolist(), order[3:10].tolist()])
        return [order[:3], order[:3], order[3:10]]

    def loss(batch: Batch) -> torch.Tensor:
        seen.append((batch.number, batch.labels.tolist()))
        return cross_entropy(batch.logits, batch.labels)

    _, epochs = train(replace(base, batches=batches, loss=loss))
    assert plans[0] != plans[1]
    expected = [(number, labels[index].tolist()) for plan in plans for number, index in enumerate(plan)]
    assert seen == expected
    assert [epoch.images for epoch in epochs] == [13, 13]
    order = torch.randperm(12, generator=generator(5, "shuffle", 2, 0, 1)).tolist()
    assert plans[1][0] == order[:3]


def test_gradient_noise() -> None:
    """With zero gradients and a learning rate of 1, each epoch changes the weights by the noise alone."""
    asked: list[tuple[int, int]] = []

    def deviation(epoch: int, images: int) -> float:
        asked.append((epoch, images))
        return 0.05 / (1 + epoch)

    optim = OptimConfig(lr=1.0, momentum=0.0, schedule="constant")
    what = replace(phase(batch=64), optim=optim, noise=deviation, loss=lambda batch: batch.logits.sum() * 0)
    net = model()
    states = [parameters_to_vector(net.parameters()).detach()]
    for _ in fit(what, net, INPUTS, Runtime(), PURPOSE, Silent()):
        states.append(parameters_to_vector(net.parameters()).detach())
    assert asked == [(0, 33), (1, 33)]
    first, second = ((states[i + 1] - states[i]).numpy() / (0.05 / (1 + i)) for i in range(2))
    for found in (first, second):
        assert kstest(found, "norm").pvalue > 1e-3  # over all parameters: none is left out, none gets more
        assert found.std() == pytest.approx(1, abs=4 / np.sqrt(2 * len(found)))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(first))  # independent draws


def test_noise_is_drawn_from_the_seed_alone() -> None:
    """A repeated and a resumed training give the same bits. Noise of size 0 changes no other random draw."""
    quiet = replace(phase(epochs=2), inputs=replace(INPUTS, view="crop_flip"))
    what = replace(quiet, noise=lambda epoch, images: 0.01)
    (one, halts), (two, _) = train(what), train(what)
    assert checks.same(weights(one), weights(two))
    resumed, _ = train(replace(what, epochs=1))
    runtime = Runtime(channels_last=False)
    again = fit(what, resumed, INPUTS, runtime, PURPOSE, Silent(), (1, halts[0].optimiser))
    assert [epoch.epoch for epoch in again] == [1]
    assert checks.same(weights(resumed), weights(one))
    silent, _ = train(replace(what, noise=lambda epoch, images: 0.0))
    assert checks.same(weights(silent), weights(train(quiet)[0]))
    assert not checks.same(weights(one), weights(silent))


def test_after_is_called_after_each_update() -> None:
    """It gets the batch of the update, and what it does to a parameter stays."""
    base = phase(epochs=1)
    told: list[tuple[int, float]] = []
    losses: list[Batch] = []
    net = model()
    start = net.head.weight.detach().clone()

    def loss(batch: Batch) -> torch.Tensor:
        losses.append(batch)
        return cross_entropy(batch.logits, batch.labels)

    def after(batch: Batch) -> None:
        assert batch is losses[-1]
        told.append((batch.number, (net.head.weight - start).abs().max().item()))
        with torch.no_grad():
            net.head.weight.copy_(start)

    list(fit(replace(base, loss=loss, after=after), net, INPUTS, Runtime(), PURPOSE, Silent()))
    assert [number for number, _ in told] == [0, 1]
    assert all(moved > 0 for _, moved in told)
    assert torch.equal(net.head.weight, start)


def test_a_phase_can_have_its_own_views() -> None:
    """They replace the learner's views."""
    base = phase(n=40, epochs=1)
    own = Inputs("images", 8, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    lowest: list[float] = []

    def loss(batch: Batch) -> torch.Tensor:
        lowest.append(batch.images.min().item())
        return cross_entropy(batch.logits, batch.labels)

    train(replace(base, loss=loss))
    assert lowest[0] < -1.9  # (0 - 0.5) / 0.25
    lowest.clear()
    train(replace(base, loss=loss, inputs=own))
    assert min(lowest) >= 0


def test_a_single_image_is_enough_where_batch_norm_does_not_learn() -> None:
    """Eval mode accepts a last batch, or a whole data set, of one image. Train mode accepts neither."""
    assert [epoch.images for epoch in train(replace(phase(), mode="eval"))[1]] == [33, 33]
    assert [epoch.images for epoch in train(phase())[1]] == [32, 32]
    assert train(replace(phase(n=1, epochs=1), mode="eval"))[1][0].images == 1
    with pytest.raises(WhorlError, match="only one image to train on"):
        train(phase(n=1, epochs=1))


@pytest.mark.parametrize("key", ["optim.lr", "method.balanced_lr"])
def test_divergence_names_the_rate(key: str) -> None:
    """The error names the option that sets the rate, and proposes a quarter of the value."""
    what = replace(phase(epochs=1), rate_key=key, loss=lambda batch: batch.logits.sum() * float("nan"))
    with pytest.raises(WhorlError, match=f"in phase 'test', epoch 1: .*`{key}=0.0125`"):
        train(what)


def test_smaller_images_come_first() -> None:
    """Thirds of a phase train on sides of 16, 24 and 32; what the network sees is the scaled view, by interpolation."""
    inputs, purpose = Inputs("images", 32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)), PURPOSE
    images = torch.randint(0, 256, (8, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    seen = list[Tensor]()

    def loss(batch: Batch) -> Tensor:
        seen.append(batch.images)
        return cross_entropy(batch.logits, batch.labels)

    data, optim = Samples(ArraySource(images), np.arange(8) % 3), OptimConfig(lr=0.01)
    what = Phase("test", data, loss, 7, 8, optim, sizes=(0.5, 0.75, 1.0))
    net = Model(build("tiny", inputs, True, 0), LinearHead(32), 0)
    net.grow(3)
    assert len(list(fit(what, net, inputs, Runtime(), purpose, Silent()))) == 7
    assert [x.shape[-1] for x in seen] == [16, 16, 24, 24, 32, 32, 32]
    order = torch.randperm(8, generator=purpose.generator("shuffle", 0))
    full = ((images[order].double() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)
    line = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64) / 8  # the triangle of width 2 at half the side
    inner = F.conv2d(full.reshape(-1, 1, 32, 32)[..., 1:, 1:], torch.outer(line, line)[None, None], stride=2)
    torch.testing.assert_close(
        seen[0][:, :, 1:8, 1:8].double(), inner.reshape(8, 3, 14, 14)[:, :, :7, :7], atol=1e-5, rtol=0
    )


def test_one_epoch_has_full_images() -> None:
    what = replace(phase(epochs=1), sizes=(0.5, 1.0))
    assert what.share(0) == 1.0
    assert [replace(what, epochs=2).share(epoch) for epoch in range(2)] == [0.5, 1.0]


def test_scaling_stops_at_16_pixels_and_leaves_vectors() -> None:
    assert scaled(torch.zeros(2, 3, 24, 24), 0.5).shape == (2, 3, 16, 16)
    assert scaled(torch.zeros(2, 3, 8, 8), 0.5).shape == (2, 3, 8, 8)
    assert scaled(torch.zeros(2, 12), 0.5).shape == (2, 12)
