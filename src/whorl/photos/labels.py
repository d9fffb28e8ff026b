"""Labels of photos: from the folders they are in, or from a table of two columns."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whorl.data.adapt import FOLDERS
from whorl.data.files import scan, scan_all
from whorl.data.options import Notify
from whorl.data.parts import few
from whorl.errors import WhorlError, count, printable
from whorl.photos.names import cleaned, key

FILES = ("file", "path", "image", "photo", "filename", "name")
LABELS = ("label", "class", "species", "category")
"""The words that the first line of a table of labels may have."""


@dataclass(frozen=True)
class Listed:
    """The photos of a folder, relative to it, and the label of each if they have any."""

    names: tuple[str, ...]
    labels: tuple[str, ...] | None


def listed(folder: Path, labels: str | None, notify: Notify) -> Listed:
    """The photos of a folder with labels from ``labels``: the word "folders", or a table; None for no labels."""
    if not folder.is_dir():
        why = "is not a folder" if folder.exists() else "does not exist"
        raise WhorlError(f"{printable(str(folder))} {why}; pass a folder of photos")
    if labels == FOLDERS:
        found = scan(folder, "", notify)
        classes = _distinct(found.classes)
        return Listed(tuple(found.names), tuple(classes[label] for label in found.labels))
    names = tuple(scan_all(folder, notify).names)
    if labels is None:
        return Listed(names, None)
    table = read_labels(Path(labels))
    given = _matched(table, Path(labels), folder, names)
    _agree(given, labels)
    chosen = [name for name in names if name in given]
    if len(chosen) < len(names):
        rest = [name for name in names if name not in given]
        notify(f"{count(len(rest), 'photo')} without a label in {labels}, left out: {few(rest)}")
    return Listed(tuple(chosen), tuple(given[name] for name in chosen))


def read_labels(path: Path) -> dict[str, str]:
    """The labels in a table, by file. A first line that names the columns is recognised."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise WhorlError(f"cannot read {path}: {error.strerror}; `labels` is a table, or the word folders") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise WhorlError(f"cannot read {path}: it is not a table in UTF-8 ({error})") from None
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    file_column = next((head.index(word) for word in FILES if word in head), 0)
    label_column = next((head.index(word) for word in LABELS if word in head), 1)
    named = any(word in head for word in LABELS)
    found: dict[str, str] = {}
    for number, row in enumerate(rows[1:] if named else rows, 1):
        if len(row) <= max(file_column, label_column) or not row[file_column].strip():
            raise WhorlError(f"{path} has no file and label in row {number}; write FILE,LABEL in each")
        name, label = row[file_column].strip(), cleaned(row[label_column])
        if key(found.setdefault(name, label)) != key(label):
            raise WhorlError(f"{path} gives {name} two labels, {found[name]!r} and {label!r}; leave one of them")
    if not found:
        raise WhorlError(f"{path} holds no labels; write FILE,LABEL in each line")
    return found


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of folders as names of clusters. Raises if two of them differ only in case or space."""
    found: dict[str, str] = {}
    for name in names:
        other = found.setdefault(key(name), name)
        if other != name:
            raise WhorlError(f"the folders {other!r} and {name!r} have the same name; put their photos in one")
    return [cleaned(name) for name in names]


def _matched(table: Mapping[str, str], path: Path, folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The labels by the name of the photo in the folder. Files may be given relative to the folder or to the table."""
    by_path = {os.path.normpath(folder.absolute() / name): name for name in names}
    given: dict[str, str] = {}
    missing = list[str]()
    for file, label in table.items():
        places = (os.path.normpath(base.absolute() / file) for base in (folder, path.parent))
        name = next((by_path[place] for place in places if place in by_path), None)
        if name is None:
            missing.append(file)
        elif key(given.setdefault(name, label)) != key(label):
            raise WhorlError(f"{path} gives {name} two labels, {given[name]!r} and {label!r}; leave one of them")
    if missing:
        raise WhorlError(f"{path} names {count(len(missing), 'file')} that {folder} does not have: {few(missing)}")
    spelt: dict[str, str] = {}
    return {name: spelt.setdefault(key(label), label) for name, label in given.items()}


def _agree(given: Mapping[str, str], labels: str) -> None:
    """Raise if a photo is in a folder that has the name of another label than its own."""
    known = {key(label) for label in given.values()}
    for name, label in given.items():
        folder = os.path.dirname(name).rpartition("/")[2]
        if key(folder) in known and key(folder) != key(label):
            raise WhorlError(f"{labels} says {label!r} for {name}, and its folder says {folder!r}; correct one of them")
