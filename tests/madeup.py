"""Made-up runs, written by hand: what a report reads, without any training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whorl import papers
from whorl.config import Config, Tree, merge, write_toml
from whorl.papers.cells import config_of

HE = papers.load("he2021")
SMALL: Tree = {"data": {"resize": 16, "per_class": 200}, "stream": {"tasks": 3}}


def asked(method: str = "ours", column: str = "cifar-10", stand_in: str | None = None, **more: Any) -> Tree:
    """What a cell asks for: a method, a column, and other values."""
    return merge({"method": {"name": method}}, more, HE.place(column, stand_in))


def put(
    runs: Path,
    what: Tree,
    accs: list[Any],
    seed: int = 0,
    recipe: str = "paper",
    budget: Tree | None = None,
    finished: bool = True,
    **scores: list[Any],
) -> Config:
    """Store a run with these scores after each task; others than ``acc`` by name."""
    config = config_of(HE, what, recipe, budget or {}, seed)
    step = config.stream.step
    steps: list[dict[str, Any]] = []
    for number, acc in enumerate(accs):
        task = {"task": number + 1, "classes": step * (number + 1), "acc": acc, "seconds": 1.5, "method": {}}
        steps.append({**task, **{key: values[number] for key, values in scores.items()}})
    folder = runs / config.title
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(write_toml(config))
    (folder / "scores.json").write_text(json.dumps({"format": 1, "finished": finished, "steps": steps}))
    return config
