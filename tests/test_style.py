"""Rules of style that ruff and mypy do not check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "whorl"
FILES = sorted(SOURCE.rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*FILES, *sorted((SOURCE / "report" / "templates").rglob("*.*")), *sorted(SOURCE.rglob("*.toml"))]

Function = ast.FunctionDef | ast.AsyncFunctionDef
LINES, PARAMETERS = 60, 8
AVOIDED = re.compile(r"\banew\b|\bforetell|\bforetold\b|\blies in\b", re.IGNORECASE)
CODE = re.compile(r"\bA\d{1,2}\b")
LINKED = re.compile(r"docs/protocol\.md,?\s+A\d{1,2}(?:(?:,| and| to)\s+A\d{1,2})*")
"""A reference that a reader can follow: ``docs/protocol.md, A22``, also with several codes."""
SEEDS = {"nets/model.py": '"head anew"'}
"""Words in the purposes of seeds, by file. Other words would draw other numbers."""


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def public(node: ast.AST, above: str = "") -> Iterator[tuple[str, ast.Module | ast.ClassDef | Function]]:
    """Modules, classes, functions and methods whose names do not begin with an underscore."""
    if isinstance(node, ast.Module):
        yield "the module", node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, Function)) and not child.name.startswith("_"):
            decorators = {ast.unparse(one).split(".")[-1] for one in child.decorator_list}
            if decorators & {"overload", "setter"}:  # described by the implementation and by the property
                continue
            yield f"{above}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{child.name}.")


def written(file: Path) -> Iterator[tuple[str, str]]:
    """All docstrings of a file, also those below attributes and constants."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, Function)) and (text := ast.get_docstring(node)) is not None:
            yield getattr(node, "name", "the module"), text
        for before, after in pairwise(body) if isinstance(body, list) else ():
            if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
                value = after.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield ast.unparse(before).split("\n")[0][:40], value.value


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_functions_are_short_and_have_few_parameters(file: Path) -> None:
    for one in functions(file):
        lines = (one.end_lineno or one.lineno) - one.lineno + 1
        assert lines <= LINES, f"{one.name} has {lines} lines"
        arguments = one.args
        given = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len([name for name in given if name not in ("self", "cls")])
        count += bool(arguments.vararg) + bool(arguments.kwarg)
        assert count <= PARAMETERS, f"{one.name} has {count} parameters"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_public_names_have_docstrings(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert [name for name, node in public(tree) if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_docstrings_say_something(file: Path) -> None:
    """More than one word that is not the name again."""
    empty = []
    for name, text in written(file):
        words = re.findall(r"[^\W_]+", text.lower())
        told = set(words) - {"the", "a", "an", "of", "this", "as", "nothing"}
        if len(words) < 2 or not told - set(re.findall(r"[^\W_]+", name.lower().replace("_", " "))):
            empty.append((name, text))
    assert empty == []


@pytest.mark.parametrize("file", [*TEXTS, *PAGES], ids=name_of)
def test_words_to_avoid(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if SOURCE in file.parents:
        text = text.replace(SEEDS.get(str(file.relative_to(SOURCE)), "\0"), "")
    assert AVOIDED.findall(text) == []


@pytest.mark.parametrize("file", TEXTS, ids=name_of)
def test_codes_name_the_page_that_explains_them(file: Path) -> None:
    text = re.sub(r"\s*\n\s*#?\s*", " ", file.read_text(encoding="utf-8"))
    assert CODE.findall(LINKED.sub("", text)) == []


@pytest.mark.parametrize("file", [file for file in FILES if "cli" not in file.parts], ids=name_of)
def test_errors_of_the_library_name_no_flags(file: Path) -> None:
    """The command line replaces a config key in backquotes by its flag."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    raised = [inner for node in ast.walk(tree) if isinstance(node, ast.Raise) for inner in ast.walk(node)]
    texts = [node.value for node in raised if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [text for text in texts if re.search(r"(?<![\w-])--[a-z]", text)] == []
