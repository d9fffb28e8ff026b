"""Files of a model folder: written once, named by their content, and removed when the database no longer names them."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from whorl.data.decode import file_hash
from whorl.errors import WhorlError
from whorl.photos.record import Stored
from whorl.photos.schema import unwritable
from whorl.photos.store import Store, sync_folder

FILES, KEPT, LEARNING = "files", "photos", "learning"
"""The folders within a model folder: tensors, copies of photos, and the position of a delivery in progress."""


class Missing(WhorlError):
    """A file that the database names is not there."""


def add(folder: Path, kind: str, write: Callable[[Path], Path]) -> Stored:
    """Write a file of tensors and name it by its content. ``write`` gets an empty folder and returns the file."""
    work = folder / FILES / f".new-{secrets.token_hex(4)}"
    try:
        work.mkdir(parents=True)
        made = write(work)
        name = f"{kind}-{_hash(made)}.safetensors"
        os.replace(made, folder / FILES / name)
        sync_folder(folder / FILES)
        return Stored(name, kind, (folder / FILES / name).stat().st_size)
    except OSError as error:
        raise unwritable(folder, error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def checked(folder: Path, name: str) -> Path:
    """The path of a named file. Raises a ``WhorlError`` if it is not there or damaged."""
    path = folder / FILES / name
    try:
        whole = _hash(path) == path.stem.partition("-")[2]
    except FileNotFoundError:
        raise Missing(f"{path} is missing; put back a copy of the file") from None
    except OSError as error:
        raise WhorlError(f"cannot read {path}: {error.strerror}; make it readable") from None
    if not whole:
        raise WhorlError(f"{path} is damaged (its content is not what its name says); put back a copy of the file")
    return path


def keep_photo(folder: Path, photo: Path, content: bytes) -> str:
    """Copy a photo into the model folder, unless it is there; returns the name of the copy."""
    name = content.hex() + photo.suffix.lower()
    target = folder / KEPT / name
    temporary = target.with_name(f".new-{name}")
    try:
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or file_hash(target) != content:
            shutil.copyfile(photo, temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
    except OSError as error:
        raise unwritable(folder, error) from None
    return name


def sweep(folder: Path, store: Store | None) -> None:
    """Remove the files that the database does not name: what is left of older models and of interrupted commands."""
    named = {name for (name,) in store.rows("SELECT name FROM file")} if store else set()
    kept = {name for (name,) in store.rows("SELECT kept FROM image WHERE kept IS NOT NULL")} if store else set()
    for inside, there in ((FILES, named), (KEPT, kept)):
        for path in (folder / inside).glob("*") if (folder / inside).is_dir() else ():
            if path.name not in there:
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
