"""Made-up runs for reports, written without any training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whorl import papers
from whorl.config import ExperimentConfig, write_toml
from whorl.papers.cells import config_of
from whorl.tree import Tree, merge

HE = papers.load("he2021")
SMALL: Tree = {"data": {"resize": 16, "per_class": 200}, "stream": {"tasks": 3}}
SITTING = {
    "commit": None, "torch": "2.4.0", "python": "3.11.2", "device": "cpu", "threads": 2,
    "started": "2026-01-02T03:04:05Z", "finished": "2026-01-02T03:14:05Z",
}  # fmt: skip


def asked(method: str = "ours", column: str = "cifar-10", stand_in: str | None = None, **more: Any) -> Tree:
    """The config values of a cell: a method, a column, and others."""
    return merge({"method": {"name": method}}, more, HE.place(column, stand_in))


def put(
    runs: Path,
    what: Tree,
    accs: list[Any],
    seed: int = 0,
    recipe: str = "paper",
    budget: Tree | None = None,
    finished: bool = True,
    version: str = "",
    **scores: list[Any],
) -> ExperimentConfig:
    """Store a run with these scores after each task; scores other than ``acc`` by name.

    With a ``version``, the run is stored in format 2 as computed by that version of whorl.
    """
    config = config_of(HE, what, recipe, budget or {}, seed)
    step = config.stream.step
    steps: list[dict[str, Any]] = []
    for number, acc in enumerate(accs):
        task = {"task": number + 1, "classes": step * (number + 1), "acc": acc, "seconds": 1.5, "method": {}}
        steps.append({**task, **{key: values[number] for key, values in scores.items()}})
    folder = runs / config.title
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(write_toml(config))
    document: dict[str, Any] = {"format": 1, "finished": finished, "steps": steps}
    if version:
        tasks = [step["task"] for step in steps]
        document |= {"format": 2, "provenance": [{**SITTING, "whorl": version, "tasks": tasks}]}
    (folder / "scores.json").write_text(json.dumps(document))
    return config
