"""The progress of a grid on stderr: a live table in a terminal, one line per run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from whorl.cli.flags import ReproduceFlags
from whorl.cli.lines import tell
from whorl.errors import printable
from whorl.grid.messages import Done, Outcome
from whorl.grid.queue import GridState, Job, Plan
from whorl.progress import duration


class Silent:
    """Shows nothing."""

    def update(self, state: GridState) -> None:
        """Called after every event."""

    def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
        """Called when a job has finished or failed."""

    def note(self, job: Job | None, line: str) -> None:
        """Called with a line for the user."""

    def close(self) -> None:
        """Called at the end."""


class Plain(Silent):
    """Prints one line per run."""

    def __init__(self, planned: Plan) -> None:
        self._runs = len(planned.jobs)
        self._before = len(planned.finished)
        self._images = {job.title: sum(job.passes[behind:]) for job, behind in planned.remaining()}
        self._started = time.monotonic()

    def ended(self, state: GridState, job: Job, outcome: Outcome) -> None:
        """Print the result of a run, or why it failed."""
        if isinstance(outcome, Done):
            scores = {"avg": outcome.avg, "last": outcome.last}
            result = "  ".join(f"{name} {value:.3f}" for name, value in scores.items() if value is not None)
        else:
            result = ReproduceFlags.translate(f"FAILED: {outcome.reason}")
        ended = self._before + len(state.finished) + len(state.failed)
        self.print(f"[{ended}/{self._runs}] {job.name}: {result}  ({self.left(state)} left)")

    def note(self, job: Job | None, line: str) -> None:
        """Print a note, after the name of its run."""
        self.print(ReproduceFlags.translate(f"{job.name}: {line}" if job else line))

    def left(self, state: GridState) -> str:
        """The time left, at the average speed since this command began."""
        running = list(state.running.values())
        done = state.images + sum(each.done - each.start for each in running)
        ahead = sum(self._images[job.title] for job in state.waiting)
        ahead += sum(each.images - each.done if each.tasks else self._images[each.job.title] for each in running)
        return duration(ahead / done * (time.monotonic() - self._started)) if done else "…"

    def print(self, line: str) -> None:
        """Print a line on stderr."""
        tell(line)


class Live(Plain):
    """Shows a table that is updated in place."""

    def __init__(self, planned: Plan) -> None:
        super().__init__(planned)
        self._live = RichLive(console=Console(stderr=True), transient=True, auto_refresh=False)
        self._next = 0.0
        self._live.start()

    def update(self, state: GridState) -> None:
        """Draw the table, at most four times per second."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.25
        self._live.update(Group(Text(self.counts(state)), self._table(state)), refresh=True)

    def counts(self, state: GridState) -> str:
        """The state of the grid in one line."""
        counted = {
            "finished": self._before + len(state.finished), "running": len(state.running),
            "waiting": len(state.waiting), "failed": len(state.failed),
        }  # fmt: skip
        return "  ".join(f"{count} {name}" for name, count in counted.items()) + f"  {self.left(state)} left"

    def print(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(Text(printable(line)))

    def close(self) -> None:
        """Remove the table."""
        self._live.stop()

    def _table(self, state: GridState) -> Table:
        table = Table.grid(padding=(0, 2))
        for wraps in (False, False, True):  # in a narrow terminal, only the name continues on the next line
            table.add_column(no_wrap=not wraps, overflow="fold")
        for each in state.running.values():
            share = f"{each.done / each.images:4.0%}" if each.images else ""
            where = f"task {min(each.task + 1, each.tasks)}/{each.tasks}" if each.tasks else "starting"
            table.add_row(share, where, Text(printable(each.job.name)))
        return table


@contextmanager
def view(planned: Plan, quiet: bool) -> Iterator[Silent]:
    """The view that suits stderr: live in a terminal, plain lines elsewhere."""
    shown = Silent() if quiet else Live(planned) if sys.stderr.isatty() else Plain(planned)
    try:
        yield shown
    finally:
        shown.close()
