"""No room imports from a room above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "whorl"

ORDER = [
    {"errors"},
    {"types", "registry", "seeds", "runtime"},
    {"config"},
    {"data", "nets", "cluster", "metrics", "memory", "labels", "schedule"},
    {"scores"},
    {"reporter"},
    {"methods"},
    {"recipes", "fit"},
    {"engine", "speed"},
    {"evaluate"},
    {"runs"},
    {"experiment"},
    {"grid"},
    {"papers"},
    {"report"},
    {"cli"},
]
"""From the lowest room to the highest. Rooms on the same level may import each other."""
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

EXPECTED: set[tuple[str, str]] = set()
"""Imports that are against the order and still to be removed: the file's path in the package, and the room."""


def imported(file: Path) -> Iterator[str]:
    """The rooms that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "whorl":
            yield from (alias.name for alias in node.names if alias.name in LEVELS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("whorl."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("whorl."))


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if not room_of(file).startswith("__")]


def test_every_room_has_a_level() -> None:
    assert {room_of(file) for file in FILES} == set(LEVELS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_room_imports_from_a_room_above_it(file: Path) -> None:
    name = str(file.relative_to(SOURCE))
    above = {room for room in imported(file) if LEVELS[room] > LEVELS[room_of(file)]}
    assert above == {room for path, room in EXPECTED if path == name}
