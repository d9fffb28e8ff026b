"""The pages: the Python reference is up to date, and the examples of the guides run."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_python_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("api", ROOT / "docs" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    assert api.PAGE.read_text(encoding="utf-8") == api.page(), "run make api"


DOCUMENTED = {"whorl.estimator": 18, "whorl.data.inputs": 4, "whorl.testing.methods": 4}
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
