"""whorl against the library Avalanche: accuracy and seconds of the same class-incremental step, both timed in one run.

    python benchmarks/avalanche.py --data-dir DIR --avalanche av/bin/python [--resize 16] [--per-class 60] [--epochs 3]

PYTHON of ``--avalanche`` is the interpreter of an environment with avalanche-lib, in which whorl need not be installed:

    python3 -m venv av; av/bin/pip install torch==2.13.0 avalanche-lib

The step is plain replay on tasks 1 and 2 of CIFAR-100 with given labels (order A, ten classes each): cross-entropy on
the new samples and on 20 exemplars of each class of task 1. Each side runs in a process of its own, one after the
other; the order is reversed in every other round. Round r uses the seed ``--seed`` + r - 1 on both sides.

Equal on both sides: the images, whorl's ResNet-32 with the same first weights, a linear head that grows from 10 to 20
classes, SGD with its constants, its state cleared before task 2, the learning rate of each epoch, epochs, batches of
64, views (reflection padding by an eighth, random crop, random flip), 20 exemplars per class chosen at random, float32
on the CPU, one thread, data read in the process that trains, no evaluation during training.

Not equal:
  batches    whorl shuffles new samples and exemplars together. Avalanche's ReplayPlugin takes a fixed number of each
             per batch; here as many as their shares are (48 new and 16 stored ones where 600 are new and 200 stored),
             so that an epoch has about as many images. The images are counted on both sides and printed.
  views      whorl normalises and views a batch at once. Avalanche's loader reads image by image; it is given
             normalised float images, made before the clock starts, so that torchvision only crops and flips them.
  layout     whorl trains in the memory layout channels_last, Avalanche in torch's usual one. ``--channels-last`` puts
             Avalanche's network into the same layout as whorl's.
  draws      each side draws its order, views, exemplars and rows of the head in its own way, from the same seed.
  clock      covers whorl's ``learn`` and Avalanche's ``train``. In it whorl also extracts features after each task,
             for class means that are not used here; Avalanche computes no metrics and writes no log. Imports, and a
             short step on a few images before the measured one, are not in it.

Accuracy is that of the linear head after task 2, over the test images of all 20 classes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
BATCH, QUOTA, NEW = 64, 20, 10
SGD = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
HOW = "make an environment for it and pass --avalanche av/bin/python: "
HOW += "python3 -m venv av; av/bin/pip install torch==2.13.0 avalanche-lib"
Arrays = dict[str, Any]
DECLARED: list[Any] = []
"""Operators stay declared as long as their library is kept."""
WARM_UP = 8
"""Images per class of the unclocked steps before the measured ones."""


@dataclass(frozen=True)
class Score:
    """What a side reports after both tasks."""

    accuracy: float
    first: float
    """Seconds for task 1."""
    second: float
    processor: float
    """Seconds of the processor for both tasks."""
    images: int
    """Images trained on, counted in every epoch."""

    @property
    def seconds(self) -> float:
        return self.first + self.second


def milestones(epochs: int) -> list[int]:
    """The epochs after which the learning rate is divided by ten."""
    return sorted({epoch for epoch in (epochs // 2, epochs * 3 // 4) if epoch})


def timed(*works: Callable[[], object]) -> tuple[list[float], float]:
    """The seconds of each function, and the processor's seconds for all of them."""
    seconds, before = [], time.process_time()
    for work in works:
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds, time.process_time() - before


def network(seed: int) -> Any:
    """whorl's ResNet-32, with the same weights wherever it is made. Needs nothing but torch."""
    import torch

    from whorl.nets.resnet import resnet32

    net = resnet32()
    net.draw(torch.Generator().manual_seed(seed))
    return net


def by_whorl(given: Arrays, epochs: int, seed: int) -> Score:
    """Learn both tasks with whorl."""
    from whorl import Inputs, Whorl
    from whorl.methods import METHODS
    from whorl.methods.base import Batch, Method, Phase, Step
    from whorl.methods.losses import classify

    seen: list[int] = []

    def loss(batch: Batch) -> Any:
        seen.append(len(batch.labels))
        return classify(batch)

    class Replay(Method):
        """Cross-entropy on the new samples and the exemplars."""

        name = "replay"

        def plan(self, step: Step) -> list[Phase]:
            return [step.phase("train", step.new + step.exemplars, loss)]

    METHODS[Replay.name] = Replay
    mean, std = (tuple(map(float, given[name])) for name in ("mean", "std"))
    options = {
        "train.first_epochs": epochs, "train.epochs": epochs, "train.batch": BATCH, "train.sizes": [],
        "optim.schedule": "steps", "optim.milestones": milestones(epochs), "optim.gamma": 0.1,
        "memory.quota": QUOTA, "memory.select": "random", **{f"optim.{name}": value for name, value in SGD.items()},
    }  # fmt: skip
    inputs = Inputs.images(given["x1"].shape[1], "crop_flip", mean, std)
    model = Whorl(
        "replay", net=network(seed), inputs=inputs, options=options, device="cpu", verbose=0, random_state=seed
    )
    seconds, processor = timed(
        lambda: model.learn(given["x1"], given["y1"]), lambda: model.learn(given["x2"], given["y2"])
    )
    return Score(model.score(given["x"], given["y"]), *seconds, processor, sum(seen))


