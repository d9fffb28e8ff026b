"""Accuracy of the pseudo labels of CIFAR-100 by ways to make them, without learning the labels.

    python benchmarks/labels.py --data-dir DIR [--only NAME]... [--out RUNS] [--step 10] [--resize 16] [--per-class 200]
                                [--seed 0]

Order A, recipe `fast`. Each way labels every delivery with a learner that has learned task 1 alone, so that no
class-incremental training is needed. That is how features of the initial model, or of networks beside it, label them in
a run; `current` would use a model that has learned earlier pseudo labels. If a run below ``--out``, such as those of
`whorl run`, has learned task 1 in the same way, it is taken from there. Each result is appended to
``--out``/labels.jsonl when it is known, and a second call continues there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from whorl import experiment
from whorl.config import ExperimentConfig
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.data.stream import class_incremental, split_sizes
from whorl.engine import Learner
from whorl.metrics.match import matched_accuracy
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.runs.run import Run, stored
from whorl.runs.task1 import task1_key
from whorl.runtime import Runtime
from whorl.tree import Tree, merge, override

FIRST: Tree = {"pseudo": {"features": "first"}}
ROOT: Tree = {"pseudo": {"features": "first", "transform": "root"}}
WHITE: Tree = {"pseudo": {"whiten": True}}
SINKHORN: Tree = {"cluster": {"name": "sinkhorn"}}
ONE, TWO = ({"pseudo": {"features": "networks", "networks": n, "transform": "root"}} for n in (1, 2))
SAME: Tree = {"pseudo": {"arch": "resnet32"}}
WAYS: dict[str, Tree] = {
    "first model": FIRST,
    "first model, root": ROOT,
    "first model, root, gmm": merge(ROOT, {"cluster": {"name": "gmm"}}),
    "first model, root, sinkhorn": merge(ROOT, SINKHORN),
    "first model, root, whitened": merge(ROOT, WHITE),
    "first model, root, whitened, sinkhorn": merge(ROOT, WHITE, SINKHORN),
    "first model with rotations, root, sinkhorn": merge(ROOT, SINKHORN, {"train": {"rotations": "initial"}}),
    "one network, sinkhorn": merge(ONE, SINKHORN),
    "one network, whitened, sinkhorn": merge(ONE, WHITE, SINKHORN),
    "one ResNet-32, sinkhorn": merge(ONE, SAME, SINKHORN),
    "one ResNet-32, whitened, sinkhorn": merge(ONE, SAME, WHITE, SINKHORN),
    "two networks": TWO,
    "two networks, sinkhorn": merge(TWO, SINKHORN),
    "two networks, whitened": merge(TWO, WHITE),
    "best": {"labeler": "best"},
}


def labelled(config: ExperimentConfig, data: Dataset, out: Path) -> dict[str, object]:
    """The accuracy of the labels of each delivery, and the seconds per delivery."""
    first = config.model_copy(update={"stream": config.stream.model_copy(update={"tasks": 1})})
    done = (run for run, _ in stored(out)[0] if task1_key(run.config) == task1_key(first) and run.has_task1())
    task1 = Run(experiment.run(first, data, out, task1=next(done, None)).path, first)
    learner = Learner(config, data.inputs, Runtime())
    learner.restore(task1.load_task(1, data.inputs))
    sizes = split_sizes(len(data.class_names), config.stream.step, config.stream.first, config.stream.tasks)
    stream, truth = class_incremental(data, sizes, config.stream.order, False)
    found, started = [], time.perf_counter()
    for delivery, classes in zip(stream[1:], truth.train[1:], strict=True):
        ids = learner.label(delivery, Silent()).ids - learner.known
        found.append(round(matched_accuracy(ids, classes - classes.min(), delivery.new or 0, delivery.new or 0), 3))
        print(f"  {found[-1]:.3f}", end="", flush=True)
    seconds = (time.perf_counter() - started) / len(found)
    return {"label_acc": found, "mean": round(float(np.mean(found)), 3), "seconds": round(seconds, 1)}


def main() -> None:
    """Label with each way and print one line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs-labels"))
    parser.add_argument("--only", action="append", choices=WAYS)
    parser.add_argument("--step", type=int, default=10)
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    base = override(
        ("data.name", "cifar100"), ("data.resize", flags.resize), ("data.per_class", flags.per_class),
        ("stream.step", flags.step), ("stream.order", "A"), ("seed", flags.seed), ("precision", "bf16"),
    )  # fmt: skip
    found, data = load_configured(resolve(base).data, flags.data_dir, strict=False, workers=2, notify=print)
    base = merge(base, {"data": found.model_dump(exclude_none=True)})
    flags.out.mkdir(parents=True, exist_ok=True)
    kept = flags.out / "labels.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    known = {line["hash"]: line for line in lines}
    for name in flags.only or WAYS:
        config = resolve(merge(base, WAYS[name]))
        if config.hash not in known:
            known[config.hash] = {"hash": config.hash, "way": name, **labelled(config, data, flags.out)}
            with kept.open("a") as file:
                file.write(json.dumps(known[config.hash]) + "\n")
        line = known[config.hash]
        print(f"\n{name:28} mean {line['mean']:.3f}, {line['seconds']:.0f} s a task: {line['label_acc']}", flush=True)


if __name__ == "__main__":
    main()
