"""The catalog: which image is in which cluster, and what the clusters are called. Changes of it go both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Cluster:
    """What a person has said about a cluster: its name, and whether its images are junk."""

    name: str | None = None
    junk: bool = False


NEW = Cluster()
"""A cluster about which nobody has said anything yet."""


@dataclass(frozen=True)
class Move:
    """Images that go from one cluster to another. ``before`` is None for images that have just arrived."""

    before: int | None
    after: int | None
    images: tuple[int, ...]


@dataclass(frozen=True)
class Restated:
    """A cluster that is made or described in another way. A cluster that did not exist before was ``NEW``."""

    cluster: int
    before: Cluster
    after: Cluster


@dataclass(frozen=True)
class Change:
    """What one edit or one delivery changes. The log stores it, so that the catalog can be replayed and undone."""

    moves: tuple[Move, ...] = ()
    clusters: tuple[Restated, ...] = ()

    def inverse(self) -> Change:
        """The change that takes this one back."""
        moves = tuple(Move(one.after, one.before, one.images) for one in reversed(self.moves))
        return Change(moves, tuple(Restated(one.cluster, one.after, one.before) for one in reversed(self.clusters)))

    def document(self) -> dict[str, Any]:
        """The change as plain values for JSON."""
        return {
            "moves": [[one.before, one.after, list(one.images)] for one in self.moves],
            "clusters": [[one.cluster, *_plain(one.before), *_plain(one.after)] for one in self.clusters],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Change:
        """The change that :meth:`document` described. Raises ValueError, TypeError or LookupError if it is damaged."""
        moves = tuple(Move(before, after, tuple(images)) for before, after, images in document["moves"])
        restated = tuple(
            Restated(cluster, Cluster(*values[:2]), Cluster(*values[2:])) for cluster, *values in document["clusters"]
        )
        return cls(moves, restated)


def _plain(cluster: Cluster) -> tuple[str | None, bool]:
    return cluster.name, cluster.junk


@dataclass(frozen=True)
class Catalog:
    """Where every image is, and every cluster there has been. Immutable.

    Merging and splitting make new clusters; one that has lost its images stays here without any, so that its id is
    never used again and the edit can be undone.
    """

    where: Mapping[int, int] = field(default_factory=dict)
    """The cluster of each image."""
    clusters: Mapping[int, Cluster] = field(default_factory=dict)

    @cached_property
    def members(self) -> dict[int, tuple[int, ...]]:
        """The images of each cluster that has any, in ascending order."""
        found: dict[int, list[int]] = {}
        for image in sorted(self.where):
            found.setdefault(self.where[image], []).append(image)
        return {cluster: tuple(images) for cluster, images in found.items()}

    @cached_property
    def shown(self) -> dict[int, Cluster]:
        """The clusters that have images or a name, by id. Others are remains of merging, splitting and undoing."""
        return {id: one for id, one in sorted(self.clusters.items()) if id in self.members or one.name is not None}

    @property
    def free(self) -> int:
        """The id of the next cluster; no cluster had it before."""
        return max(self.clusters, default=0) + 1

    def changed(self, change: Change) -> Catalog:
        """The catalog after a change. Raises ``ValueError`` if it does not fit, which only a damaged log can cause."""
        where, clusters = dict(self.where), dict(self.clusters)
        for one in change.clusters:
            if clusters.get(one.cluster, NEW) != one.before:
                raise ValueError(f"cluster {one.cluster} is not what the log says")
            clusters[one.cluster] = one.after
        for move in change.moves:
            if any(where.get(image) != move.before for image in move.images):
                raise ValueError(f"some images are not in cluster {move.before}, as the log says")
            if move.after is None or move.after not in clusters:
                raise ValueError(f"there is no cluster {move.after} to move images to")
            where.update(dict.fromkeys(move.images, move.after))
        names = [one.name.casefold() for one in clusters.values() if one.name is not None]
        if len(set(names)) < len(names):
            raise ValueError("two clusters have the same name")
        return Catalog(where, clusters)
