"""``whorl methods``: all methods, including those of other packages, and their options."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from whorl.cli import complete
from whorl.cli.lines import say, say_json
from whorl.errors import WhorlError


def methods(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=complete.values("method.name"), help="Show the options of this method."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the methods, or the options of one with their defaults for CIFAR under the recipe ``paper``."""
    if name is not None:
        from whorl.known import require

        require("method.name", name)
    from whorl.methods import method_class, method_names

    if name is not None:
        found = _options(method_class(name))
        if as_json:
            say_json(found)
            return
        say(f"{name}: {_first_line(method_class(name))}")
        for option in found["options"]:
            say(f"  --set method.{option['name']}={option['default']}   {option['about']}".rstrip())
        return
    rows: list[dict[str, Any]] = []
    for each in method_names():
        try:
            rows.append(_options(method_class(each)))
        except WhorlError as error:
            rows.append({"name": each, "about": str(error), "classifier": None, "exemplars": None, "options": []})
    if as_json:
        say_json(rows)
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        say(f"{row['name']:{width}}  {row['about']}")


def _options(method: Any) -> dict[str, Any]:
    from whorl.recipes import resolve

    asked = {"data": {"name": "cifar100"}, "recipe": "paper", "method": {"name": method.name}}
    defaults = resolve(asked).method.options
    options = [
        {"name": key, "default": _plain(defaults[key]), "about": " ".join((field.description or "").split())}
        for key, field in method.model_fields.items()
    ]
    return {
        "name": method.name,
        "about": _first_line(method),
        "classifier": method.classifier,
        "exemplars": method.needs_memory,
        "options": options,
    }


def _first_line(method: Any) -> str:
    return (method.__doc__ or "").strip().partition("\n")[0]


def _plain(value: object) -> object:
    """The value as ``--set`` accepts it."""
    return str(value).lower() if isinstance(value, bool) else value
