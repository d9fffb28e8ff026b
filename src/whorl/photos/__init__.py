"""The model folder: a model that grows with every delivery of photos, what its clusters are called, and every edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whorl.photos.answers import Answer
    from whorl.photos.asked import Settings
    from whorl.photos.outcome import Mixed, Report
    from whorl.photos.store import Event
    from whorl.photos.zoo import ClusterInfo, Zoo

__all__ = ["Answer", "ClusterInfo", "Event", "Mixed", "Report", "Settings", "Zoo"]

_HOMES = {
    "Answer": "whorl.photos.answers",
    "ClusterInfo": "whorl.photos.zoo",
    "Event": "whorl.photos.store",
    "Mixed": "whorl.photos.outcome",
    "Report": "whorl.photos.outcome",
    "Settings": "whorl.photos.asked",
    "Zoo": "whorl.photos.zoo",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that edits do not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'whorl.photos' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
