"""Choose ILIO's block size and learning rate on the first incremental step of CIFAR-100, with labels given.

    python benchmarks/tune_ilio.py --data-dir DIR

Task 1 is learned once and stored under ``--out``; each pair of values then learns task 2 from it. Prints a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.config import ExperimentConfig
from whorl.data import Dataset
from whorl.data.configured import load_configured
from whorl.data.stream import Stream, class_incremental
from whorl.engine import Learner, State
from whorl.evaluate import Evaluator
from whorl.experiment import run
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.runs.run import Run
from whorl.runtime import Runtime
from whorl.scores import TaskScores
from whorl.tree import override
from whorl.types import granted

BLOCKS = 8, 16, 32, 128
RATES = 0.1, 0.05, 0.01
SIZES = 10, 10


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    flags = parser.parse_args()
    asked = override(
        ("data.name", "cifar100"),
        ("data.resize", flags.resize),
        ("data.per_class", flags.per_class),
        ("method.name", "ilio"),
        ("labels", "given"),
        ("stream.step", SIZES[0]),
        ("stream.tasks", 1),
    )
    found, data = load_configured(resolve(asked).data, flags.data_dir, strict=False, workers=2, notify=print)
    config = resolve({**asked, "data": found.model_dump(exclude_none=True)})
    initial = run(config, data, flags.out)
    state = Run.at(flags.out, config).load_task(1, data.inputs)
    stream, truth = class_incremental(data, SIZES, config.stream.order, labels_given=True)
    evaluator = Evaluator(truth, SIZES, labels_given=True)
    print(f"after task 1: {initial.steps[0].acc_fc:.3f}\nblock  rate   fc     nme    ncm", flush=True)
    for block in BLOCKS:
        for rate in RATES:
            method = {"name": "ilio", "block": block, "lr": rate}
            scores = learned(resolve({**asked, "method": method}), data, state, stream, evaluator)
            print(f"{block:5}  {rate:<5}  {scores.acc_fc:.3f}  {scores.acc_nme:.3f}  {scores.acc_ncm:.3f}", flush=True)


def learned(config: ExperimentConfig, data: Dataset, state: State, stream: Stream, evaluator: Evaluator) -> TaskScores:
    """The scores after task 2, learned from the state after task 1."""
    learner = Learner(config, data.inputs, Runtime())
    learner.restore(state)
    for _ in learner.learn(stream[1], Silent()):
        pass
    return evaluator.score(learner.classifier, [granted(delivery.labels) for delivery in stream])


if __name__ == "__main__":
    main()
