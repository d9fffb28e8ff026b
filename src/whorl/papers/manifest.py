"""The manifest of ``whorl reproduce``: which stored run fills which cell of a paper.

It is ``reproduce-NAME.json`` in the folder of runs. Each command adds its cells to those of earlier commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.papers import Paper
from whorl.papers.cells import Place, Setting
from whorl.papers.jobs import Prepared
from whorl.runs.files import opened, read_bytes, write_json
from whorl.sections import Section
from whorl.tree import Tree, flat


class CellRuns(Section):
    """The runs of one cell."""

    part: str
    """Such as ``table 1`` or ``figure 2``."""
    name: str
    column: str
    base: bool = False
    """Whether these are the runs that a difference subtracts."""
    runs: dict[int, str]
    """The name of the run's folder, by seed."""

    @property
    def place(self) -> tuple[str, str, str, bool]:
        """Identifies the cell."""
        return self.part, self.name, self.column, self.base


class Entry(Section):
    """The cells that were run with one budget."""

    stand_in: str | None
    recipe: str
    budget: dict[str, str]
    """The config values that the commands changed in all runs."""
    differences: dict[str, str]
    """The part of the budget in which at least one run differs from the recipe."""
    cells: tuple[CellRuns, ...]

    @property
    def setting(self) -> Setting:
        """The setting of these runs, as a report names it."""
        return Setting(self.stand_in, self.recipe, tuple(sorted(self.differences.items())))

    def merged(self, later: Entry) -> Entry:
        """These cells and those of a later command with the same budget; for a cell and seed, the later run counts."""
        found = {cell.place: cell for cell in self.cells}
        for cell in later.cells:
            old = found.get(cell.place)
            runs = {**(old.runs if old else {}), **cell.runs}
            found[cell.place] = cell.model_copy(update={"runs": dict(sorted(runs.items()))})
        differences = {**self.differences, **later.differences}
        return self.model_copy(update={"differences": differences, "cells": tuple(found.values())})


class Manifest(Section):
    """Everything that was reproduced of a paper in one folder of runs."""

    format: Literal[1] = 1
    paper: str
    entries: tuple[Entry, ...] = ()

    def merged(self, later: Entry) -> Manifest:
        """The manifest with the cells of another command."""
        found = {(e.stand_in, e.recipe, *sorted(e.budget.items())): e for e in self.entries}
        key = (later.stand_in, later.recipe, *sorted(later.budget.items()))
        found[key] = found[key].merged(later) if key in found else later
        return self.model_copy(update={"entries": tuple(found.values())})


def entries(paper: Paper, stand_in: str | None, recipe: str, budget: Tree, prepared: Prepared) -> Iterator[Entry]:
    """The cells of one command. Cells that set the memory themselves ignore the memory of the budget."""
    for own_memory in (False, True):
        fills = [(need, config) for need, config in prepared.fills if ("memory" in need.asked) == own_memory]
        used = {key: value for key, value in budget.items() if key != "memory" or not own_memory}
        differences, cells = dict[str, str](), list[CellRuns]()
        for need, config in fills:
            setting = Place(paper, need.asked, stand_in).setting(config)
            differences |= setting.differences if setting else ()
            runs = {seed: config.model_copy(update={"seed": seed}).title for seed in prepared.seeds}
            cell, base = need.cell, need.asked is need.cell.base
            cells.append(CellRuns(part=cell.part, name=cell.name, column=cell.column, base=base, runs=runs))
        if cells:
            yield Entry(
                stand_in=stand_in, recipe=recipe, budget=flat(used), differences=differences, cells=tuple(cells)
            )


def path_of(runs: Path, paper: str) -> Path:
    """Where the manifest of a paper is stored."""
    return runs / f"reproduce-{paper}.json"


def read(runs: Path, paper: str) -> Manifest:
    """The manifest in a folder of runs, empty where there is none. Raises where it is damaged."""
    path = path_of(runs, paper)
    if not os.path.lexists(path):
        return Manifest(paper=paper)
    try:
        return Manifest.model_validate(opened(read_bytes(path)))
    except (OSError, ValueError, RecursionError) as error:
        raise WhorlError(
            f"{path} cannot be read ({reason(error)}); its runs are placed by their configs until `whorl reproduce` "
            "writes it again"
        ) from None


def add(runs: Path, paper: str, later: Iterable[Entry]) -> None:
    """Add the cells of a command to the manifest; a damaged manifest is replaced."""
    try:
        manifest = read(runs, paper)
    except WhorlError:
        manifest = Manifest(paper=paper)
    for entry in later:
        manifest = manifest.merged(entry)
    write_json(path_of(runs, paper), manifest.model_dump(mode="json"))
