"""Sorting photos into folders by the answers of a model. No file is ever overwritten."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whorl.data.decode import file_hash
from whorl.errors import WhorlError, printable
from whorl.photos.answers import JUNK, UNKNOWN, Answer

How = Literal["copy", "link", "move"]
_FORBIDDEN = re.compile(r'[\\/:*?"<>|\x00-\x1f]')


@dataclass(frozen=True)
class Sorted:
    """Where a photo went; ``new`` is False if the same photo was there already."""

    file: str
    target: str
    new: bool


def folder_of(answer: Answer) -> str:
    """The name of the folder for an answer: its characters that file systems refuse become underscores."""
    if answer.cluster is None or answer.answer == JUNK:
        return UNKNOWN if answer.cluster is None else JUNK
    name = _FORBIDDEN.sub("_", answer.answer).strip(" .")
    return name or f"cluster {answer.cluster}"


def folders(answers: Sequence[Answer]) -> dict[str, str]:
    """The folder for each answer text. Two that would share one, also where case does not count, get their ids."""
    by_text = {one.answer: one for one in answers}
    wanted = {text: folder_of(one) for text, one in by_text.items()}
    seen = [folder.casefold() for folder in wanted.values()]
    return {
        text: folder if seen.count(folder.casefold()) == 1 else f"{folder} ({by_text[text].cluster})"
        for text, folder in wanted.items()
    }


def sort(answers: Sequence[Answer], to: Path, how: How) -> Iterator[Sorted]:
    """Copy, link or move each photo into the folder of its answer within ``to``."""
    folder = folders(answers)
    for one in answers:
        source = Path(one.file)
        try:
            (to / folder[one.answer]).mkdir(parents=True, exist_ok=True)
            yield _placed(source, to / folder[one.answer], how)
        except OSError as error:
            where = error.filename2 or error.filename or to
            raise WhorlError(f"cannot {how} {printable(str(source))}: {where}: {error.strerror}") from None


def _placed(source: Path, folder: Path, how: How) -> Sorted:
    for target in _names(folder, source.name):
        if os.path.lexists(target):
            if target.is_file() and (os.path.samefile(source, target) or _same(source, target)):
                return Sorted(str(source), str(target), False)
            continue
        try:
            _put(source, target, how)
        except FileExistsError:  # made by somebody else since
            continue
        return Sorted(str(source), str(target), True)
    raise AssertionError("there is always another name")


def _names(folder: Path, name: str) -> Iterator[Path]:
    """The name, then the same with (2), (3), …"""
    yield folder / name
    stem, dot, end = name.rpartition(".")
    stem, end = (stem, dot + end) if stem else (name, "")
    number = 2
    while True:
        yield folder / f"{stem} ({number}){end}"
        number += 1


def _put(source: Path, target: Path, how: How) -> None:
    """Make ``target``, which must not exist; raises ``FileExistsError`` if it does."""
    if how == "link":
        target.symlink_to(source.absolute())
        return
    # An empty file takes the name, so that nobody else gets it; then the whole photo replaces it in one step.
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    temporary = target.with_name(f".whorl-{target.name}")
    try:
        shutil.copy2(source, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        target.unlink()
        raise
    if how == "move":
        source.unlink()


def _same(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and file_hash(one) == file_hash(other)
