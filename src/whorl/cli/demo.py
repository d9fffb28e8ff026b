"""``whorl demo``: the method in about a minute, on the digits of scikit-learn, with an HTML report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whorl.cli.flags import RunFlags
from whorl.cli.lines import interruptible, say, table, tell
from whorl.report.text import number

if TYPE_CHECKING:
    from whorl.report.demo import Demo

SETTING: dict[str, Any] = {"data.name": "digits"}


def demo(
    out: Annotated[Path, typer.Option(help="The folder of the report and the runs.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Changes everything random except the class order.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start from scratch and delete what is stored.")] = False,
) -> None:
    """Learn the digits with labels and without, and write a report of both. Takes about a minute."""
    from whorl.known import check_asked
    from whorl.tree import override

    check_asked({"seed": seed})
    from whorl.cli.run import prepare
    from whorl.experiment import run
    from whorl.progress import reporter
    from whorl.report.demo import gather, render
    from whorl.runs.owned import Owned
    from whorl.runs.run import Run

    owned = Owned(out)
    found: dict[str, Run] = {}
    repeat: list[str] = []
    for labels, said in (("given", "with labels in every step"), ("pseudo", "with labels in step 1 only")):
        asked = {**SETTING, "labels": labels, "seed": seed}
        config, data = prepare(override(*asked.items()), None)
        owned.prepare(["report.html"])
        tell(f"learning the {config.data.name} {said}")
        with interruptible(), reporter(quiet=False, translate=RunFlags.translate) as progress:
            run(config, data, out / "runs", reporter=progress, fresh=fresh)
        found[labels] = Run.at(out / "runs", config)
        repeat.append(command(asked, out / "runs"))
    result = gather(found["given"], found["pseudo"], data)
    owned.write({"report.html": render(result, repeat).encode()})
    _print(result)
    say(f"The report is in {out / 'report.html'}")


def command(asked: dict[str, Any], out: Path) -> str:
    """The ``whorl run`` command that makes the run of these values again."""
    words, flags = ["whorl", "run"], RunFlags.flag_of()
    for key, value in asked.items():
        words += [flags[key], str(value)] if key in flags else ["--set", f"{key}={value}"]
    return shlex.join([*words, "--device", "cpu", "--out", str(out)])


def _print(result: Demo) -> None:
    """Print both runs as one small table."""
    rows: list[tuple[str, ...]] = []
    for given, pseudo in result.steps:
        accs = number(given.acc), number(pseudo.acc), number(pseudo.label_acc)
        rows.append((str(given.task), str(given.classes), *accs))
    given_sum, pseudo_sum = result.given.summary, result.pseudo.summary
    rows.append(("Avg*", "", number(given_sum.avg), number(pseudo_sum.avg), ""))
    rows.append(("Last", "", number(given_sum.last), number(pseudo_sum.last), ""))
    table(("step", "classes", "acc with labels", "acc without labels", "pseudo labels right"), rows)
    say("* over the steps from 2 on")
