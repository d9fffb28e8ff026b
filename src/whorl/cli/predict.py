"""``whorl predict``: the cluster of each photo, how sure the model is, and the runner-up."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli.flags import RunFlags
from whorl.cli.lines import say, say_json, table
from whorl.cli.zoo import AsJson, Threshold, With, opened
from whorl.errors import WhorlError, count

if TYPE_CHECKING:
    from whorl.photos.answers import Answer

COLUMNS = ("file", "answer", "cluster", "confidence", "runner_up", "runner_up_confidence")


def predict(
    photos: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.")],
    folder: With,
    threshold: Threshold = None,
    as_json: AsJson = False,
    to: Annotated[Path | None, typer.Option("--csv", help="Write a table of all answers to this file.")] = None,
) -> None:
    """Name the cluster of each photo, or say that it is unknown."""
    if as_json and to:
        raise WhorlError("choose one of --json and --csv")
    with opened(folder) as zoo:
        answers = zoo.predict(photos, threshold, RunFlags.notify)
    if as_json:
        say_json([asdict(one) for one in answers])
    elif to:
        _write(to, answers)
        say(f"{count(len(answers), 'answer')} in {to}")
    else:
        rows = [
            (one.file, one.answer, _percent(one.confidence), one.runner_up, _percent(one.runner_up_confidence))
            for one in answers
        ]
        head = ("photo", "answer", "sure", "runner-up", "sure of it")
        table(head, rows, left=("photo", "answer", "runner-up"), drop=("sure of it", "runner-up"))


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _write(path: Path, answers: Sequence[Answer]) -> None:
    from whorl.runs.files import write_text

    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    rows.writeheader()
    rows.writerows(asdict(one) for one in answers)
    write_text(path, text.getvalue())
