"""The database: random edits against a plain reference, replay of the log, transactions, locks, damage."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from albums import deliver, fake_store
from whorl.errors import WhorlError
from whorl.photos import edits, schema
from whorl.photos.catalog import Cluster
from whorl.photos.store import Store, locked, replayed
from whorl.photos.zoo import Zoo

Shown = tuple[dict[int, int], dict[int, tuple[str | None, bool]]]


@dataclass
class Reference:
    """Plain dictionaries and whole copies of them; what was before an edit is looked up, not computed back."""

    where: dict[int, int] = field(default_factory=dict)
    about: dict[int, tuple[str | None, bool]] = field(default_factory=dict)
    before: list[Shown] = field(default_factory=list)
    after: list[Shown] = field(default_factory=list)

    def copy(self) -> Shown:
        return dict(self.where), dict(self.about)

    def edit(self) -> None:
        self.before.append(self.copy())
        self.after.clear()

    def undo(self) -> None:
        self.after.append(self.copy())
        self.where, self.about = self.before.pop()

    def redo(self) -> None:
        self.before.append(self.copy())
        self.where, self.about = self.after.pop()

    def deliver(self, images: dict[int, int]) -> None:
        """Images arrive in the present, and in all states that undoing and redoing lead to."""
        for where, about in [(self.where, self.about), *self.before, *self.after]:
            where.update(images)
            for cluster in images.values():
                about.setdefault(cluster, (None, False))

    def shown(self) -> Shown:
        there = set(self.where.values())
        return self.where, {id: one for id, one in self.about.items() if id in there or one[0]}


def _shown(zoo: Zoo) -> Shown:
    return dict(zoo.catalog.where), {id: (one.name, one.junk) for id, one in zoo.catalog.shown.items()}


def _random_edit(zoo: Zoo, reference: Reference, draws: np.random.Generator, number: int) -> None:
    """One edit, made by the model folder and, in another way, by the reference."""
    catalog = zoo.catalog
    ids = [id for id in catalog.shown if id in catalog.members]
    kind = str(draws.choice(["name", "merge", "split", "select", "move", "junk", "junk images"]))
    one = int(draws.choice(ids))
    inside = list(catalog.members[one])
    some = sorted(draws.choice(inside, size=int(draws.integers(1, len(inside) + 1)), replace=False).tolist())
    others = [id for id in ids if id != one]
    new = max(catalog.clusters) + 1
    reference.edit()
    where, about = reference.where, reference.about
    if kind == "merge" and others:
        chosen = [one, *draws.choice(others, size=min(2, len(others)), replace=False).tolist()]
        zoo.merge(chosen)
        names = [about[id][0] for id in chosen if about[id][0]]
        junk = all(about[id][1] for id in chosen)
        about.update({id: (None, about[id][1]) for id in chosen} | {new: (names[0] if names else None, junk)})
        where.update({image: new for image, id in where.items() if id in chosen})
    elif kind == "select" and len(some) < len(inside):
        zoo.split(one, images=some)
        about[new] = (None, False)
        where.update(dict.fromkeys(some, new))
    elif kind == "move" and others:
        zoo.move(one, some, to=others[0])
        where.update(dict.fromkeys(some, others[0]))
    elif kind == "junk" and not about[one][1]:
        zoo.junk([one])
        about[one] = about[one][0], True
    elif kind == "junk images":
        zoo.junk([one], images=some)
        about[new] = (None, True)
        where.update(dict.fromkeys(some, new))
    else:
        zoo.name(one, f"{number:03} name", yes=True)
        about[one] = f"{number:03} name", about[one][1]


def test_300_random_edits_with_undo_redo_and_deliveries(tmp_path: Path) -> None:
    store, reference, draws = fake_store(tmp_path), Reference(), np.random.default_rng(0)
    deliver(store, {1: 4})
    reference.deliver(dict.fromkeys(range(1, 5), 1))
    zoo, images, steps = Zoo.open(tmp_path, verbose=0), 4, {"edit": 0, "undo": 0, "redo": 0, "learn": 0}
    while steps["edit"] < 300:
        choices = ["edit"] * 6 + ["undo"] * 4 * bool(reference.before) + ["redo"] * 3 * bool(reference.after)
        step = str(draws.choice([*choices, "learn"]))
        if step == "edit":
            _random_edit(zoo, reference, draws, steps["edit"])
        elif step == "learn":
            known = list(reference.where.values())[-1:]
            sizes = {zoo.catalog.free: 4} | dict.fromkeys(known, 2)
            deliver(store, sizes)
            arrived = [cluster for cluster, size in sizes.items() for _ in range(size)]
            reference.deliver({images + n: cluster for n, cluster in enumerate(arrived, 1)})
            images += len(arrived)
        else:
            getattr(zoo, step)()
            getattr(reference, step)()
        steps[step] += 1
        if draws.random() < 0.1:
            zoo = Zoo.open(tmp_path, verbose=0)  # as after a restart
        assert _shown(zoo) == reference.shown()
    assert min(steps.values()) > 30
    assert replayed(zoo.history()) == zoo.catalog
    while reference.before:
        zoo.undo()
        reference.undo()
    assert _shown(zoo) == reference.shown()
    with pytest.raises(WhorlError, match="there is nothing to undo"):
        zoo.undo()
    assert replayed(zoo.history()) == zoo.catalog


def test_an_edit_writes_what_it_changes(tmp_path: Path) -> None:
    store = fake_store(tmp_path)
    deliver(store, {1: 3, 2: 1000})
    raw = sqlite3.connect(tmp_path / schema.FILE)
    changes = []
    for kind in ("name", "junk"):
        catalog = store.catalog()
        change = edits.named(catalog, 2, "seal") if kind == "name" else edits.junked_images(catalog, 1, [1, 2])
        before = store._connection.total_changes
        with store.writing():
            store.append(kind, {}, change)
        changes.append(store._connection.total_changes - before)
    assert changes == [3, 4]  # the event; a cluster cleared and set again, or made, and two images moved
    assert raw.execute("SELECT kind FROM event ORDER BY number").fetchall() == [("learn",), ("name",), ("junk",)]
    raw.close()


def test_the_log_cannot_be_rewritten(tmp_path: Path) -> None:
    store = fake_store(tmp_path)
    deliver(store, {1: 1})
    for command in ("UPDATE event SET kind = 'x'", "DELETE FROM event"):
        with pytest.raises(WhorlError, match="append-only"), store.writing():
            store.rows(command)
    assert [event.kind for event in store.log()] == ["learn"]


def test_a_failed_transaction_leaves_no_trace(tmp_path: Path) -> None:
    store = fake_store(tmp_path)
    deliver(store, {1: 2})
    before = list(store._connection.iterdump())
    change = edits.named(store.catalog(), 1, "cat")

    def interrupted() -> None:
        with store.writing():
            store.append("name", {}, change)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(store._connection.iterdump()) == before


def test_the_second_writer_is_refused_and_readers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(fake_store(tmp_path), {1: 2})
    monkeypatch.setattr("whorl.photos.store.WAIT", 0.05)
    code = (
        "import sys; from pathlib import Path; from whorl.photos.store import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        zoo = Zoo.open(tmp_path, verbose=0)
        with pytest.raises(WhorlError, match="is being changed by another command"):
            zoo.name(1, "cat")
        assert zoo.catalog.shown == {1: Cluster()}
        other.kill()
    zoo.name(1, "cat")
    assert zoo.catalog.shown == {1: Cluster("cat")}


def test_what_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match="none does not exist; `whorl learn` makes one"):
        Store(tmp_path / "none")
    with pytest.raises(WhorlError, match="is not a model folder"):
        Store(tmp_path)
    (tmp_path / schema.FILE).touch()
    with pytest.raises(WhorlError, match="has not learned anything yet"):
        Store(tmp_path)
    raw = sqlite3.connect(tmp_path / schema.FILE)
    raw.execute("CREATE TABLE something (id)")
    raw.close()
    with pytest.raises(WhorlError, match="was not made by whorl"):
        Store(tmp_path)


def test_a_newer_format_and_damage(tmp_path: Path) -> None:
    store = fake_store(tmp_path)
    deliver(store, {1: 500})
    store.close()
    path = tmp_path / schema.FILE
    whole = path.read_bytes()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version=2")
    raw.close()
    with pytest.raises(WhorlError, match=r"has format 2, made by a newer whorl; update this one \(1\)"):
        Store(tmp_path)
    for damage in (b"not a database", whole[: len(whole) // 2], whole[:4096] + bytes(4096) + whole[8192:]):
        path.write_bytes(damage)
        with pytest.raises(WhorlError, match=r"is damaged \(.*\); put back a copy of the model folder"):
            Store(tmp_path)
    path.write_bytes(whole)
    assert len(Store(tmp_path).catalog().where) == 500


def test_a_full_disk_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    store = fake_store(tmp_path)
    deliver(store, {1: 10})
    before = store.catalog()
    (pages,) = store.rows("PRAGMA page_count")[0]
    store.rows(f"PRAGMA max_page_count={pages}")  # SQLite reports it as it reports a full disk
    with pytest.raises(WhorlError, match="the disk is full; free some space"):
        deliver(store, {2: 2000})
    assert store.catalog() == before
    store.rows("PRAGMA max_page_count=1000000")
    deliver(store, {2: 20})
    assert len(store.catalog().where) == 30


def test_a_database_killed_while_it_was_made(tmp_path: Path) -> None:
    raw = sqlite3.connect(tmp_path / schema.FILE, isolation_level=None)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.close()
    schema.create(tmp_path)
    schema.create(tmp_path)
    assert Store(tmp_path).log() == []


@pytest.mark.parametrize("folder", ["other", "file"])
def test_where_no_model_folder_is_made(folder: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    with pytest.raises(WhorlError, match="choose a new folder"):
        schema.may_become_model(tmp_path / folder)


def test_a_lock_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WhorlError, match="cannot write to"), locked(tmp_path / "file"):
        raise AssertionError