def find_avalanche() -> str:
    """Import Avalanche and return its version.

    The folder of this file, whose name is avalanche too, is taken off the path first. Where torchvision's compiled part
    does not fit torch, torchvision misses two operators while it is imported; they are declared here and never called.
    """
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != HERE.parent]
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        DECLARED.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            DECLARED[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401
    import avalanche

    return f"avalanche {avalanche.__version__} with torch {torch.__version__}"


def prepared(given: Arrays, images: Any) -> Any:
    """Images normalised as whorl does it, as a float tensor [n, 3, s, s]."""
    import torch

    mean, scale = (torch.from_numpy(given[name]).float() * 255 for name in ("mean", "std"))
    return ((torch.from_numpy(images).float() - mean) / scale).permute(0, 3, 1, 2).contiguous()


def experiences(given: Arrays) -> list[Any]:
    """Both tasks as Avalanche takes them, with random views of their images."""
    import torch
    from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline
    from avalanche.benchmarks import utils as data
    from torchvision.transforms import Compose, RandomCrop, RandomHorizontalFlip

    class Images(torch.utils.data.TensorDataset):
        """Images with the attribute that Avalanche finds labels by."""

        def __init__(self, images: Any, labels: Any) -> None:
            super().__init__(images, torch.from_numpy(labels))
            self.targets = labels.tolist()

    side = given["x1"].shape[1]
    view = Compose([RandomCrop(side, padding=side // 8, padding_mode="reflect"), RandomHorizontalFlip()])
    tasks = []
    for task in (1, 2):
        views = data.TransformGroups({"train": (view, None), "eval": (None, None)})
        images = Images(prepared(given, given[f"x{task}"]), given[f"y{task}"])
        # Exemplars can be stored by class only for data sets with task labels. Here all of them are 0, and not used.
        tasks.append(data.as_taskaware_classification_dataset(data.as_classification_dataset(images, views)))
    return list(with_classes_timeline(benchmark_from_datasets(train=tasks)).train_stream)


def by_avalanche(given: Arrays, epochs: int, seed: int, channels_last: bool) -> Score:
    """Learn both tasks with Avalanche."""
    find_avalanche()
    import numpy as np
    import torch
    from avalanche.core import SupervisedPlugin
    from avalanche.models import IncrementalClassifier
    from avalanche.training.plugins import LRSchedulerPlugin, ReplayPlugin
    from avalanche.training.storage_policy import ClassBalancedBuffer
    from avalanche.training.supervised import Naive

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    seen: list[int] = []

    class Count(SupervisedPlugin):
        """Counts the images that are trained on."""

        def after_training_iteration(self, strategy: Any, **_: Any) -> None:
            seen.append(len(strategy.mb_y))

    body = network(seed)
    model = torch.nn.Sequential(body, IncrementalClassifier(body.dim, initial_out_features=NEW, masking=False))
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), **SGD)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones(epochs), gamma=0.1)
    kept = int(np.minimum(np.bincount(given["y1"]), QUOTA).sum())
    stored = max(1, round(BATCH * kept / (kept + len(given["y2"]))))
    policy = ClassBalancedBuffer(2 * NEW * QUOTA, adaptive_size=False, total_num_classes=2 * NEW)
    replay = ReplayPlugin(2 * NEW * QUOTA, BATCH - stored, stored, storage_policy=policy)
    strategy = Naive(
        model=model, optimizer=optimiser, criterion=torch.nn.CrossEntropyLoss(), train_mb_size=BATCH,
        train_epochs=epochs, plugins=[replay, LRSchedulerPlugin(schedule), Count()], evaluator=None,
    )  # fmt: skip
    one, two = experiences(given)
    seconds, processor = timed(
        lambda: strategy.train(one, reset_optimizer_state=True), lambda: strategy.train(two, reset_optimizer_state=True)
    )
    strategy.model.eval()
    with torch.inference_mode():
        found = torch.cat([strategy.model(part).argmax(1) for part in torch.split(prepared(given, given["x"]), 250)])
    return Score(float(np.mean(found.numpy() == given["y"])), *seconds, processor, sum(seen))


def start_of(given: Arrays) -> Arrays:
    """The same with the first images of each class only."""
    import numpy as np

    small = dict(given)
    for task in (1, 2):
        labels = given[f"y{task}"]
        rows = np.concatenate([np.flatnonzero(labels == one)[:WARM_UP] for one in np.unique(labels)])
        small |= {f"x{task}": given[f"x{task}"][rows], f"y{task}": labels[rows]}
    return small


def child(asked: argparse.Namespace) -> None:
    """One side of one round: prints its score as a line of JSON.

    Both steps are learned twice, at first with few images: torch imports and prepares much when it is first used.
    """
    if asked.side == "probe":
        print(json.dumps({"version": find_avalanche()}))
        return
    import numpy as np
    import torch

    torch.set_num_threads(1)
    with np.load(asked.arrays, allow_pickle=False) as file:
        given = dict(file)
    for arrays, epochs in ((start_of(given), 1), (given, asked.epochs)):
        if asked.side == "whorl":
            score = by_whorl(arrays, epochs, asked.seed)
        else:
            score = by_avalanche(arrays, epochs, asked.seed, asked.channels_last)
    print(json.dumps(asdict(score)))


def answer(python: str, *arguments: object) -> dict[str, Any]:
    """The line of JSON that this script prints when another interpreter runs it, with one thread."""
    own = {"PYTHONPATH": str(HERE.parents[1] / "src"), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [python, str(HERE), *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def probed(python: str | None) -> str | None:
    """Avalanche's version; None, and a line that says what to do, where it cannot be used."""
    if python is None:
        print(f"whorl alone is measured; to compare it with Avalanche, {HOW}")
        return None
    try:
        return str(answer(python, "--side", "probe")["version"])
    except (OSError, RuntimeError) as error:
        print(f"whorl alone is measured, because {python} cannot import Avalanche ({error}); {HOW}")
        return None


def store(asked: argparse.Namespace, path: Path) -> str:
    """Write the two tasks and their test images as arrays; returns a line about them."""
    import numpy as np

    from whorl import load_tasks

    options = {"stream.step": NEW, "stream.tasks": 2, "stream.order": "A"}
    options |= {"data.resize": asked.resize, "data.per_class": asked.per_class}
    options = {key: value for key, value in options.items() if value is not None}
    tasks = load_tasks("cifar100", asked.data_dir, "given", options)
    arrays = {"mean": np.array(tasks.inputs.mean), "std": np.array(tasks.inputs.std)}
    for number, (images, labels, _) in enumerate(tasks, 1):
        arrays |= {f"x{number}": images.read(np.arange(len(images))).numpy(), f"y{number}": np.asarray(labels)}
    arrays |= {"x": tasks.test.read(np.arange(len(tasks.test))).numpy(), "y": tasks.test_labels}
    np.savez(path, **arrays)
    side, sizes = arrays["x"].shape[1], f"{len(arrays['y1'])} and {len(arrays['y2'])}"
    return f"{sizes} training and {len(arrays['y'])} test images of {side}×{side}, epochs per task: {asked.epochs}"


def spread(values: list[float], digits: int) -> str:
    """The median and the range."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({low} to {high})"


def measure(asked: argparse.Namespace) -> None:
    """Let the sides take turns, then print what each of them needed, and the ratios."""
    import torch

    version = probed(asked.avalanche)
    pythons = {"whorl": sys.executable} | ({"avalanche": asked.avalanche} if version else {})
    scores: dict[str, list[Score]] = {side: [] for side in pythons}
    extra = ["--channels-last"] if asked.channels_last else []
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "tasks.npz"
        print(f"whorl with torch {torch.__version__}{f', {version}' if version else ''}; one thread each")
        print(store(asked, arrays))
        print(f"{'round':6} {'side':10} {'accuracy':>8} {'task 1':>8} {'task 2':>8} {'processor':>10} {'images':>8}")
        for turn in range(asked.rounds):
            for side in list(pythons)[:: 1 if turn % 2 == 0 else -1]:
                values = ["--side", side, "--arrays", arrays, "--epochs", asked.epochs, "--seed", asked.seed + turn]
                try:
                    score = Score(**answer(pythons[side], *values, *extra))
                except RuntimeError as error:
                    sys.exit(f"{side} failed: {error}")
                scores[side].append(score)
                seconds = f"{score.first:7.1f}s {score.second:7.1f}s {score.processor:9.1f}s"
                print(f"{turn + 1:<6} {side:10} {score.accuracy:8.3f} {seconds} {score.images:8}", flush=True)
    print("medians over the rounds, and their range")
    for side, found in scores.items():
        accuracy, seconds = spread([one.accuracy for one in found], 3), spread([one.seconds for one in found], 1)
        rate = spread([one.images / one.seconds for one in found], 0)
        print(f"{side:10} accuracy {accuracy}, seconds {seconds}, images per second {rate}")
    if version:
        pairs = list(zip(scores["avalanche"], scores["whorl"], strict=True))
        ratio = spread([other.seconds / mine.seconds for other, mine in pairs], 2)
        print(f"seconds of Avalanche / whorl: {ratio}; of the processor: ", end="")
        print(spread([other.processor / mine.processor for other, mine in pairs], 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--avalanche", metavar="PYTHON")
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--side", choices=("whorl", "avalanche", "probe"), help=argparse.SUPPRESS)
    parser.add_argument("--arrays", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        child(asked)
    elif asked.data_dir is None:
        parser.error("--data-dir is needed: the folder with CIFAR-100")
    else:
        measure(asked)


if __name__ == "__main__":
    main()
