"""``whorl methods``, third parties' methods, and configs that do not suit a method."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from test_cli import SMALL

from conftest import Call
from terminal import whorl
from whorl.methods import METHODS

REPLAY = '''
"""Rehearsal."""
from whorl.methods.base import Method
from whorl.methods.losses import cross_entropy


class Replay(Method):
    """Cross-entropy on the new images and the exemplars."""

    name = "replay"
    weight: float = 1.0
    """Of the loss."""

    def plan(self, step):
        data = step.new + step.exemplars
        return [step.phase("train", data, lambda b: self.weight * cross_entropy(b.logits, b.labels))]
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package as pip leaves it: a module, and metadata with an entry point. One more is broken."""
    site = tmp_path / "site"
    about = site / "stranger-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "stranger.py").write_text(REPLAY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    points = {"replay": "Replay", "broken": "Missing", "loss": "cross_entropy", "wrong": "Replay", "abstract": "Method"}
    lines = [f"{name} = stranger:{thing}\n" for name, thing in points.items()]
    (about / "entry_points.txt").write_text("".join(["[whorl.methods]\n", *lines]))
    monkeypatch.syspath_prepend(str(site))


def test_every_method_is_listed(call: Call) -> None:
    lines = call("methods")[0].splitlines()
    assert [line.split()[0] for line in lines] == sorted(METHODS)
    assert "lucir     LUCIR: cross-entropy on scaled cosines" in "\n".join(lines)


def test_options_come_with_their_defaults(call: Call) -> None:
    lines = call("methods", "wa")[0].splitlines()
    assert (
        "  --set method.norm=2   The norm of a row: 2 as in most implementations, 1 as in the authors' code." in lines
    )
    assert "  --set method.clip=true   Clip negative weights of the head to zero after each update." in lines
    document = json.loads(call("methods", "icarl", "--json")[0])
    assert (document["classifier"], document["exemplars"]) == ("nme", True)
    assert {o["name"]: o["default"] for o in document["options"]} == {"loss": "bce", "width": 100, "temperature": 2.0}


@pytest.mark.usefixtures("package")
def test_a_stranger_s_method_shows_up_and_runs(call: Call) -> None:
    listed = {line.split()[0]: line for line in call("methods")[0].splitlines()}
    assert listed["replay"].endswith("Cross-entropy on the new images and the exemplars.")
    assert "cannot be loaded" in listed["broken"]
    assert "is not a subclass of whorl.methods.base.Method" in listed["loss"]
    for name in ("wrong", "abstract"):
        assert f"the plug-in for method {name!r} must have that name and define `plan`" in listed[name]
        _, refused = call(*SMALL, "--method", name, code=2)
        assert refused.startswith(f"whorl: the plug-in for method {name!r}")
    assert "--set method.weight=1.0   Of the loss." in call("methods", "replay")[0]
    out, _ = call(*SMALL, "--method", "replay", "--set", "method.weight=0.5", "--json")
    document = json.loads(out)
    assert document["config"]["method"] == {"name": "replay", "weight": 0.5}
    assert [step["task"] for step in document["steps"]] == [1, 2, 3]
    _, wrong = call(*SMALL, "--method", "replai", code=2)
    assert wrong == "whorl: unknown method 'replai'; did you mean 'replay'?\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--method", "icarl", "--quota", "0"], "icarl needs exemplars; set --quota to 1 or more"),
        (["--method", "ours", "--quota", "0"], "ours needs exemplars; set --quota to 1 or more"),
        (["--method", "lucir", "--set", "net.head=linear"], "lucir works with net.head cosine, not linear"),
        (["--method", "bic", "--quota", "9"], "bic holds out one in 10 exemplars of a class, and --quota 9 is too few"),
        (["--method", "bic", "--memory", "total", "--quota", "59"], "raise it to 60 or hold out more"),
        (["--method", "bic", "--reading", "recluster"], "set --reading to aligned or reuse"),
        (["--method", "bic", "--per-class", "9"], "has fewer; use more images or lower --set method.every=…"),
        (["--method", "ilio"], "ilio uses each new image once, so --epochs does not apply"),
        (["--set", "method=ours"], "method is a section of the config; set one of its keys"),
        (["--method", "ilio", "--epochs", "1"], "ilio uses each new image once, so --epochs does not apply"),
        (["--method", "wa", "--set", "net.final_relu=false"], "pass --set net.final_relu=true, or --set"),
        (["--method", "wa", "--set", "method.norm=3"], "unknown method.norm value '3'; known: 1, 2"),
        (["--method", "ours", "--set", "net.head=means"], "ours works with net.head linear or linear-nobias or cosine"),
        (["--method", "lwf", "--set", "method.variant=eq4"], "unknown method.variant value 'eq4'; did you mean 'eq3'?"),
    ],
)  # fmt: skip
def test_what_does_not_suit_a_method_is_one_line(words: list[str], line: str, call: Call, tmp_path: Path) -> None:
    _, stderr = call(*SMALL, *words, code=2)
    assert line in stderr
    assert stderr.count("\n") == 1
    assert not list(tmp_path.glob("runs/*/scores.json"))


def test_a_rate_that_diverges_is_named(call: Call) -> None:
    """ILIO's online phase has a rate of its own."""
    words = [*SMALL[: SMALL.index("--epochs")], "--method", "ilio", "--set", "train.first_epochs=1"]
    assert "--set method.lr=2.5e+29" in call(*words, "--set", "method.lr=1e30", code=2)[1]


def test_clusters_too_small_to_hold_out_are_warned_of(tmp_path: Path) -> None:
    """Task 1 can hold one of ten images out, the clusters of five images later cannot."""
    folder = tmp_path / "photos"
    draws = np.random.default_rng(0)
    for name, count in (("a", 10), ("b", 10), ("c", 5), ("d", 5)):
        for split in ("train", "test"):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = draws.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    words = ["run", "--data", "folder", "--data-dir", str(folder), "--resize", "8", "--net", "tiny", "--step", "2"]
    done = whorl(*words, "--method", "bic", "--labels", "given", "--epochs", "1", "--json", cwd=tmp_path)
    assert "whorl: bic: no images of old and new classes were held out for delivery 2\n" in done.stderr
    assert [step["method"] for step in json.loads(done.stdout)["steps"]] == [{}, {}]


def test_what_a_method_reports_is_in_the_table_and_in_json(call: Call) -> None:
    steps = json.loads(call(*SMALL, "--method", "wa", "--json")[0])["steps"]
    assert [list(step["method"]) for step in steps] == [[], ["gamma"], ["gamma"]]
    header, *rows = call(*SMALL, "--method", "wa")[0].splitlines()[2:6]
    place = header.split().index("gamma")
    assert [row.split()[place] for row in rows] == ["–", *(f"{step['method']['gamma']:.3f}" for step in steps[1:])]
