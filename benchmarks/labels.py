"""Accuracy of the pseudo labels of CIFAR-100 by ways to make them, from the model of task 1.

    python benchmarks/labels.py --data-dir DIR [--only NAME]... [--resize 16] [--per-class 200] [--seed 0]

Order A, step 10, recipe `fast`, bf16. Each way labels every delivery with a learner that has learned task 1 alone, so
that no class-incremental training is needed. That is how `pseudo.features=first` labels them in a run; `current` would
use a model that has learned earlier pseudo labels. Task 1 is a run below ``--out``; ways with the same training share
it. Each result is appended to ``--out``/labels.jsonl when it is known, and a second call continues there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from whorl.config import ClusterConfig, ExperimentConfig, PseudoConfig, Tree, merge, override
from whorl.data.configured import load_configured
from whorl.data.source import Dataset
from whorl.data.stream import class_incremental, split_sizes
from whorl.engine import Learner
from whorl.experiment import run
from whorl.metrics.match import matched_accuracy
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.runs.run import Run
from whorl.runtime import Runtime

ROOT: Tree = {"pseudo": {"features": "first", "transform": "root"}}
TURNED: Tree = {"pseudo": {"features": "first", "transform": "turns"}}
SINKHORN: Tree = {"cluster": {"name": "sinkhorn"}}
ROTATED: Tree = {"train": {"rotations": "initial"}}
CONTRASTED: Tree = merge(ROTATED, {"train": {"contrast": "initial"}})
WAYS: dict[str, Tree] = {
    "paper": {},
    "root": ROOT,
    "root, gmm": merge(ROOT, {"cluster": {"name": "gmm"}}),
    "root, sinkhorn": merge(ROOT, SINKHORN),
    "rotations": merge(ROOT, ROTATED),
    "best": {"labeler": "best"},
    "contrast": merge(ROOT, CONTRASTED),
    "contrast, turns": merge(TURNED, CONTRASTED),
    "contrast, sinkhorn": merge(ROOT, CONTRASTED, SINKHORN),
    "contrast, turns, sinkhorn": merge(TURNED, CONTRASTED, SINKHORN),
    "contrast, sinkhorn, refined": merge(ROOT, CONTRASTED, SINKHORN, {"pseudo": {"refine": 9}}),
}


def labelled(config: ExperimentConfig, data: Dataset, out: Path) -> dict[str, object]:
    """The accuracy of the labels of each delivery, and the seconds per delivery."""
    one = {"stream": config.stream.model_copy(update={"tasks": 1})}
    later = {"labeler": "paper", "pseudo": PseudoConfig(), "cluster": ClusterConfig()}  # without effect on task 1
    first = config.model_copy(update={**one, **later})
    task1 = Run(run(first, data, out).path, first)
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
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    base = override(
        ("data.name", "cifar100"), ("data.resize", flags.resize), ("data.per_class", flags.per_class),
        ("stream.step", 10), ("stream.order", "A"), ("seed", flags.seed), ("precision", "bf16"),
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
