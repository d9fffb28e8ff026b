"""ILIO's block size and rate, chosen with labels given on the first incremental step of CIFAR-100 alone.

    python benchmarks/tune_ilio.py --data-dir DIR

Task 1 is learned once and stored under ``--out``; every pair then learns task 2 from it. Prints a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.data import DataOptions, load
from whorl.data.augment import Augment
from whorl.data.stream import class_incremental
from whorl.engine import Learner
from whorl.evaluate import Evaluator
from whorl.experiment import run
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.runs.store import Run
from whorl.runtime import Runtime

BLOCKS = 8, 16, 32, 128
RATES = 0.1, 0.05, 0.01


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    given = parser.parse_args()
    data = load("cifar100", given.data_dir, DataOptions(given.resize, given.per_class))
    asked = {
        "data": {"name": "cifar100", "fingerprint": data.fingerprint}
        | {key: value for key in ("resize", "per_class") if (value := getattr(given, key))},
        "method": {"name": "ilio"},
        "labels": "given",
        "stream": {"step": 10, "tasks": 1},
    }
    config = resolve(asked)
    first = run(config, data, given.out)
    print(f"after task 1: {first.steps[0]['acc_fc']:.3f}\nblock  rate   fc     nme    ncm", flush=True)
    stream, truth = class_incremental(data, (10, 10), config.stream.order, labels_given=True)
    state = Run.at(given.out, config).load_task(1)
    augment = Augment.of(data)
    for block in BLOCKS:
        for rate in RATES:
            tried = resolve({**asked, "method": {"name": "ilio", "block": block, "lr": rate}})
            learner = Learner(tried, augment, Runtime())
            learner.restore(state, stream[:1])
            for _ in learner.learn(stream[1], Silent()):
                pass
            scores = Evaluator(truth, (10, 10), "fc", True).score(learner, 2)
            print(
                f"{block:5}  {rate:<5}  {scores['acc_fc']:.3f}  {scores['acc_nme']:.3f}  {scores['acc_ncm']:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
