"""Speed of training against a bare PyTorch loop, and of feature extraction against a forward pass in training mode.

    python benchmarks/overhead.py [--rounds 5] [--images 1280]

The sides alternate within one run, so the ratios can be trusted on a busy machine. The script prints the ratios of
docs/results.md next to their targets, and exits with 1 if a target is missed:
  fit / bare loop                 ≥ 0.95   a whole training phase, in images per second
  features / forward pass         ≥ 2      extraction with folded batch norm against the forward pass of training
  features / plain forward pass   ≥ 2      the same against the network without in-place sums and ReLUs
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Samples
from whorl.fit import Purpose, fit
from whorl.methods.base import Phase
from whorl.methods.losses import classify
from whorl.nets.backbone import build
from whorl.nets.extract import extract
from whorl.nets.heads import LinearHead
from whorl.nets.model import Model
from whorl.nets.resnet import BasicBlock, ResNet
from whorl.reporter import Silent
from whorl.runtime import Runtime
from whorl.sections import OptimConfig

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
INPUTS = Inputs.images(32, "crop_flip", MEAN, STD)
RUNTIME = Runtime()
BATCH = 64


def new_model() -> Model:
    backbone = build("resnet32", INPUTS, True, 0)
    model = Model(backbone, LinearHead(backbone.dim), 0)
    model.grow(10)
    return RUNTIME.place(model)


def fitted(images: torch.Tensor, labels: torch.Tensor) -> None:
    """One epoch by whorl."""
    optim = OptimConfig(lr=0.2, nesterov=True, weight_decay=5e-4, schedule="onecycle")
    phase = Phase("bench", Samples(ArraySource(images), labels.numpy()), classify, 1, BATCH, optim)
    for _ in fit(phase, new_model(), INPUTS, RUNTIME, Purpose(0, 1, 0), Silent()):
        pass


def bare(images: torch.Tensor, labels: torch.Tensor) -> None:
    """One epoch as written by hand: pad, crop and flip a batch, normalise it, forward, backward, step."""
    model = new_model().train()
    optimiser = torch.optim.SGD(model.parameters(), 0.2, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.2, total_steps=steps, cycle_momentum=False)
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    order = torch.randperm(len(images))
    for step in range(steps):
        index = order[step * BATCH : (step + 1) * BATCH]
        x = (images[index].permute(0, 3, 1, 2).float() / 255 - mean) / std
        x = F.pad(x, (4, 4, 4, 4), mode="reflect")
        rows, columns = torch.randint(0, 9, (2, BATCH)).tolist()
        x = torch.stack([x[i, :, r : r + 32, c : c + 32] for i, (r, c) in enumerate(zip(rows, columns, strict=True))])
        flip = torch.rand(BATCH) < 0.5
        x = torch.where(flip[:, None, None, None], x.flip(3), x).contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(model(x).logits, labels[index])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()


def alternate(rounds: int, images: int, *works: Callable[[], None]) -> list[list[float]]:
    """Images per second of each function in each round; the order is reversed in every other round."""
    for work in works:
        work()
    rates: list[list[float]] = [[] for _ in works]
    for turn in range(rounds):
        for number in range(len(works))[:: 1 if turn % 2 == 0 else -1]:
            started = time.perf_counter()
            works[number]()
            rates[number].append(images / (time.perf_counter() - started))
    return rates


def report(name: str, mine: list[float], other: list[float], wanted: float) -> bool:
    ratios = [a / b for a, b in zip(mine, other, strict=True)]
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    rates = f"{statistics.median(mine):.0f} against {statistics.median(other):.0f} images/s"
    print(f"{name}: {ratio:.2f} (rounds {spread}; {rates}; target {wanted})")
    return ratio >= wanted


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=1280)
    asked = parser.parse_args()
    n = asked.images // BATCH * BATCH
    images = torch.randint(0, 256, (n, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(n) % 10
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {n} images per round")
    mine, other = alternate(asked.rounds, n, lambda: fitted(images, labels), lambda: bare(images, labels))
    good = report("fit / bare loop", mine, other, 0.95)
    model, source = new_model(), ArraySource(images)
    frozen = model.frozen()
    inputs = [INPUTS.fixed(part) for part in torch.split(images, BATCH)]

    def features() -> None:
        extract(frozen.backbone, frozen.dim, source, INPUTS, RUNTIME)

    def forward() -> None:
        for x in inputs:
            model.train()(x)

    def plain() -> None:
        net = model.backbone.train()
        assert isinstance(net, ResNet)
        for x in inputs:
            out = F.relu(net.stem[0](x))  # type: ignore[index]
            for block in net.blocks:
                assert isinstance(block, BasicBlock)
                out = F.relu(block.second(F.relu(block.first(out))) + block.shortcut(out))
            model.head(out.mean((2, 3)))

    extracted, passed, plainly = alternate(asked.rounds, n, features, forward, plain)
    good &= report("features / forward pass of training", extracted, passed, 2.0)
    good &= report("features / plain forward pass of training", extracted, plainly, 2.0)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
