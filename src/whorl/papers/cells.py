"""The cells of a paper: which config fills a cell, and in which setting a stored run fills it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import shorten

from whorl.config import ExperimentConfig
from whorl.errors import WhorlError
from whorl.known import DEFAULT_LABELER, KNOWN
from whorl.papers import Curve, Figure, Metric, Paper, Row, Table
from whorl.tree import Tree, flat, merge

# The config keys that decide which cell a run fills. All other keys are its setting.
_ESSENTIAL = (
    "method.name", "labels", "data.name", "stream.step", "stream.first", "cluster.name", "cluster.l2",
    "pseudo.features", "pseudo.refresh", "pseudo.ids", "memory.quota", "memory.select",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A cell of a table or figure. A difference also needs the run of its ``base``, which is subtracted."""

    part: str
    """Such as ``table 1`` or ``figure 2``."""
    name: str
    """The row, or the curve and its position on the axis."""
    column: str
    asked: Tree
    """The config values that the cell needs."""
    base: Tree | None = None


@dataclass(frozen=True)
class Setting:
    """How runs differ from the paper: a stand-in for its data, the recipe, and other config values."""

    stand_in: str | None
    recipe: str
    differences: tuple[tuple[str, str], ...] = ()

    @property
    def faithful(self) -> bool:
        """Whether this is the setting of the paper."""
        return self == Setting(None, "paper")

    @property
    def words(self) -> tuple[str, ...]:
        """The differences in words."""
        phrases = {
            "data.resize": "images of {0}×{0}", "data.per_class": "{} images per class", "stream.tasks": "{} tasks",
            "data.classes": "{} classes", "train.first_epochs": "{} epochs in task 1",
            "train.epochs": "{} epochs per later task", "stream.order": "class order {}", "net.arch": "net {}",
        }  # fmt: skip
        data = () if self.stand_in is None else (f"data {self.stand_in}",)
        recipe = () if self.recipe == "paper" else (f"recipe {self.recipe}",)
        short = ((key, shorten(value, 40, placeholder=" …")) for key, value in self.differences)
        found = (phrases.get(key, f"{key} {{}}").format(value) for key, value in short)
        return (*data, *recipe, *(re.sub(r"^1 (epoch|task|image)s", r"1 \1", phrase) for phrase in found))

    def __str__(self) -> str:
        return ", ".join(self.words) or "as in the paper"


def table_cell(paper: Paper, table: Table, row: Row, column: str, stand_in: str | None = None) -> Cell:
    """A cell of a table; Avg and Last are one cell."""
    place, base = paper.place(column, stand_in), paper.base(table, row)
    minus = merge(base.set, place) if base else None
    return Cell(f"table {table.number}", row.name, column, merge(row.set, place), minus)


def figure_cells(
    paper: Paper, figure: Figure, curve: Curve, column: str, stand_in: str | None = None
) -> dict[int | None, Cell]:
    """The cells of a curve: one, or one for each value on the figure's axis."""
    part, place = f"figure {figure.number}", paper.place(column, stand_in)
    if figure.over is None:
        return {None: Cell(part, curve.name, column, merge(curve.set, place))}
    return {
        value: Cell(part, f"{curve.name}, {value}", column, merge(curve.set, figure.over.at(value), place))
        for value in figure.over.values
    }


def printed_anywhere(table: Table, row: Row, column: str) -> bool:
    """Whether the paper prints a number in this cell."""
    index = table.columns.index(column)
    metrics: tuple[Metric, ...] = table.metrics
    return any(row.printed(metric)[index] != "/" for metric in metrics)


def cells(paper: Paper, stand_in: str | None = None) -> Iterator[Cell]:
    """Every cell of the paper, in its order."""
    for table in paper.tables:
        for row in table.rows:
            for column in table.columns:
                if printed_anywhere(table, row, column):
                    yield table_cell(paper, table, row, column, stand_in)
    for figure in paper.figures:
        for curve in figure.curves:
            for column in figure.panels:
                yield from figure_cells(paper, figure, curve, column, stand_in).values()


def check_budget(budget: Tree) -> None:
    """Raise if a budget sets a key that decides which cell a run fills."""
    asked = flat(budget)
    total = asked.get("memory.policy") == "total"  # a quota for all classes together belongs to the setting
    for key in asked:
        if key in ("seed", "recipe", *_ESSENTIAL) and not (total and key == "memory.quota"):
            raise WhorlError(
                f"`{key}` decides which cell a run fills, so it cannot be changed for all; choose cells with the "
                "filters, or use `whorl run`"
            )


def config_of(paper: Paper, asked: Tree, recipe: str, budget: Tree, seed: int = 0) -> ExperimentConfig:
    """The config that fills a cell; ``budget`` holds the values that are changed in all cells.

    A labeler is for cells with pseudo labels only.
    """
    from whorl.methods import method_class  # imports torch, which choosing cells does not need
    from whorl.recipes import resolve

    tree = merge(budget, asked, {"recipe": recipe, "seed": seed})
    if tree.get("labels") == "given":
        tree.pop("labeler", None)
    if method_class(tree["method"]["name"]).online:  # it sees each image once, so the epochs do not apply
        tree["train"] = {key: value for key, value in tree.get("train", {}).items() if key != "epochs"}
    every = tree.get("pseudo", {}).get("refresh", 0)
    config = resolve(tree)
    scaled = config.pseudo.model_copy(update={"refresh": paper.refresh(every, config.train.epochs)})
    return config.model_copy(update={"pseudo": scaled})


class Place:
    """Decides whether a run fills a cell, by its config."""

    def __init__(self, paper: Paper, asked: Tree, stand_in: str | None) -> None:
        self._paper, self._asked, self._stand_in = paper, asked, stand_in
        self._expected: dict[tuple[str, str], dict[str, str]] = {}

    def setting(self, run: ExperimentConfig) -> Setting | None:
        """The setting in which a run fills the cell; None if it does not fill it.

        The setting names a labeler other than the paper's, and the values that differ from those of recipe and
        labeler. It never holds ``train.epochs`` of an online method, which has no epochs to set.
        """
        if (run.method.name, run.data.name) != (self._asked["method"]["name"], self._asked["data"]["name"]):
            return None
        if run.recipe not in KNOWN["recipe"].names or run.labeler not in KNOWN["labeler"].names:
            return None
        total = run.memory.policy == "total"
        if total and "memory" in self._asked:
            return None  # the cell is about a quota per class
        every = self._paper.refresh(self._asked.get("pseudo", {}).get("refresh", 0), run.train.epochs)
        want, have = {**self._at(run.recipe, run.labeler), "pseudo.refresh": str(every)}, flat(run.tree())
        free = {"memory.quota"} if total else set[str]()
        if any(want.get(key) != have.get(key) for key in set(_ESSENTIAL) - free):
            return None
        keys = ({*want, *have} - {"seed", "recipe", "data.fingerprint", *_ESSENTIAL}) | free
        differing = {key: have.get(key, "none") for key in keys if want.get(key) != have.get(key)}
        if run.labeler != DEFAULT_LABELER:
            differing["labeler"] = run.labeler
        return Setting(self._stand_in, run.recipe, tuple(sorted(differing.items())))

    def _at(self, recipe: str, labeler: str) -> dict[str, str]:
        """The values of the cell with this recipe and labeler, by dotted key."""
        if (recipe, labeler) not in self._expected:
            config = config_of(self._paper, self._asked, recipe, {"labeler": labeler})
            self._expected[recipe, labeler] = flat(config.tree())
        return self._expected[recipe, labeler]
