"""The runs behind a report's numbers, as parts of its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whorl.config import write_toml
from whorl.papers import Metric
from whorl.report import page
from whorl.report.done import Done
from whorl.report.gather import Group
from whorl.report.measure import curve, one, score_key
from whorl.report.paper import Report
from whorl.report.text import count, listed, number

_SCORES = {
    "acc": "ACC", "acc_plain": "plain accuracy", "acc5": "top-5 ACC", "acc5_plain": "plain top-5 accuracy",
    "nmi": "NMI", "ari": "ARI",
}  # fmt: skip

_USUAL = {
    "pseudo.features": "current", "pseudo.refresh": "0", "cluster.name": "kmeans", "memory.quota": "20",
    "memory.select": "herding",
}  # fmt: skip
"""What is not worth saying of a run."""


@dataclass
class Shown:
    """The runs of a group, the scores they are shown by, and where they are used."""

    group: Group
    scores: dict[str, None] = field(default_factory=dict)
    uses: dict[str, str] = field(default_factory=dict)
    """Where a link leads → its words."""
    bases: dict[str, Group] = field(default_factory=dict)


def use(behind: dict[str, Shown], group: Group, score: str, name: str, words: str) -> Shown:
    """Note that the place ``name`` shows this score of a group."""
    shown = behind.setdefault(group.name, Shown(group))
    shown.scores[score_key(score, group.asked.get("labels", "pseudo"))] = None
    shown.uses[name] = words
    return shown


def group_section(report: Report, shown: Shown) -> str:
    """The runs of a cell, folded away."""
    runs = list(shown.group.runs.values())
    config, mark = runs[0].config, report.filled.mark(shown.group.setting)
    words = [config.method.name, f"labels {config.labels}", config.data.name, f"step {config.stream.step}"]
    words += [f"first {config.stream.first}"] if config.stream.first else []
    words += [f"{key} {runs[0].values[key]}" for key, usual in _USUAL.items() if runs[0].values[key] != usual]
    summary = ", ".join([*words, f"setting {mark}"] if mark else words) + f": {count(len(runs), 'seed')}"
    body = [page.links("Back to", [(words, name) for name, words in shown.uses.items()])]
    if shown.bases:
        body.append(page.links("Taken off:", [("the runs with labels", name) for name in shown.bases]))
    body += [_seeds(runs, key) for key in shown.scores]
    for same in _alike(runs):
        toml = page.commands(write_toml(same[0].config).splitlines())
        seeds = listed(str(run.config.seed) for run in same)
        body.append(page.fold(f"Config (seed {seeds})", [toml]))
    return page.fold(summary, body, shown.group.name)


def _seeds(runs: Sequence[Done], key: str) -> str:
    """A row for each seed."""
    longest = max(runs, key=lambda run: len(run.steps))
    tasks = [f"{n} ({step.get('classes', '?')})" for n, step in enumerate(longest.steps, 1)]
    groups = [
        ("", ["Avg", "Last", "Seconds"]),
        (f"{_SCORES[key]} after task (classes seen)", tasks),
        ("Run", ["Folder"]),
    ]
    rows = []
    for run in runs:
        values = curve(run, key)
        found = [_one(values, "avg"), _one(values, "last"), _seconds(run)]
        texts = [*found, *map(number, values), *["–"] * (len(tasks) - len(values)), run.name]
        rows.append((page.Cell(f"{run.config.seed}"), [page.Cell(text) for text in texts]))
    return page.sheet(f"{_SCORES[key]} of each run", "Seed", groups, rows, "narrow")


def _alike(runs: Iterable[Done]) -> list[list[Done]]:
    """Runs that differ in the seed only, together."""
    found: dict[str, list[Done]] = {}
    for run in runs:
        found.setdefault(run.config.model_copy(update={"seed": 0}).hash, []).append(run)
    return list(found.values())


def other_runs(report: Report) -> Iterator[str]:
    """Runs that fill no cell."""
    if report.store.unfinished:
        yield page.heading(2, "Unfinished runs", "unfinished")
        yield page.paragraph("They fill no cell. The command that began a run goes on with it.")
        yield _list([(run, f"{count(len(run.steps), 'task')} done") for run in report.store.unfinished])
    if report.filled.other:
        yield page.heading(2, "Other runs", "other")
        yield page.paragraph("Finished runs that fill no cell of the paper.")
        yield _list(report.filled.other)


def _list(runs: Iterable[tuple[Done, str]]) -> str:
    rows = []
    for run, words in runs:
        values = curve(run, score_key("acc", run.config.labels))
        texts = [_one(values, "avg"), _one(values, "last") if values else "–", words]
        rows.append((page.Cell(run.name), [page.Cell(text) for text in texts]))
    return page.sheet("Runs", "Run", [("", ["Avg", "Last", ""])], rows, "words")


def _one(values: Sequence[float | None], metric: Metric) -> str:
    found = one(values, metric)
    return found if isinstance(found, str) else number(found)


def _seconds(run: Done) -> str:
    spent = [step.get("seconds") for step in run.steps]
    known = [second for second in spent if isinstance(second, int | float)]
    return f"{sum(known):.0f}" if known else "–"
