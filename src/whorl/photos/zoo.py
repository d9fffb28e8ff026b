"""The model folder as an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from whorl.errors import WhorlError
from whorl.photos import edits
from whorl.photos.catalog import Catalog, Change
from whorl.photos.store import Event, Store, locked

Edit = Callable[[Catalog], Change]


class Zoo:
    """A model folder: a model that grows with every delivery of photos, its clusters, and the log of all edits."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder: Path = Path(folder)
        self._store = Store(self.folder)

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Self:
        """Open a model folder that exists."""
        return cls(folder)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def catalog(self) -> Catalog:
        """Where every image is, and what the clusters are called."""
        return self._store.catalog()

    def name(self, cluster: int, name: str, yes: bool = False) -> int:
        """Name a cluster, for good: it keeps the name through all later deliveries."""
        return self._edit("name", lambda catalog: edits.named(catalog, cluster, name, yes), {"clusters": [cluster]})

    def merge(self, clusters: Sequence[int]) -> int:
        """Merge clusters into a new one."""
        return self._edit("merge", lambda catalog: edits.merged(catalog, clusters), {"clusters": list(clusters)})

    def split(self, cluster: int, images: Sequence[int]) -> int:
        """Split a cluster."""
        return self._edit("split", lambda catalog: edits.parted(catalog, cluster, images), {"clusters": [cluster]})

    def move(self, cluster: int, images: Sequence[int], to: int) -> int:
        """Move images of a cluster to another one."""
        about = {"clusters": [cluster], "to": to, "images": len(images)}
        return self._edit("move", lambda catalog: edits.moved(catalog, cluster, images, to), about)

    def junk(self, clusters: Sequence[int], images: Sequence[int] | None = None) -> int:
        """Mark clusters as junk, or some images of one."""
        if images is None:
            return self._edit("junk", lambda catalog: edits.junked(catalog, clusters), {"clusters": list(clusters)})
        cluster, about = clusters[0], {"clusters": list(clusters), "images": len(images)}
        return self._edit("junk", lambda catalog: edits.junked_images(catalog, cluster, images), about)

    def undo(self) -> int:
        """Take back the last edit that has not been taken back."""
        return self._step(edits.UNDO)

    def redo(self) -> int:
        """Make the edit again that was taken back last."""
        return self._step(edits.REDO)

    def history(self) -> list[Event]:
        """The log."""
        return self._store.log()

    def _edit(self, kind: str, edit: Edit, about: Mapping[str, Any]) -> int:
        with locked(self.folder), self._store.writing():
            return self._store.append(kind, about, edit(self._store.catalog()))

    def _step(self, kind: str) -> int:
        with locked(self.folder), self._store.writing():
            numbers = self._store.undoable()
            left = numbers.done if kind == edits.UNDO else numbers.undone
            if not left:
                raise WhorlError(f"there is nothing to {kind}")
            event = self._store.event(left[-1])
            return self._store.append(kind, {"event": event.number}, edits.taken_back(self._store.catalog(), event.change))
