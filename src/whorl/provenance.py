"""Where a run is computed: version and commit of whorl, torch, device, threads, times."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import torch

from whorl import __version__
from whorl.runtime import Runtime
from whorl.scores import Provenance


def now() -> str:
    """The time in UTC, as ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def provenance(runtime: Runtime, started: str, tasks: tuple[int, ...]) -> Provenance:
    """The provenance of the tasks that were computed in this process since ``started``."""
    return Provenance(
        whorl=__version__,
        commit=commit(),
        torch=torch.__version__,
        python=platform.python_version(),
        device=runtime.device,
        threads=torch.get_num_threads(),
        started=started,
        finished=now(),
        tasks=tasks,
    )


@cache
def commit() -> str | None:
    """The git commit of the source code, with a ``+`` if files were changed; None outside of a checkout."""
    source = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(source), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != source.parents[1]:
            return None  # the checkout of another project that whorl is installed in
        return git("rev-parse", "--short=10", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None
