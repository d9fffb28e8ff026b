"""The database of a model folder: its tables, and how it is opened (docs/model-folder.md)."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whorl.errors import WhorlError

FILE = "model.sqlite"
FORMAT = 1
MARK = 0x57484F52
"""``WHOR``, the application id by which a database is known to be one of a model folder."""

TABLES = """
CREATE TABLE event (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL, change TEXT NOT NULL
);
CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TABLE file (name TEXT PRIMARY KEY, kind TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE model (event INTEGER PRIMARY KEY REFERENCES event, file TEXT NOT NULL, scale REAL NOT NULL);
CREATE TABLE delivery (
    number INTEGER PRIMARY KEY, event INTEGER NOT NULL REFERENCES event, folder TEXT NOT NULL,
    labelled INTEGER NOT NULL, features TEXT NOT NULL REFERENCES file
);
CREATE TABLE cluster (
    id INTEGER PRIMARY KEY, name TEXT, name_key TEXT UNIQUE, junk INTEGER NOT NULL DEFAULT 0,
    event INTEGER NOT NULL REFERENCES event
);
CREATE TABLE image (
    id INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE, pixels BLOB NOT NULL, path TEXT NOT NULL, kept TEXT,
    bytes INTEGER NOT NULL, taken TEXT, delivery INTEGER NOT NULL REFERENCES delivery, row INTEGER NOT NULL,
    sure REAL, class INTEGER, cluster INTEGER NOT NULL REFERENCES cluster
);
CREATE INDEX image_cluster ON image (cluster, class);
CREATE INDEX image_pixels ON image (pixels);
CREATE INDEX image_class ON image (class, cluster);
"""
_FULL = "free some space, then repeat the command; the model is as it was"


@contextmanager
def trouble(path: Path) -> Iterator[None]:
    """Raise an error of SQLite as one line about the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        why = str(error)
        if code == sqlite3.SQLITE_FULL:
            raise WhorlError(f"cannot write {path}: the disk is full; {_FULL}") from None
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise WhorlError(f"cannot write {path} ({why}); make the folder writable") from None
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise WhorlError(f"{path} is in use by another program; repeat the command when it has ended") from None
        if code == sqlite3.SQLITE_IOERR:
            raise WhorlError(f"cannot read or write {path} ({why}); {_FULL}") from None
        raise damaged(path, why) from None


def damaged(path: Path, why: str) -> WhorlError:
    """The error for a damaged database."""
    return WhorlError(f"{path} is damaged ({why}); put back a copy of the model folder")


def is_model_folder(folder: Path) -> bool:
    """Whether a folder has a database, which may be damaged."""
    return (folder / FILE).is_file()


def is_empty(folder: Path) -> bool:
    """Whether the database has no tables yet, since the command that made it was killed."""
    path = folder / FILE
    with trouble(path):
        connection = sqlite3.connect(path)
        try:
            return not _tables(connection)
        finally:
            connection.close()


def require_model(folder: Path) -> None:
    """Raise a ``WhorlError`` unless this is a model folder."""
    if not is_model_folder(folder):
        why = "is not a model folder" if folder.exists() else "does not exist"
        raise WhorlError(f"{folder} {why}; `whorl learn` makes one from labelled photos")


def may_become_model(folder: Path) -> None:
    """Raise a ``WhorlError`` if a model folder cannot be made here, since something else is there."""
    if folder.is_dir() and not is_model_folder(folder) and set(os.listdir(folder)) - {"files", "lock", "learning"}:
        raise WhorlError(f"{folder} holds other files and is not a model folder; choose a new folder")
    if folder.exists() and not folder.is_dir():
        raise WhorlError(f"{folder} is a file; choose a new folder")


def create(folder: Path) -> None:
    """Make the database of a model folder in one transaction, if there is none."""
    path = folder / FILE
    with trouble(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            if _tables(connection):
                return
            connection.execute("PRAGMA journal_mode=WAL")
            head = f"PRAGMA application_id={MARK}; PRAGMA user_version={FORMAT};"
            connection.executescript(f"BEGIN IMMEDIATE; {head} {TABLES} COMMIT;")
        finally:
            connection.close()


def connect(folder: Path) -> sqlite3.Connection:
    """Open the database of a model folder and check it. Raises a ``WhorlError`` if it cannot be used."""
    require_model(folder)
    path = folder / FILE
    with trouble(path):
        connection = _opened(path)
        try:
            _check(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _opened(path: Path) -> sqlite3.Connection:
    """The connection. Without write access, SQLite needs to be told that nobody else changes the file either."""
    writable = os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)
    log = path.with_name(f"{path.name}-wal")
    whole = not log.exists() or not log.stat().st_size
    where = path.absolute().as_uri() + ("?mode=rw" if writable else "?mode=ro" + "&immutable=1" * whole)
    # Autocommit: transactions are begun and ended explicitly.
    found = sqlite3.connect(where, uri=True, isolation_level=None, timeout=5, check_same_thread=False)
    found.execute("PRAGMA foreign_keys=ON")
    found.execute("PRAGMA synchronous=FULL")
    return found


def _check(path: Path, connection: sqlite3.Connection) -> None:
    mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark == 0 and not _tables(connection):
        raise WhorlError(f"{path.parent} has not learned anything yet; learn labelled photos into it first")
    if mark != MARK:
        raise WhorlError(f"{path} was not made by whorl; choose another folder")
    if version > FORMAT:
        raise WhorlError(f"{path} has format {version}, made by a newer whorl; update this one ({FORMAT})")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, str(verdict).splitlines()[-1])


def _tables(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return found


def unwritable(folder: Path, error: OSError) -> WhorlError:
    """The error for a folder in which a file cannot be written."""
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return WhorlError(f"cannot write to {folder}: {error.strerror}; {_FULL if full else 'make it writable'}")
