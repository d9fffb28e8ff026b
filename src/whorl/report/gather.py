"""Which stored run fills which cell of a paper, and in which setting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from whorl.config import Tree
from whorl.methods import method_class
from whorl.papers import Paper
from whorl.papers.cells import Cell, Place, Setting, cells, config_of
from whorl.report.done import Done, Store
from whorl.report.text import letters

Key = tuple[str, bool]
"""What a cell asks for; cells that ask for the same share their runs."""


@dataclass(frozen=True, eq=False)
class Group:
    """The runs that fill a cell in a setting; they differ in the seed only."""

    name: str
    """As links in the page call it."""
    setting: Setting
    asked: Tree
    runs: dict[int, Done]
    """By seed."""


@dataclass(frozen=True, eq=False)
class Filled:
    """All runs in their places."""

    paper: Paper
    settings: tuple[Setting, ...]
    """The paper's own first, even where nothing ran in it; then those in which most was run."""
    other: list[tuple[Done, str]]
    """Runs that fill no cell, and why where there is more to say."""
    _groups: dict[tuple[Setting, Key], Group]
    _own: set[tuple[Setting, Key]]
    _keys: dict[str, Key] = field(default_factory=dict)

    @property
    def groups(self) -> Iterable[Group]:
        """Every cell's runs."""
        return self._groups.values()

    def mark(self, setting: Setting) -> str:
        """The setting's letter; the paper's own has none."""
        return "" if setting.faithful else letters(self.settings.index(setting) - 1)

    def group(self, asked: Tree, setting: Setting) -> Group | None:
        """The runs that fill a cell in a setting."""
        return self._groups.get((setting, self._key(asked)))

    def shows(self, found: Iterable[Cell], setting: Setting) -> bool:
        """Whether a table or figure has something of this setting, and not only what it shares with others."""
        return any(
            (setting, self._key(asked)) in self._own
            for cell in found
            for asked in (cell.asked, cell.base)
            if asked is not None
        )

    def _key(self, asked: Tree) -> Key:
        text = repr(asked)
        if text not in self._keys:
            self._keys[text] = _key(self.paper, asked)
        return self._keys[text]


def fill(paper: Paper, store: Store) -> Filled:
    """Put every finished run into the cells it fills."""
    places = _places(paper)
    own: list[tuple[Done, Key, Setting]] = []
    for run in store.finished:
        for key, _, place in places.get(_index(run.config.tree()), ()):
            setting = place.setting(run.config)
            if setting is not None:
                own.append((run, key, setting))
    used = _ordered(own)
    settings = (Setting(None, "paper"), *(setting for setting in used if not setting.faithful))
    offered = [
        (run, key, setting)
        for run, key, exact in own
        for setting in used
        if setting == exact or _has(run, exact, setting)
    ]
    strangers = _strangers(offered)
    runs: dict[tuple[Setting, Key], dict[int, Done]] = defaultdict(dict)
    for run, key, setting in offered:
        if (run, setting) not in strangers:
            runs[setting, key].setdefault(run.config.seed, run)
    asked = {key: tree for found in places.values() for key, tree, _ in found}
    groups = {
        (setting, key): Group(f"runs-{number}", setting, asked[key], dict(sorted(by_seed.items())))
        for number, ((setting, key), by_seed) in enumerate(runs.items(), 1)
    }
    placed = {run for by_seed in runs.values() for run in by_seed.values()}
    why = {run: "fills a cell that another run with its seed fills already" for run, _, _ in offered}
    why |= {run: "was made from other images than most runs of its setting" for run, _ in strangers}
    other = [(run, why.get(run, "")) for run in store.finished if run not in placed]
    return Filled(paper, settings, other, groups, {(setting, key) for _, key, setting in own} & runs.keys())


def _places(paper: Paper) -> dict[tuple[str, ...], list[tuple[Key, Tree, Place]]]:
    """Every place a run can fill, by what is quick to tell of a run."""
    found: dict[tuple[str, ...], dict[Key, tuple[Tree, Place]]] = defaultdict(dict)
    for stand_in in (None, *paper.stand_ins):
        for cell in cells(paper, stand_in):
            for asked in (cell.asked, cell.base):
                if asked is not None:
                    found[_index(asked)].setdefault(_key(paper, asked), (asked, Place(paper, asked, stand_in)))
    return {index: [(key, *place) for key, place in places.items()] for index, places in found.items()}


def _index(tree: Tree) -> tuple[str, ...]:
    labels = tree.get("labels", "pseudo")
    return tree["method"]["name"], tree["data"]["name"], labels, str(tree["stream"]["step"])


def _key(paper: Paper, asked: Tree) -> Key:
    # A cell that says how large the memory is takes no run with a memory for all classes together.
    return config_of(paper, asked, "paper", {}).hash, "memory" in asked


def _has(run: Done, exact: Setting, setting: Setting) -> bool:
    """Whether a run has the values of a ``setting`` that differs more from the paper than the run needs to say.

    With ``train.epochs=12`` for all methods, one whose recipe has 12 anyway does not differ in it, and one that sees
    each image once has no epochs to set. A run that ended by itself within a limit of tasks needs no limit. All of
    them belong beside the others.
    """
    if (exact.stand_in, exact.recipe) != (setting.stand_in, setting.recipe):
        return False
    if not set(exact.differences) < set(setting.differences):
        return False
    online, limit = method_class(run.config.method.name).online, run.config.stream.tasks
    rest = set(setting.differences) - set(exact.differences)
    return all(
        run.values.get(key, "none") == value
        or (online and key == "train.epochs")
        or (limit is None and key == "stream.tasks" and len(run.steps) <= int(value))
        for key, value in rest
    )


def _strangers(offered: list[tuple[Done, Key, Setting]]) -> set[tuple[Done, Setting]]:
    """Runs from other images than most runs of their setting: no mean holds both.

    Folders and lists of classes are told by ``data.fingerprint`` only.
    """
    images: dict[tuple[Setting, str], Counter[str]] = defaultdict(Counter)
    for run, _, setting in offered:
        images[setting, run.config.data.name][run.config.data.fingerprint] += 1
    return {
        (run, setting)
        for run, _, setting in offered
        if run.config.data.fingerprint != images[setting, run.config.data.name].most_common(1)[0][0]
    }


def _ordered(own: list[tuple[Done, Key, Setting]]) -> list[Setting]:
    """The paper's own data first, then those in which most cells are filled.

    A setting is not told apart where all of its runs belong to another one as well.
    """
    found: dict[Setting, set[Key]] = defaultdict(set)
    runs: dict[Setting, list[Done]] = defaultdict(list)
    for run, key, setting in own:
        found[setting].add(key)
        runs[setting].append(run)
    contained = {
        small
        for small in found
        if not small.faithful
        for large in found
        if len(found[large]) >= len(found[small]) and all(_has(run, small, large) for run in runs[small])
    }
    told = [setting for setting in found if setting not in contained]
    return sorted(told, key=lambda s: (not s.faithful, s.stand_in or "", -len(found[s]), str(s)))
