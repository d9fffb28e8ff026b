"""Writes api.md, the reference of whorl's Python interface, from the docstrings: ``python docs/api.py``."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

PAGE = Path(__file__).with_name("api.md")
MODULES = {
    "whorl": ["Whorl", "Learned", "Found", "Inputs", "ImageSource", "Classifier", "LearnerConfig", "WhorlError"],
    "whorl.photos": ["Zoo", "Settings", "Report", "Mixed", "Answer", "ClusterInfo", "Event"],
    "whorl.testing": ["check_method", "check_clusterer", "check_selector", "check_backbone", "check_extractor"],
}
HEAD = """# Python reference

Made from the docstrings by `make api`; do not edit. [python.md](python.md) is the guide.
"""
_SECTION = re.compile(r"^([A-Z][\w ]+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S[^\n]*)\n((?:[ ]{4}[^\n]*\n?|\n)+)", re.MULTILINE)
_QUOTED = re.compile(r"""((?:: |-> ))(['"])(.*?)\2(?=[,)=]| =|$)""")
_ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for module, names in MODULES.items() for line in _module(module, names))])


def _module(module: str, names: list[str]) -> Iterator[str]:
    home = importlib.import_module(module)
    yield f"## {module}\n"
    for name in names:
        yield from _entry(f"{module}.{name}", getattr(home, name), level=3)


def _entry(name: str, value: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    signature = _signature(value)
    if signature is not None:
        yield f"```python\n{name.rpartition('.')[2]}{signature}\n```\n"
    yield from _doc(value)
    if inspect.isclass(value):
        for member in _members(value):
            yield from _entry(f"{value.__name__}.{member}", inspect.getattr_static(value, member), level + 1)


def _members(kind: type) -> list[str]:
    """Public methods and properties that the class itself defines. Attributes are described in its docstring."""
    kinds = property, classmethod, staticmethod, type(_members)
    own = [name for name, value in vars(kind).items() if not name.startswith("_") and isinstance(value, kinds)]
    if issubclass(kind, BaseModel):
        return [name for name in own if not name.startswith("model_")]
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return [name for name in own if name not in fields and not name.endswith("_")]


def _signature(value: Any) -> str | None:
    if isinstance(value, property) or (inspect.isclass(value) and issubclass(value, Exception | BaseModel)):
        return None
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if getattr(value, "_is_protocol", False):
        return None
    text = _QUOTED.sub(r"\1\3", str(inspect.signature(value)))  # annotations are strings
    text = text.replace("self: W", "self").replace("cls: type[W]", "cls")
    text = re.sub(r"\(self(, )?|\(cls(, )?", "(", text).replace("-> W", "-> Whorl").replace(" -> None", "")
    if len(text) <= 100:
        return text
    inner, _, after = text[1:].rpartition(")")
    parts = re.split(r", (?=\*|\w+[:=,]|\w+$)", inner)
    return "(\n" + "".join(f"    {part},\n" for part in parts) + ")" + after


def _doc(value: Any) -> Iterator[str]:
    text = _ROLE.sub(r"`\1`", inspect.cleandoc(value.__doc__ or "")).replace("``", "`")
    pieces = _SECTION.split(text)
    yield pieces[0].strip() + "\n"
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if title == "Examples":
            yield f"**Examples**\n\n```python\n{body.strip()}\n```\n"
            continue
        yield f"**{title}**\n"
        for head, about in _ENTRY.findall(body + "\n"):
            names, _, kind = head.partition(" : ")
            yield f"- `{names}`" + (f" ({kind})" if kind else "") + f": {' '.join(about.split())}"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
