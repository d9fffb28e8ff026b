"""How a grid goes, on stderr: a live table in a terminal, one line a run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from whorl.cli.progress import duration
from whorl.runs.grid import Job, Plan, State


class Silent:
    """Shows nothing."""

    def update(self, state: State) -> None:
        """Nothing."""

    def ended(self, state: State, job: Job, outcome: dict[str, Any]) -> None:
        """Nothing."""

    def note(self, job: Job | None, line: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing to put away."""


class Plain(Silent):
    """One line a run."""

    def __init__(self, planned: Plan) -> None:
        self._runs = len(planned.jobs)
        self._before = len(planned.finished)
        self._images = {job.title: sum(job.passes[behind:]) for job, behind in planned.left()}
        self._started = time.monotonic()

    def ended(self, state: State, job: Job, outcome: dict[str, Any]) -> None:
        """Say how a run went."""
        if outcome["event"] == "done":
            how = "  ".join(f"{key} {outcome[key]:.3f}" for key in ("avg", "last") if outcome[key] is not None)
        else:
            how = f"FAILED: {outcome['reason']}"
        over = self._before + len(state.finished) + len(state.failed)
        self.say(f"[{over}/{self._runs}] {job.name}: {how}  ({self.left(state)} left)")

    def note(self, job: Job | None, line: str) -> None:
        """Say what a run had to say."""
        self.say(f"{job.name}: {line}" if job else line)

    def left(self, state: State) -> str:
        """The time left, if it goes on as it has gone since this command began."""
        running = list(state.running.values())
        done = state.images + sum(each.done - each.start for each in running)
        ahead = sum(self._images[job.title] for job in state.waiting)
        ahead += sum(each.images - each.done if each.tasks else self._images[each.job.title] for each in running)
        return duration(ahead / done * (time.monotonic() - self._started)) if done else "…"

    def say(self, line: str) -> None:
        """A line on stderr."""
        print(line, file=sys.stderr, flush=True)


class Live(Plain):
    """A table that is drawn anew as things move."""

    def __init__(self, planned: Plan) -> None:
        super().__init__(planned)
        self._live = RichLive(console=Console(stderr=True), transient=True, auto_refresh=False)
        self._next = 0.0
        self._live.start()

    def update(self, state: State) -> None:
        """Draw, but not more often than a person can read."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.25
        self._live.update(Group(Text(self.counts(state)), self._table(state)), refresh=True)

    def counts(self, state: State) -> str:
        """The whole grid in a line."""
        counted = {
            "finished": self._before + len(state.finished), "running": len(state.running),
            "waiting": len(state.waiting), "failed": len(state.failed),
        }  # fmt: skip
        return "  ".join(f"{count} {name}" for name, count in counted.items()) + f"  {self.left(state)} left"

    def say(self, line: str) -> None:
        """A line above the table."""
        self._live.console.print(line, highlight=False, markup=False)

    def close(self) -> None:
        """Take the table away."""
        self._live.stop()

    def _table(self, state: State) -> Table:
        table = Table.grid(padding=(0, 2))
        for each in state.running.values():
            share = f"{each.done / each.images:4.0%}" if each.images else ""
            where = f"task {min(each.task + 1, each.tasks)}/{each.tasks}" if each.tasks else "starting"
            table.add_row(share, where, each.job.name)
        return table


@contextmanager
def view(planned: Plan, quiet: bool) -> Iterator[Silent]:
    """The view that fits where stderr goes."""
    shown = Silent() if quiet else Live(planned) if sys.stderr.isatty() else Plain(planned)
    try:
        yield shown
    finally:
        shown.close()
