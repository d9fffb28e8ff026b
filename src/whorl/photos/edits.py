"""Edits as pure functions: a catalog and what is wanted give the change to make. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from whorl.errors import WhorlError, count
from whorl.photos.catalog import NEW, Catalog, Change, Cluster, Move, Restated
from whorl.photos.names import cleaned, key, near


class Typo(WhorlError):
    """A name that is one letter away from another one."""


class Undoable(NamedTuple):
    """The events that can be undone and redone next, each list with the next one at its end."""

    done: tuple[int, ...]
    undone: tuple[int, ...]


UNDO, REDO = "undo", "redo"
EDITS = ("name", "merge", "split", "move", "junk")


def undoable(log: Iterable[tuple[int, str]]) -> Undoable:
    """What can be undone and redone after a log of (number, kind). Deliveries change neither; an edit ends redoing.

    Undoing inverts the event on top of ``done`` and puts itself on top of ``undone``; redoing inverts that.
    """
    done, undone = list[int](), list[int]()
    for number, kind in log:
        if kind == UNDO:
            done.pop()
            undone.append(number)
        elif kind == REDO:
            undone.pop()
            done.append(number)
        elif kind in EDITS:
            done.append(number)
            undone.clear()
    return Undoable(tuple(done), tuple(undone))


def require(catalog: Catalog, clusters: Iterable[int]) -> None:
    """Raise a ``WhorlError`` unless these clusters are there."""
    for id in clusters:
        if id not in catalog.shown:
            was = f"cluster {id} has been emptied" if id in catalog.clusters else f"there is no cluster {id}"
            raise WhorlError(f"{was}; `whorl clusters` lists those there are")


def name_of(catalog: Catalog, name: str) -> int | None:
    """The cluster with this name, whatever its case and spaces."""
    return next((id for id, one in catalog.clusters.items() if one.name and key(one.name) == key(name)), None)


def named(catalog: Catalog, cluster: int, name: str, sure: bool = False) -> Change:
    """Name a cluster. A name that is taken is refused, and one that is a typo away from another unless ``sure``."""
    require(catalog, [cluster])
    found, before = cleaned(name), catalog.clusters[cluster]
    taken = name_of(catalog, found)
    if taken not in (None, cluster):
        raise WhorlError(
            f"cluster {taken} is called {catalog.clusters[taken or 0].name!r} already; "
            f"merge {taken} and {cluster}, or choose another name"
        )
    others = [one.name for id, one in catalog.clusters.items() if one.name and id != cluster]
    if not sure and (meant := near(found, others)):
        raise Typo(f"{found!r} is one letter away from {meant!r}; pass `yes` if it is another class")
    return Change(clusters=_restated(cluster, before, replace(before, name=found)))


def merged(catalog: Catalog, clusters: Sequence[int]) -> Change:
    """Merge clusters into a new one. It takes the name of the first of them that has one."""
    chosen = list(dict.fromkeys(clusters))
    require(catalog, chosen)
    if len(chosen) < 2:
        raise WhorlError("merging needs at least two clusters")
    parts, new = [catalog.clusters[id] for id in chosen], catalog.free
    name = next((part.name for part in parts if part.name), None)
    restated = [one for id, part in zip(chosen, parts, strict=True) for one in _restated(id, part, unnamed(part))]
    restated.append(Restated(new, NEW, Cluster(name, all(part.junk for part in parts))))
    return Change(_moves(catalog, dict.fromkeys(chosen, new)), tuple(restated))


def split(catalog: Catalog, cluster: int, parts: Sequence[Sequence[int]]) -> Change:
    """Split a cluster into new ones that hold these images. The largest part keeps the name."""
    require(catalog, [cluster])
    before = catalog.clusters[cluster]
    if sorted(image for part in parts for image in part) != sorted(catalog.members.get(cluster, ())):
        raise ValueError("the parts are not the images of the cluster")
    if len(parts) < 2 or not all(parts):
        raise WhorlError("splitting needs at least two parts")
    largest = max(range(len(parts)), key=lambda n: (len(parts[n]), -n))
    moves, restated = list[Move](), list(_restated(cluster, before, unnamed(before)))
    for n, part in enumerate(parts):
        new = catalog.free + n
        moves.append(Move(cluster, new, tuple(sorted(part))))
        restated.append(Restated(new, NEW, replace(before, name=before.name if n == largest else None)))
    return Change(tuple(moves), tuple(restated))


def parted(catalog: Catalog, cluster: int, images: Sequence[int]) -> Change:
    """Put some images of a cluster into a new one. The others stay where they are."""
    _require_inside(catalog, cluster, images)
    if len(set(images)) == len(catalog.members[cluster]):
        raise WhorlError(f"these are all images of cluster {cluster}; a split leaves some in it")
    made = Restated(catalog.free, NEW, NEW)
    return Change((Move(cluster, catalog.free, tuple(sorted(set(images)))),), (made,))


def moved(catalog: Catalog, cluster: int, images: Sequence[int], to: int) -> Change:
    """Move images of a cluster to another one."""
    require(catalog, [to])
    _require_inside(catalog, cluster, images)
    if cluster == to:
        raise WhorlError(f"cluster {to} holds these images already")
    return Change((Move(cluster, to, tuple(sorted(set(images)))),))


def junked(catalog: Catalog, clusters: Sequence[int]) -> Change:
    """Mark clusters as junk: their images are no class, and are not learned again."""
    chosen = list(dict.fromkeys(clusters))
    require(catalog, chosen)
    restated = list[Restated]()
    for id in chosen:
        before = catalog.clusters[id]
        if before.junk:
            raise WhorlError(f"cluster {id} is junk already")
        restated.append(Restated(id, before, replace(before, junk=True)))
    return Change(clusters=tuple(restated))


def junked_images(catalog: Catalog, cluster: int, images: Sequence[int]) -> Change:
    """Put some images of a cluster into a new one that is junk."""
    _require_inside(catalog, cluster, images)
    made = Restated(catalog.free, NEW, Cluster(junk=True))
    return Change((Move(cluster, catalog.free, tuple(sorted(set(images)))),), (made,))


def taken_back(catalog: Catalog, change: Change) -> Change:
    """The inverse of a change. A name that a delivery has given to another cluster since comes back with a number."""
    restated = list[Restated]()
    back = change.inverse()
    changing = {one.cluster for one in back.clusters}
    taken = {key(one.name) for id, one in catalog.clusters.items() if one.name and id not in changing}
    for one in back.clusters:
        name = one.after.name
        if name and key(name) in taken:
            numbered = (f"{name} {n}" for n in range(2, len(taken) + 3))
            free = next(each for each in numbered if key(each) not in taken)
            one = replace(one, after=replace(one.after, name=free))
        restated.append(one)
    return Change(back.moves, tuple(restated))


def unnamed(cluster: Cluster) -> Cluster:
    """A cluster that passes its name on to another one."""
    return replace(cluster, name=None)


def _restated(id: int, before: Cluster, after: Cluster) -> tuple[Restated, ...]:
    return (Restated(id, before, after),) if before != after else ()


def _moves(catalog: Catalog, to: dict[int, int]) -> tuple[Move, ...]:
    return tuple(Move(id, new, catalog.members[id]) for id, new in to.items() if id in catalog.members)


def _require_inside(catalog: Catalog, cluster: int, images: Sequence[int]) -> None:
    require(catalog, [cluster])
    if not images:
        raise WhorlError("name at least one image")
    outside = sorted(set(images) - set(catalog.members.get(cluster, ())))
    if outside:
        raise WhorlError(f"{count(len(outside), 'image')} of these are not in cluster {cluster}")
