"""The model folder on disk: one database, immutable files beside it, and a lock for those who write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from whorl.errors import WhorlError
from whorl.photos import edits
from whorl.photos.catalog import Catalog, Change, Cluster
from whorl.photos.names import key
from whorl.photos.schema import FILE, connect, damaged, trouble, unwritable

WAIT = 1.0
"""Seconds that a writer waits for another one, since an edit takes far less than that."""


@dataclass(frozen=True)
class Event:
    """A line of the log."""

    number: int
    time: str
    kind: str
    about: dict[str, Any]
    change: Change


class Store:
    """The database of a model folder. Reads see whole transactions; writes need :meth:`writing`."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.path: Path = folder / FILE
        self._connection = connect(folder)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with trouble(self.path):
            return self._connection.execute(query, tuple(values)).fetchall()

    def many(self, command: str, rows: Iterable[Iterable[Any]]) -> None:
        """A command for each row of values."""
        self._connection.executemany(command, (tuple(row) for row in rows))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see the same state of the database."""
        with trouble(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it or nothing. An exception takes it back."""
        with trouble(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def catalog(self) -> Catalog:
        """Where every image is, and what the clusters are called."""
        where = dict(self.rows("SELECT id, cluster FROM image"))
        found = self.rows("SELECT id, name, junk FROM cluster")
        return Catalog(where, {id: Cluster(name, bool(junk)) for id, name, junk in found})

    def log(self) -> list[Event]:
        """All events, the first one first."""
        found = self.rows("SELECT number, time, kind, about, change FROM event ORDER BY number")
        return [self._event(row) for row in found]

    def event(self, number: int) -> Event:
        """One event."""
        found = self.rows("SELECT number, time, kind, about, change FROM event WHERE number = ?", [number])
        return self._event(found[0])

    def undoable(self) -> edits.Undoable:
        """The events that can be undone and redone."""
        return edits.undoable(self.rows("SELECT number, kind FROM event ORDER BY number"))

    def origin(self, number: int) -> int:
        """The edit that an event undoes or redoes, or the event itself."""
        while (event := self.event(number)).kind in (edits.UNDO, edits.REDO):
            number = event.about["event"]
        return number

    def append(self, kind: str, about: Mapping[str, Any], change: Change) -> int:
        """Within :meth:`writing`: apply a change to clusters and known images, and put it at the end of the log."""
        (number,) = self.rows("SELECT coalesce(max(number), 0) + 1 FROM event")[0]
        texts = (json.dumps(each, separators=(",", ":")) for each in (dict(about), change.document()))
        self.many("INSERT INTO event VALUES (?, ?, ?, ?, ?)", [(number, now(), kind, *texts)])
        # Names first go, then come: a name may pass from one cluster to another.
        self.many(
            "UPDATE cluster SET name = NULL, name_key = NULL WHERE id = ?", [[c.cluster] for c in change.clusters]
        )
        self.many(
            "INSERT INTO cluster VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "name = excluded.name, name_key = excluded.name_key, junk = excluded.junk",
            [(one.cluster, *_columns(one.after), number) for one in change.clusters],
        )
        for move in change.moves:
            if move.before is not None:
                self.many("UPDATE image SET cluster = ? WHERE id = ?", ((move.after, image) for image in move.images))
        return int(number)

    def _event(self, row: tuple[Any, ...]) -> Event:
        number, time, kind, about, change = row
        try:
            return Event(number, time, kind, json.loads(about), Change.of(json.loads(change)))
        except (ValueError, TypeError, LookupError) as error:
            raise damaged(self.path, f"event {number}: {error}") from None


def _columns(cluster: Cluster) -> tuple[str | None, str | None, bool]:
    """A cluster as the table holds it."""
    return cluster.name, None if cluster.name is None else key(cluster.name), cluster.junk


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only one that writes to a model folder. Raises a ``WhorlError`` if somebody else does."""
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=WAIT)
    except Timeout:
        raise WhorlError(f"{folder} is being changed by another command; repeat this one when it has ended") from None
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        yield
    finally:
        lock.release()


def now() -> str:
    """The time for the log, in UTC to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sync_folder(folder: Path) -> None:
    """Let the names of new files in a folder reach the disk. Windows has no such call."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replayed(events: Iterable[Event]) -> Catalog:
    """The catalog that a log leads to from nothing."""
    catalog = Catalog()
    for event in events:
        catalog = catalog.changed(event.change)
    return catalog
