"""The results page says what the stored runs of full size have scored."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from whorl.runs.run import Run

DOCS = Path(__file__).parents[1] / "docs"
ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| (?P<print>[\d.]+ / [\d.]+) \| (?P<fc>[\d.]+ / [\d.]+) \| (?P<difference>[-+\d. /]+)"
    r" \| (?P<nme>[\d.]+ / [\d.]+) \| `(?P<hash>[0-9a-f]{10})` \|$",
    re.MULTILINE,
)
ROWS = list(ROW.finditer((DOCS / "results.md").read_text(encoding="utf-8")))


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(" / ")]


def test_every_stored_run_has_a_row() -> None:
    assert {row["hash"] for row in ROWS} == {path.name[-10:] for path in (DOCS / "full-size").iterdir()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_says_what_was_scored(row: re.Match[str], tmp_path: Path) -> None:
    (path,) = (DOCS / "full-size").glob(f"*-{row['hash']}")
    run = Run.open(shutil.copytree(path, tmp_path / path.name))
    assert run.config.hash == row["hash"]
    steps = run.scores().steps
    assert len(steps) == 10
    own = "acc_plain" if run.config.labels == "given" else "acc_fc"
    for column, score in (("fc", own), ("nme", "acc_nme")):
        found = [step.model_dump()[score] for step in steps]
        assert numbers(row[column]) == pytest.approx([np.mean(found[1:]), found[-1]], abs=5.1e-4)
    gaps = np.subtract(numbers(row["fc"]), numbers(row["print"]))
    assert numbers(row["difference"]) == pytest.approx(gaps, abs=1.1e-3)
