"""How good must pseudo labels be? Accuracy of a run against the accuracy of its labels, on CIFAR-100.

    python benchmarks/label_accuracy.py --data-dir DIR [--resize 16] [--per-class 100] [--tasks 4] [--plot FILE.png]

Order A, step 10, recipe `fast`, bf16, one seed. For `ours` and `wa`, and for two memories (20 exemplars per class, and
the number in total that this makes after the last task): labels corrupted to each accuracy (a diagnostic), pseudo
labels by `--labeler paper` and `best`, and labels given. Runs are stored below ``--out``, so a second call continues;
runs that train task 1 alike share it. The plot shows Avg as a share of that with labels given, by memory and
classifier. A band shows the same share of the printed numbers: Table 1, step 10, the lowest to the highest method.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from whorl import papers
from whorl.data.configured import load_configured
from whorl.experiment import Result, run
from whorl.recipes import resolve
from whorl.runs.run import Run
from whorl.runs.task1 import task1_key
from whorl.tree import Tree, merge, override

COLUMNS = "{:>9} {:>6} {:14} {:>6} | {:>6} {:>6} | {:>6} {:>6}"


def ways(accuracies: list[float]) -> dict[str, Tree]:
    """The kinds of labels by name."""
    corrupted: dict[str, Tree] = {f"corrupted {p:g}": {"labels": "corrupted", "label_acc": p} for p in accuracies}
    return {"paper": {}, "best": {"labeler": "best"}, **corrupted, "given": {"labels": "given"}}


def printed() -> list[float]:
    """For each method of Table 1 on CIFAR-100, step 10: the printed Avg without labels over that with labels."""
    table = papers.load("he2021").table(1)
    column, rows = table.columns.index("cifar-10"), {row.name: row for row in table.rows}
    return [
        1 + float(row.avg[column]) / float(rows[row.minus].avg[column])
        for row in table.rows
        if isinstance(row.minus, str) and row.avg[column] != "/"
    ]


def averages(result: Result) -> tuple[float, float, float]:
    """The accuracy of the labels, and Avg by `fc` and by `nme`, all over the tasks after the first."""
    later = result.steps[1:]
    labels = [1.0 if step.label_acc is None else step.label_acc for step in later]
    return (
        float(np.mean(labels)),
        float(np.mean([step.acc_fc or 0 for step in later])),
        float(np.mean([step.acc_nme or 0 for step in later])),
    )


def plot(points: dict[tuple[str, str, str], tuple[float, float, float]], file: Path) -> None:
    """Avg over that with labels given, against the accuracy of the labels: a panel per memory and classifier."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    policies = sorted({policy for policy, _, _ in points})
    figure, rows = plt.subplots(
        len(policies), 2, figsize=(10, 4 * len(policies)), sharey=True, squeeze=False, layout="constrained"
    )
    shares = printed()
    for policy, panels in zip(policies, rows, strict=True):
        for panel, column, title in zip(panels, (1, 2), ("fc", "nme"), strict=True):
            panel.axhspan(min(shares), max(shares), color="#999999", alpha=0.25, label="printed, methods of Table 1")
            for method, colour in (("ours", "#1f77b4"), ("wa", "#d62728")):
                mine = {way: point for (kept, name, way), point in points.items() if (kept, name) == (policy, method)}
                if "given" in mine:
                    draw(panel, method, colour, mine, column)
            panel.set(title=f"memory {policy}, classifier {title}", xlim=(0.2, 1.02))
            panel.set(xlabel="share of right labels, tasks 2 to the last", ylabel="Avg / Avg with labels given")
            panel.grid(alpha=0.3)
    rows[0][1].legend(fontsize=7, loc="lower right")
    figure.savefig(file, dpi=120)


def draw(panel: Axes, method: str, colour: str, mine: dict[str, tuple[float, float, float]], column: int) -> None:
    """The curve of one method, and marks for its pseudo labels."""
    full = mine["given"][column]
    curve = sorted(point for way, point in mine.items() if way.startswith("corrupted") or way == "given")
    panel.plot(
        [point[0] for point in curve], [point[column] / full for point in curve], "o-", color=colour, label=method
    )
    for way, marker in (("paper", "s"), ("best", "*")):
        if way in mine:
            at = mine[way]
            panel.plot(at[0], at[column] / full, marker, color=colour, ms=8, label=f"{method}, {way}")


def main() -> None:
    """Run everything that is not stored, print one line per run, and draw the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs-label-accuracy"))
    parser.add_argument("--accuracies", type=float, nargs="*", default=[0.5, 0.7, 0.85])
    parser.add_argument("--methods", nargs="*", default=["ours", "wa"])
    parser.add_argument("--policies", nargs="*", default=["per-class", "total"], choices=["per-class", "total"])
    parser.add_argument("--resize", type=int)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path)
    flags = parser.parse_args()
    base = override(
        ("data.name", "cifar100"), ("data.resize", flags.resize), ("data.per_class", flags.per_class),
        ("stream.step", 10), ("stream.order", "A"), ("stream.tasks", flags.tasks), ("seed", flags.seed),
        ("precision", "bf16"),
    )  # fmt: skip
    found, data = load_configured(resolve(base).data, flags.data_dir, strict=False, workers=2, notify=print)
    base = merge(base, {"data": found.model_dump(exclude_none=True)})
    print(COLUMNS.format("memory", "method", "labels", "right", "fc", "last", "nme", "last"))
    points, firsts = dict[tuple[str, str, str], tuple[float, float, float]](), dict[str, Run]()
    asked = product(flags.policies, ways(flags.accuracies).items(), flags.methods)
    for policy, (way, changes), method in asked:
        memory = {"policy": policy, "quota": 20 if policy == "per-class" else 200 * (flags.tasks or 10)}
        config = resolve(merge(base, changes, {"method": {"name": method}, "memory": memory}))
        key = task1_key(config)
        result = run(config, data, flags.out, task1=firsts.get(key))
        firsts.setdefault(key, Run(result.path, config))
        points[policy, method, way] = right, fc, nme = averages(result)
        last = result.steps[-1]
        numbers = (right, fc, last.acc_fc or 0, nme, last.acc_nme or 0)
        print(COLUMNS.format(policy, method, way, *(f"{number:.3f}" for number in numbers)), flush=True)
    if flags.plot:
        plot(points, flags.plot)


if __name__ == "__main__":
    main()
