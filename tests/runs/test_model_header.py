"""The header of a stored model: every key missing, of a wrong type, out of range or unknown."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whorl import Whorl
from whorl.errors import WhorlError
from whorl.runs import files

Key = tuple[str | int, ...]
MISSING = object()
MUTATIONS: dict[str, object] = {
    "missing": MISSING, "null": None, "true": True, "negative": -1, "huge": 10**30, "overflow": 1e308, "unknown": "x",
    "empty list": [], "empty object": {}, "nested": [[1]],
}  # fmt: skip
VECTORS = np.repeat(np.eye(3, dtype=np.float32), 8, axis=0)
NAMES = np.repeat(["ant", "bee", "cat"], 8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned two deliveries, the second one without labels."""
    options = {"train.first_epochs": 1, "train.epochs": 1, "memory.quota": 4}
    made = Whorl("icarl", options=options, verbose=0).learn(VECTORS, NAMES).learn(VECTORS[:8] * 3, new=1)
    return made.save(tmp_path_factory.mktemp("model"))


def keys(value: object, above: Key = ()) -> Iterator[Key]:
    """The path of every value below a value; of a list, of its first two items."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value[:2]))
    for key, inner in items:
        yield (*above, key)
        yield from keys(inner, (*above, key))


def changed(about: dict[str, Any], key: Key, value: object) -> dict[str, Any]:
    out = copy.deepcopy(about)
    place: Any = out
    for part in key[:-1]:
        place = place[part]
    if value is MISSING:
        del place[key[-1]]
    else:
        place[key[-1]] = value
    return out


def harmless(key: Key, how: str) -> bool:
    """Whether the header is still valid: a key with a default is missing, or the value is another one in range."""
    last = key[-1]
    if key[:2] == ("estimator", "options") and how in ("missing", "null", "empty object"):
        return how == "null" or (how == "missing") == (len(key) == 3)  # no options, or one fewer
    if key[:3] == ("config", "train", "sizes"):  # no sizes, or one fewer, of which the last is still 1
        return how in ("missing", "empty list") if len(key) == 3 else how == "missing" and key[3] != 2
    if how == "missing":
        optional = {
            "files", "view", "mirrors", "jitter", "seed", "precision", "loss", "width", "temperature", "augment",
            "momentum", "nesterov", "weight_decay", "schedule", "milestones", "gamma", "decay_by_task",
            "restarts", "iterations", "tolerance", "l2", "features", "refresh", "ids", "policy", "select", "reading",
            "mirror", "cluster", "pseudo", "labeler", "rotations", "contrast", "transform", "refine", "trust",
            "networks", "whiten", "tune", "fingerprint",
        }  # fmt: skip
        named = [("config", "cluster", "name"), ("config", "optim", "name"), ("config", "pseudo", "arch")]
        return last in optional or key in named
    valid: dict[str, set[str | int]] = {
        "null": {"inputs"} if key[0] == "estimator" else set(),
        "true": {"labelled", "mirrors", "jitter", "final_relu", "nesterov", "decay_by_task", "l2", "mirror"},
        "overflow": {"temperature", "gamma", "tolerance"},
        "unknown": {"fingerprint"},
        "empty list": {"milestones", "files"},
        "empty object": {"cluster", "pseudo"},
    }
    if key[0] == "inputs" and len(key) == 3:  # the vectors have another mean, or a huge scale
        return (key[1], how) in (("mean", "negative"), ("std", "huge"))
    return last in valid.get(how, set())


@pytest.mark.parametrize("how", MUTATIONS)
def test_a_wrong_header_is_one_line_about_the_file(how: str, model: Path, tmp_path: Path) -> None:
    tensors, about = files.read_tensors(model)
    path = tmp_path / "model.safetensors"
    for key in keys(about):
        document = changed(about, key, MUTATIONS[how])
        if json.dumps(document, sort_keys=True) == json.dumps(about, sort_keys=True):
            continue
        files.write_tensors(path, tensors, document)
        if harmless(key, how):
            assert Whorl.load(path, verbose=0).predict(VECTORS).shape == (24,), key
            continue
        message = f"{key} was accepted"
        try:
            Whorl.load(path, verbose=0)
        except WhorlError as error:
            message = str(error)
        assert message.startswith((f"{path} ", f"cannot read {path}")), key
        assert message.isprintable()
        assert len(message) < 600


DISAGREEING: dict[str, tuple[Key, object]] = {
    "two classes of one name": (("names", 1), "ant"),
    "text and numbers as names": (("names", 3), 7),
    "another name than in the deliveries": (("deliveries", 0, "classes", 0), "dog"),
    "an initial delivery without labels": (("deliveries", 0, "labelled"), False),
    "a label beyond the classes": (("labels", 0), 4),
    "too few labels": (("labels", 0), MISSING),
    "more samples than labels": (("deliveries", 1, "samples"), 9),
    "no samples": (("deliveries", 0, "samples"), 0),
    "too few files": (("files",), ["a.png"]),
    "other sizes": (("sizes",), [2, 2]),
    "another method": (("estimator", "method"), "wa"),
    "another recipe": (("estimator", "recipe"), "paper"),
    "another network": (("estimator", "net"), "mlp"),
    "another seed": (("estimator", "random_state"), 1),
    "another option": (("estimator", "options", "memory.quota"), 5),
    "an unknown key of the inputs": (("inputs", "zoom"), 1),
    "an unknown key of a delivery": (("deliveries", 0, "zoom"), 1),
    "an unknown key of the estimator": (("estimator", "zoom"), 1),
    "three channels for vectors": (("inputs", "std"), [1.0, 1.0, 1.0]),
    "format 0": (("format",), 0),
}


@pytest.mark.parametrize("case", DISAGREEING)
def test_values_that_disagree_are_refused(case: str, model: Path, tmp_path: Path) -> None:
    tensors, about = files.read_tensors(model)
    path = tmp_path / "model.safetensors"
    files.write_tensors(path, tensors, changed(about, *DISAGREEING[case]))
    with pytest.raises(WhorlError, match="is damaged") as refused:
        Whorl.load(path, verbose=0)
    assert str(path) in str(refused.value)


def test_the_untouched_header_is_accepted(model: Path, tmp_path: Path) -> None:
    tensors, about = files.read_tensors(model)
    files.write_tensors(tmp_path / "model.safetensors", tensors, about)
    found = Whorl.load(tmp_path, verbose=0)
    assert found.classes_.tolist() == ["ant", "bee", "cat", "cluster 1"]
    assert [each.samples for each in found.deliveries_] == [24, 8]
