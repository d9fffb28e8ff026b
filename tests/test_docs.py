"""The pages: the Python reference is up to date, and the examples of the guides run."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from whorl import testing
from whorl.data import DataOptions, load
from whorl.recipes import resolve

ROOT = Path(__file__).parents[1]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_python_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("api", ROOT / "docs" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    assert api.PAGE.read_text(encoding="utf-8") == api.page(), "run make api"


DOCUMENTED = {"whorl.estimator": 18, "whorl.data.inputs": 4, "whorl.tasks": 5, "whorl.testing.methods": 4}
"""Modules with examples in their docstrings, and how many lines of them there are."""


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)) == (0, DOCUMENTED[module])


def test_no_other_docstring_has_an_untested_example() -> None:
    files = {path for path in (ROOT / "src").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")}
    names = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files}
    assert names - {"whorl.testing.__init__"} == set(DOCUMENTED)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_python_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = PYTHON.findall((ROOT / page).read_text(encoding="utf-8"))
    assert examples
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)  # one after another, as a reader would type them


@pytest.fixture
def shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of CONTRIBUTING, installed as its pyproject.toml says."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    site = tmp_path / "site"
    for example in PYTHON.findall(text):
        if example.startswith("# shells/"):
            path = site / example.splitlines()[0].removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(example, encoding="utf-8")
    (toml,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines: list[str] = []
    for group, points in tomllib.loads(toml)["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    about = site / "shells-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shells\nVersion: 1\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(site)
    yield site
    for name in [name for name in sys.modules if name.split(".")[0] == "shells"]:
        del sys.modules[name]


def test_the_components_of_contributing_pass_their_batteries(shells: Path, tmp_path: Path) -> None:
    assert sorted(path.stem for path in shells.glob("shells/*.py")) == [
        "birds", "minibatch", "patches", "replay", "whitened",
    ]  # fmt: skip
    testing.check_method("replay", tmp_path / "method")
    testing.check_clusterer("minibatch", tmp_path / "clusterer")
    testing.check_backbone("patches", tmp_path / "backbone")
    testing.check_extractor("whitened", tmp_path / "extractor")


def test_the_data_set_of_contributing_loads(shells: Path, tmp_path: Path) -> None:
    from PIL import Image

    for kind, colour in (("robin", "red"), ("jay", "blue")):
        for part, n in (("train", 3), ("test", 1)):
            folder = tmp_path / "photos" / part / kind
            folder.mkdir(parents=True)
            for i in range(n):
                Image.new("RGB", (300, 240), colour).save(folder / f"{i}.png")
    found = load("birds", tmp_path / "photos", DataOptions())
    assert (len(found.train), len(found.test), found.class_names) == (6, 2, ("jay", "robin"))
    config = resolve({"data": {"name": "birds"}})
    assert (config.net.arch, config.stream.step) == ("resnet18", 20)
