"""Accuracy against training time of the recipe `fast` and of variants of it, on tasks 1 and 2 of CIFAR-100.

    python benchmarks/time_to_accuracy.py --data-dir DIR [--only NAME]... [--resize 16] [--per-class 200]

Labels are given, order A, step 10, method `ours`, one seed. Each variant is one run below ``--out``, so that a second
call prints what is stored and continues where the first one stopped. Seconds are those of the training epochs; compare
them within one call on a quiet machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.data.configured import load_configured
from whorl.experiment import run
from whorl.recipes import resolve
from whorl.runs.run import Run
from whorl.tree import Tree, merge, override

FULL: Tree = {"train": {"sizes": []}}
VARIANTS: dict[str, Tree] = {
    "before": merge(FULL, {"train": {"first_epochs": 22, "epochs": 12}}),
    "24 epochs": merge(FULL, {"train": {"first_epochs": 24, "epochs": 24}}),
    "36 epochs": FULL,
    "fast": {},
    "fast, 24 epochs": {"train": {"first_epochs": 24, "epochs": 24}},
    "fast, bf16": {"precision": "bf16"},
    "fast, rotations": {"train": {"rotations": "always"}},
    "fast, batch 128": {"train": {"batch": 128}, "optim": {"lr": 0.4}},
}


def main() -> None:
    """Train and print one line per variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs-time-to-accuracy"))
    parser.add_argument("--only", action="append", choices=VARIANTS)
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    base = override(
        ("data.name", "cifar100"), ("data.resize", flags.resize), ("data.per_class", flags.per_class),
        ("labels", "given"), ("stream.step", 10), ("stream.tasks", 2), ("stream.order", "A"), ("seed", flags.seed),
    )  # fmt: skip
    found, data = load_configured(resolve(base).data, flags.data_dir, strict=False, workers=2, notify=print)
    base = merge(base, {"data": found.model_dump(exclude_none=True)})
    print(f"{'variant':18} {'task 1':>8} {'task 2':>8}   {'task 1':>6} {'fc':>6} {'nme':>6}   per second")
    for name in flags.only or VARIANTS:
        config = resolve(merge(base, VARIANTS[name]))
        result = run(config, data, flags.out)
        seconds = {1: 0.0, 2: 0.0}
        for record in Run(result.path, config).log():
            seconds[int(str(record["task"]))] += float(str(record["seconds"]))
        one, two = result.steps
        rate = sum(step.images for step in result.steps) / sum(seconds.values())
        scores = f"{one.acc_plain:6.3f} {two.acc_fc:6.3f} {two.acc_nme:6.3f}"
        print(f"{name:18} {seconds[1]:7.0f}s {seconds[2]:7.0f}s   {scores}   {rate:10.0f}", flush=True)


if __name__ == "__main__":
    main()
