"""Rooms are ordered: a room imports only from rooms below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "whorl"

ORDER = [
    "errors", "types", "registry", "seeds", "explain", "tree", "sections", "config", "known", "schedule",
    "metrics", "scores", "reporter", "progress",
    "data", "runtime", "provenance", "cluster", "nets", "memory", "labels", "methods", "recipes", "check",
    "classifier", "state", "regroup", "evaluate", "fit", "speed", "refine", "training", "networks",
    {"engine", "runs"},
    {"estimator", "experiment", "tasks"},
    "testing", "grid", "papers", "report", "photos", "cli",
]  # fmt: skip
"""From the lowest room to the highest. Rooms in a set do not import each other."""
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in ([rooms] if isinstance(rooms, str) else rooms)}

ONLY = {("estimator", "runs"): {"whorl.runs.checkpoint", "whorl.runs.features", "whorl.runs.model"}}
"""The modules that a room may import from another one, where that is not the whole room."""


def imported(file: Path) -> Iterator[str]:
    """The modules of whorl that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            if node.module == "whorl":
                yield from (f"whorl.{alias.name}" for alias in node.names if alias.name in LEVELS)
            elif node.module:
                inner = (SOURCE / Path(*node.module.split(".")[1:])).is_dir()
                yield from (f"{node.module}.{alias.name}" if inner else node.module for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def rooms_of(file: Path) -> dict[str, set[str]]:
    """The modules of whorl that a file imports from other rooms, by room."""
    found: dict[str, set[str]] = {}
    for module in imported(file):
        parts = module.split(".")
        if parts[0] == "whorl" and parts[1] != room_of(file):
            found.setdefault(parts[1], set()).add(module)
    return found


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if not room_of(file).startswith("__")]


def test_every_room_has_a_place() -> None:
    there = {room_of(file) for file in FILES}
    assert there == set(LEVELS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_rooms_import_from_rooms_below_them(file: Path) -> None:
    rooms = rooms_of(file)
    assert not {room for room in rooms if LEVELS[room] >= LEVELS[room_of(file)]}
    for room, modules in rooms.items():
        assert modules <= ONLY.get((room_of(file), room), modules)


def test_the_order_is_needed() -> None:
    """Every room but the highest is imported by one above it, so none is dead."""
    used = {room for file in [*FILES, SOURCE / "__init__.py", SOURCE / "__main__.py"] for room in rooms_of(file)}
    assert {room_of(file) for file in FILES} - used <= {"testing"}


def test_the_picture_of_the_rooms_is_true() -> None:
    """Its boxes name every room; each room imports only from rows below, or from boxes to its left."""
    svg = (SOURCE.parents[1] / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*monospace">([\w, ]+)</text>', svg)
    boxes = sorted(found, key=lambda box: (-float(box[1]), float(box[0])))
    place = {room: number for number, (_, _, names) in enumerate(boxes) for room in names.split(", ")}
    assert set(place) == set(LEVELS)
    for file in FILES:
        for room in rooms_of(file):
            assert place[room] <= place[room_of(file)], f"{file.relative_to(SOURCE)} imports {room}"
