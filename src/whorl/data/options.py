"""What may be asked of any data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whorl.errors import WhorlError

Notify = Callable[[str], None]
"""Is told in a line what the user should know, such as an image that was left out."""


@dataclass(frozen=True)
class DataOptions:
    """The choices that shape a data set before any run sees it."""

    resize: int | None = None
    """Side of the images the net sees."""
    per_class: int | None = None
    """At most so many training images a class."""
    classes: int | None = None
    """Only the first so many classes, in natural order; for ``synthetic``: how many to make."""
    subset: str = "S1"
    """For ``imagenet100``: ``S1``, ``S2`` or a file that lists the classes."""
    strict: bool = False
    """Stop at a broken image instead of leaving it out."""
    workers: int = 2
    """Threads that check and decode while loading."""

    def __post_init__(self) -> None:
        for name in ("resize", "per_class", "classes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise WhorlError(f"{name} must be at least 1, not {value}")
        if self.workers < 0:
            raise WhorlError(f"workers must not be negative, not {self.workers}")
