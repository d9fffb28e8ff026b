"""Explains a wrong config value in one line: which key, which values are allowed, and which key was probably meant."""

from __future__ import annotations

import re
from datetime import date, time

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from whorl.errors import WhorlError, nearest, unknown

_SYNONYMS = {
    "lr": "optim.lr", "learning_rate": "optim.lr", "learningrate": "optim.lr", "rate": "optim.lr",
    "wd": "optim.weight_decay", "l2_penalty": "optim.weight_decay", "optimizer": "optim.name",
    "optimiser": "optim.name", "scheduler": "optim.schedule", "lr_schedule": "optim.schedule",
    "batch_size": "train.batch", "batchsize": "train.batch", "bs": "train.batch", "num_epochs": "train.epochs",
    "n_epochs": "train.epochs", "max_epochs": "train.epochs", "augmentation": "train.augment",
    "random_state": "seed", "random_seed": "seed", "manual_seed": "seed", "model": "net.arch", "backbone": "net.arch",
    "network": "net.arch", "architecture": "net.arch", "dataset": "data.name", "image_size": "data.resize",
    "img_size": "data.resize", "num_classes": "data.classes", "n_classes": "data.classes", "algorithm": "method.name",
    "clusterer": "cluster.name", "clustering": "cluster.name", "n_init": "cluster.restarts",
    "max_iter": "cluster.iterations", "tol": "cluster.tolerance", "exemplars": "memory.quota",
    "memory_size": "memory.quota", "buffer_size": "memory.quota", "num_tasks": "stream.tasks",
    "n_tasks": "stream.tasks", "class_order": "stream.order", "dtype": "precision",
}  # fmt: skip
"""Names that other programs use, and the config key that means the same."""


def keys_of(section: type[BaseModel], above: str = "") -> list[str]:
    """All dotted keys of a section and of the sections in it."""
    found: list[str] = []
    for name, field in section.model_fields.items():
        inner = field.annotation
        within = isinstance(inner, type) and issubclass(inner, BaseModel)
        found += keys_of(inner, f"{above}{name}.") if within else [f"{above}{name}"]  # type: ignore[arg-type]
    return found


def _unknown_key(path: list[str], within: str, section: type[BaseModel]) -> WhorlError:
    """The error for an unknown key: names the key that a synonym stands for, that has moved, or that is spelt alike."""
    keys, name = keys_of(section), ".".join(path)
    meant = _SYNONYMS.get(path[-1].lower().replace("-", "_"))
    moved = [key for key in keys if key.rpartition(".")[2] == path[-1]]
    for part in path[:-1]:
        section = section.model_fields[part].annotation  # type: ignore[assignment]
    above = "".join(f"{part}." for part in path[:-1])
    near = nearest(path[-1], list(section.model_fields))
    found = meant if meant in keys else moved[0] if len(moved) == 1 else f"{above}{near}" if near else None
    start = f"{within}." if within else ""
    known = [f"{start}{above}{key}" for key in section.model_fields]
    return unknown("config key", start + name, known, found and start + found)


_LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
}
_MUST = {
    **_LIMITS,
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""Requirements by pydantic's type of error."""


def explain(found: ErrorDetails, section: type[BaseModel], within: str) -> str:
    """One line about an error that pydantic found in a value of ``section``, whose own key is ``within``."""
    kind, context = found["type"], found.get("ctx", {})
    # After the keys, pydantic lists the types it tried, such as "str" for an order.
    path = [str(part) for part in found["loc"] if part not in ("str", "tuple[int, ...]")]
    name = ".".join([within, *path] if within else path)
    if kind == "extra_forbidden":
        return str(_unknown_key(path, within, section))
    if kind == "literal_error":
        known = re.split(r", | or ", context["expected"].replace("'", ""))
        return str(unknown(f"{name} value", shown(found["input"]).strip("'"), known))
    if kind == "missing":
        return f"`{name}` is missing"
    if kind == "value_error":
        return f"config {name}: {context['error']}"
    if kind in ("model_type", "dict_type") and "." not in name:
        keys = [key for key in keys_of(section) if key.startswith(f"{name}.")]
        return f"{name} is a section of the config; set one of its keys, for instance {' or '.join(keys[:2])}"
    default = found["msg"][0].lower() + found["msg"][1:]
    whole = {key for key, limit in context.items() if kind in _LIMITS and limit == int(limit) and limit < 1e15}
    limits = {key: int(limit) if key in whole else limit for key, limit in context.items() if kind in _LIMITS}
    must = _MUST[kind].format(**limits) if kind in _MUST else default
    return f"`{name}` {must}, not {shown(found['input'])}"


def shown(value: object) -> str:
    """A value as it would be written in TOML, shortened if it is long."""
    try:
        text = _toml(value)
    except (ValueError, RecursionError):  # integers of thousands of digits cannot be written in decimal
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(each)}' for key, each in value.items())}}}"
    return value.isoformat() if isinstance(value, (date, time)) else repr(value)


def reason(error: Exception) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False)[0]
        where = ".".join(map(str, found["loc"])).encode("unicode_escape").decode()[:80]
        return f"{where}: {found['msg']}" if where else found["msg"]
    return str(error)
