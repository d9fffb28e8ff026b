"""Trees of plain values, as TOML and JSON hold them, with dotted keys such as ``optim.lr``."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whorl.errors import WhorlError
from whorl.explain import shown

Tree = dict[str, Any]
DEEPEST = 8
"""The most parts that a dotted key has; configs have two, options of other packages' methods may have more."""


def read_toml(path: Path) -> Tree:
    """The values of a TOML file, not validated. A byte order mark at its beginning is ignored."""
    try:
        return merge(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise WhorlError(f"cannot read the config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WhorlError(f"cannot read the config file {path}: it is not UTF-8 text") from None
    except RecursionError:
        raise WhorlError(f"the config file {path} is nested too deeply") from None
    except ValueError as error:  # also an integer with more digits than Python reads
        raise WhorlError(f"{path} is not valid TOML: {error}") from None


def parse_override(text: str) -> Tree:
    """``optim.lr=0.05`` as ``{"optim": {"lr": 0.05}}``. The value is parsed as TOML; bare words are strings."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts) or len(parts) > DEEPEST:
        raise WhorlError(f"{shown(text)} must have the form section.key=value, for instance optim.lr=0.05")
    try:
        found = tomllib.loads(f"value = {value.strip()}")
        if len(found) > 1:
            raise WhorlError(f"{shown(text)} sets several keys; pass them one by one")
        parsed = found["value"]
    except RecursionError:
        raise WhorlError(f"the value of {key} is nested too deeply") from None
    except ValueError:
        parsed = value.strip()
    return override((".".join(parts), parsed))


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Merge trees; later values win. The result shares no branch with its parts."""
    out: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            old = out.get(key)
            branch = isinstance(value, Mapping)
            out[key] = merge(old if isinstance(old, dict) else {}, value) if branch else value
    return out


def override(*pairs: tuple[str, Any]) -> Tree:
    """A tree from dotted keys, without those whose value is None."""
    out: Tree = {}
    for key, value in pairs:
        if value is not None:
            for part in reversed(key.split(".")):
                value = {part: value}
            out = merge(out, value)
    return out


def flat(tree: Tree) -> dict[str, str]:
    """The values of a tree by dotted key, as text."""
    return {key: str(value) for key, value in leaves(tree).items()}


def digest(tree: Tree) -> str:
    """Ten hexadecimal digits that identify a tree of values."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:10]


def leaves(tree: Mapping[str, Any], above: str = "") -> Tree:
    """The values of a tree by their dotted keys."""
    out: Tree = {}
    for key, value in tree.items():
        out |= leaves(value, f"{above}{key}.") if isinstance(value, Mapping) else {above + key: value}
    return out
