"""What a delivery adds to the database: images, the clusters they are in, the model that has learned them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whorl.photos.catalog import NEW, Change, Cluster, Move, Restated
from whorl.photos.store import Store


@dataclass(frozen=True)
class Arrival:
    """An image as it was learned."""

    content: bytes
    """A hash of the file."""
    pixels: bytes
    """A hash of what the model learns of it, by which exemplars are recognised: pixels, or features that are frozen."""
    path: str
    kept: str | None
    """The name of the copy in the model folder, if there is one."""
    bytes: int
    taken: str | None
    """When the photo was taken, by its EXIF block."""
    cluster: int
    label: int | None
    """The name of the learner's class that it was learned as; None for junk, which was not learned."""
    sure: float | None
    """The probability of that class after learning."""


@dataclass(frozen=True)
class Stored:
    """A file of the model folder."""

    name: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Weights:
    """A model that has learned something."""

    file: Stored
    scale: float
    """The factor for its scores before the softmax."""


@dataclass(frozen=True)
class Delivered:
    """A delivery that was learned; ``made`` are its new clusters."""

    folder: str
    labelled: bool
    arrivals: Sequence[Arrival]
    made: Mapping[int, Cluster]
    features: Stored


def change_of(delivered: Delivered, first: int) -> Change:
    """The change of the catalog; the images are numbered from ``first`` on."""
    inside: dict[int, list[int]] = {}
    for number, one in enumerate(delivered.arrivals, first):
        inside.setdefault(one.cluster, []).append(number)
    moves = tuple(Move(None, cluster, tuple(images)) for cluster, images in sorted(inside.items()))
    return Change(moves, tuple(Restated(id, NEW, one) for id, one in sorted(delivered.made.items())))


def record(store: Store, delivered: Delivered, model: Weights, about: Mapping[str, Any]) -> int:
    """Within a transaction: add a delivery and the model that has learned it. Returns the number of the event."""
    (first,) = store.rows("SELECT coalesce(max(id), 0) + 1 FROM image")[0]
    (delivery,) = store.rows("SELECT coalesce(max(number), 0) + 1 FROM delivery")[0]
    event = store.append("learn", {**about, "delivery": delivery}, change_of(delivered, first))
    add_file(store, delivered.features)
    where = event, delivered.folder, delivered.labelled, delivered.features.name
    store.many("INSERT INTO delivery VALUES (?, ?, ?, ?, ?)", [(delivery, *where)])
    store.many(
        "INSERT INTO image VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (first + row, one.content, one.pixels, one.path, one.kept, one.bytes, one.taken, delivery, row, one.sure,
             one.label, one.cluster)
            for row, one in enumerate(delivered.arrivals)
        ),
    )  # fmt: skip
    set_model(store, model, event)
    return event


def set_model(store: Store, model: Weights, event: int) -> None:
    """Within a transaction: make this the model. The file of the one before it belongs to nobody from then on."""
    store.many("DELETE FROM file WHERE kind = ?", [("model",)])
    add_file(store, model.file)
    store.many("INSERT INTO model VALUES (?, ?, ?)", [(event, model.file.name, model.scale)])


def add_file(store: Store, file: Stored) -> None:
    """Within a transaction: name a file."""
    store.many("INSERT OR IGNORE INTO file VALUES (?, ?, ?)", [(file.name, file.kind, file.bytes)])
