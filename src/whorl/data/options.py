"""Options that apply to every data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whorl.errors import WhorlError

Notify = Callable[[str], None]
"""A callback that receives one line for the user, for instance about an image that was skipped."""


@dataclass(frozen=True)
class DataOptions:
    """Choices that change a data set while it is loaded."""

    resize: int | None = None
    """Side of the images that the net sees."""
    per_class: int | None = None
    """Maximum number of training samples per class."""
    classes: int | None = None
    """Number of classes to keep, counted in natural order; for ``synthetic``: number of classes to generate."""
    subset: str = "S1"
    """For ``imagenet100``: ``S1``, ``S2``, WordNet ids separated by spaces, or the path of a list file."""
    strict: bool = False
    """Raise an error at a broken image instead of skipping it."""
    workers: int = 2
    """Number of threads that check and decode images while loading."""

    def __post_init__(self) -> None:
        for name in ("resize", "per_class", "classes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise WhorlError(f"`data.{name}` must be at least 1, not {value}")
        if self.workers < 0:
            raise WhorlError(f"`workers` must be at least 0, not {self.workers}")
