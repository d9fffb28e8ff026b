"""Values that the shell completes. Nothing here imports torch, so that the answer comes at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

LITERAL = {
    "labels": ("pseudo", "given", "corrupted"),
    "classifier": ("fc", "nme"),
    "precision": ("fp32", "bf16", "auto"),
    "stream.order": ("A", "B", "natural"),
    "net.tune": ("none", "last", "all"),
    "memory.policy": ("per-class", "total"),
    "memory.reading": ("aligned", "reuse", "recluster"),
}
"""Config keys with few values, which plug-ins cannot extend."""


def knows(key: str) -> bool:
    """Whether the values of a config key have names."""
    from whorl.known import KNOWN

    return key in KNOWN or key in LITERAL


def values(key: str) -> Callable[[str], list[str]]:
    """Completes the values of a config key."""

    def complete(incomplete: str) -> list[str]:
        from whorl.known import KNOWN

        known = KNOWN[key].all() if key in KNOWN else list(LITERAL[key])
        return [name for name in known if name.startswith(incomplete)]

    return complete


def keys(incomplete: str) -> list[str]:
    """Completes the keys of ``--set``."""
    from whorl.config import ExperimentConfig
    from whorl.explain import keys_of

    return [f"{key}=" for key in keys_of(ExperimentConfig) if key.startswith(incomplete)]


def scores(incomplete: str) -> list[str]:
    """Completes the scores of ``whorl compare``."""
    from whorl.known import SCORES

    return [name for name in SCORES if name.startswith(incomplete)]


def papers(incomplete: str) -> list[str]:
    """Completes the names of papers."""
    from whorl.papers import names

    return [name for name in names() if name.startswith(incomplete)]


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the names of the runs in ``--out``."""
    from whorl.cli.runs import folders

    return [path.name for path in folders(Path(ctx.params.get("out") or "runs")) if path.name.startswith(incomplete)]
