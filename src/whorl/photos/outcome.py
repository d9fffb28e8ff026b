"""What learning a delivery has done, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whorl.types import Found


@dataclass(frozen=True)
class Mixed:
    """What was found in a delivery whose photos may be of known classes, of new ones, or junk."""

    known: int
    """How many photos went to classes that were known before."""
    new: int
    """How many photos are of new classes."""
    clusters: int
    """The number of new classes."""
    low: int
    high: int
    """The range of the estimate of this number."""
    reasons: tuple[str, ...]
    """How the number was chosen."""
    merges: tuple[tuple[int, int, float], ...]
    """Pairs of clusters that may be one, and their likeness, the most alike first."""


def mixed_of(found: Found, places: Mapping[int, int]) -> Mixed:
    """What the learner has found, with the cluster of each of its classes in ``places``."""
    pairs = ((places[int(a)], places[int(b)], round(share, 3)) for a, b, share in found.merges)
    return Mixed(
        known=found.known_samples,
        new=found.new_samples,
        clusters=found.new,
        low=found.low,
        high=found.high,
        reasons=found.reasons,
        merges=tuple((a, b, share) for a, b, share in pairs if a != b),
    )


@dataclass(frozen=True)
class Report:
    """What learning a delivery has done."""

    delivery: int | None
    """The number of the delivery; None if it held nothing new."""
    images: int
    """How many photos were learned."""
    made: Mapping[int, str | None]
    """The new clusters with their names."""
    joined: Mapping[int, int]
    """How many photos went to clusters that were there before."""
    corrected: int
    """How many photos the corrections were learned from; 0 if there were none."""
    found: Mapping[str, Sequence[str]]
    """The photos that were not learned, or should be looked at, by kind."""
    mixed: Mixed | None = None
    """What was found in a delivery without labels, unless all of it was said to be new."""
    junk: int | None = None
    """The junk cluster that holds the photos that fit no class."""
