"""Which stored run fills which cell of a paper, and in which setting.

The manifest of ``whorl reproduce`` names the runs it made. Other runs are placed by their configs: a run fills a cell
if it has the config values of the cell, and its setting is every other value that differs from its recipe.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whorl.papers import Paper
from whorl.papers.cells import Cell, Place, Setting, cells, config_of
from whorl.papers.manifest import Manifest
from whorl.papers.stored import Done, Store
from whorl.tree import Tree

Key = str
"""The hash of the config of a cell; cells with the same key share their runs."""
PAPER = Setting(None, "paper")


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one cell in one setting. They differ only in the seed."""

    name: str
    """The anchor of these runs on the page."""
    setting: Setting
    asked: Tree
    runs: dict[int, Done]
    """By seed."""


@dataclass(frozen=True, eq=False)
class Filled:
    """All finished runs in their cells."""

    paper: Paper
    settings: tuple[Setting, ...]
    """The paper's own setting, even if it has no runs; then the settings with the most filled cells."""
    other: list[tuple[Done, str]]
    """Runs that fill no cell, each with a reason or an empty text."""
    groups: dict[tuple[Setting, Key], Group]
    _keys: _Keys

    def mark(self, setting: Setting) -> str:
        """The letter of a setting; empty for the paper's own."""
        return "" if setting.faithful else letters(self.settings.index(setting) - 1)

    def group(self, asked: Tree, setting: Setting) -> Group | None:
        """The runs of a cell in a setting."""
        if "memory" in asked and ("memory.policy", "total") in setting.differences:
            return None  # the cell is about a quota per class
        return self.groups.get((setting, self._keys.of(asked)))

    def shows(self, found: Iterable[Cell], setting: Setting) -> bool:
        """Whether any of these cells has a run in this setting."""
        return any(self.group(tree, setting) for cell in found for tree in (cell.asked, cell.base) if tree is not None)


def fill(paper: Paper, store: Store, manifest: Manifest | None = None) -> Filled:
    """Put every finished run into the cells it fills."""
    keys, named = _Keys(paper), list(_named(paper, store, manifest)) if manifest else []
    offered = [*named, *_inferred(keys, store, {run for run, _, _ in named})]
    foreign = _other_images(offered)
    runs: dict[tuple[Setting, Key], dict[int, Done]] = defaultdict(dict)
    trees = dict[Key, Tree]()
    for run, setting, asked in offered:
        if (run, setting) not in foreign:
            key = keys.of(asked)
            trees.setdefault(key, asked)
            runs[setting, key].setdefault(run.config.seed, run)
    groups = {
        (setting, key): Group(f"runs-{number}", setting, trees[key], dict(sorted(by_seed.items())))
        for number, ((setting, key), by_seed) in enumerate(runs.items(), 1)
    }
    placed = {run for by_seed in runs.values() for run in by_seed.values()}
    why = {run: "another run with the same seed fills its cell" for run, _, _ in offered}
    why |= {run: "made from other images than most runs of its setting" for run, _ in foreign}
    other = [(run, why.get(run, "")) for run in store.finished if run not in placed]
    sizes = Counter(setting for setting, _ in runs if not setting.faithful)
    order = sorted(sizes, key=lambda s: (s.stand_in or "", -sizes[s], str(s)))
    return Filled(paper, (PAPER, *order), other, groups, keys)


Offer = tuple[Done, Setting, Tree]
"""A run, and the cell it fills in a setting."""


def _named(paper: Paper, store: Store, manifest: Manifest) -> Iterator[Offer]:
    """The runs that the manifest names."""
    by_name = {run.name: run for run in store.finished if run.name == run.config.title}
    for entry in manifest.entries:
        if entry.stand_in is not None and entry.stand_in not in paper.stand_ins:
            continue
        known = {(cell.part, cell.name, cell.column): cell for cell in cells(paper, entry.stand_in)}
        for found in entry.cells:
            cell = known.get(found.place[:3])
            asked = cell and (cell.base if found.base else cell.asked)
            for title in found.runs.values() if asked else ():
                if asked and (run := by_name.get(title)):
                    yield run, entry.setting, asked


def _inferred(keys: _Keys, store: Store, named: set[Done]) -> Iterator[Offer]:
    """The cells that runs fill by their configs; for runs of the manifest, only cells in the paper's own setting."""
    places: dict[tuple[str, ...], dict[Key, tuple[Tree, Place]]] = defaultdict(dict)
    paper = keys.paper
    for stand_in in (None, *paper.stand_ins):
        for cell in cells(paper, stand_in):
            for asked in (cell.asked, cell.base):
                if asked is not None:
                    places[_index(asked)].setdefault(keys.of(asked), (asked, Place(paper, asked, stand_in)))
    for run in store.finished:
        for asked, place in places.get(_index(run.config.tree()), {}).values():
            setting = place.setting(run.config)
            if setting is not None and (setting.faithful or run not in named):
                yield run, setting, asked


def _index(tree: Tree) -> tuple[str, ...]:
    """Values that a run must share with every cell it fills."""
    return tree["method"]["name"], tree["data"]["name"], tree.get("labels", "pseudo"), str(tree["stream"]["step"])


class _Keys:
    """Computes the keys of cells, each once."""

    def __init__(self, paper: Paper) -> None:
        self.paper, self._known = paper, dict[str, Key]()

    def of(self, asked: Tree) -> Key:
        text = repr(asked)
        if text not in self._known:
            self._known[text] = config_of(self.paper, asked, "paper", {}).hash
        return self._known[text]


def _other_images(offered: list[Offer]) -> set[tuple[Done, Setting]]:
    """Runs from other images than most runs of their setting, by ``data.fingerprint``: no mean may mix them."""
    images: dict[tuple[Setting, str], Counter[str]] = defaultdict(Counter)
    for run, setting, _ in offered:
        images[setting, run.config.data.name][run.config.data.fingerprint] += 1
    usual = {key: counter.most_common(1)[0][0] for key, counter in images.items()}
    return {(run, s) for run, s, _ in offered if run.config.data.fingerprint != usual[s, run.config.data.name]}


def letters(number: int) -> str:
    """a to z, then aa, ab, …, counted from 0."""
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)
