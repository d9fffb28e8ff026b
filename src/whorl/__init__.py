"""whorl keeps learning new image classes from data nobody has labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whorl.classifier import Classifier
    from whorl.config import LearnerConfig
    from whorl.data.inputs import Inputs
    from whorl.errors import WhorlError
    from whorl.estimator import Whorl
    from whorl.nets.pretrained import pretrained
    from whorl.runs.model import Learned
    from whorl.tasks import Tasks, load_tasks
    from whorl.types import Found, ImageSource

__version__ = "0.1.0"
__all__ = [
    "Classifier", "Found", "ImageSource", "Inputs", "Learned", "LearnerConfig", "Tasks", "Whorl", "WhorlError",
    "__version__", "load_tasks", "pretrained",
]  # fmt: skip

_HOMES = {
    "Classifier": "whorl.classifier",
    "Found": "whorl.types",
    "ImageSource": "whorl.types",
    "Inputs": "whorl.data.inputs",
    "Learned": "whorl.runs.model",
    "LearnerConfig": "whorl.config",
    "Tasks": "whorl.tasks",
    "Whorl": "whorl.estimator",
    "WhorlError": "whorl.errors",
    "load_tasks": "whorl.tasks",
    "pretrained": "whorl.nets.pretrained",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``whorl --help`` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'whorl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
