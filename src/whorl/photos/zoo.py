"""The model folder as an object: learn, predict, look at clusters, put them right, take it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from whorl.errors import WhorlError
from whorl.photos import edits
from whorl.photos.catalog import Catalog, Change
from whorl.photos.find import find_images
from whorl.photos.schema import create, is_empty, is_model_folder, may_become_model, unwritable
from whorl.photos.store import Event, Store, locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whorl.data.options import Notify
    from whorl.photos.answers import Answer
    from whorl.photos.asked import Asked, Settings
    from whorl.photos.outcome import Report

Edit = Callable[[Catalog], Change]
Where = str | PathLike[str]


def _silent(line: str) -> None:
    """Ignore a line for the user."""


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster, as :meth:`Zoo.clusters` lists it."""

    id: int
    name: str | None
    images: int
    junk: bool
    delivery: int | None
    """The first delivery that brought images to it."""
    sure: float | None
    """The mean probability with which its images were learned."""


class Zoo:
    """A model folder: a model that grows with every delivery of photos, its clusters, and the log of all edits.

    Edits take effect at once, in this object, in others and in commands. The next :meth:`learn` teaches them to the
    model.

    Attributes
    ----------
    folder : Path
        The model folder.
    verbose : int
        0 for no output, 1 for a progress bar on stderr while it learns.
    """

    def __init__(self, folder: Path, store: Store | None, verbose: int) -> None:
        self.folder: Path = folder
        self.verbose: int = verbose
        self._opened = store

    @classmethod
    def open(cls, folder: Where, verbose: int = 1) -> Self:
        """Open a model folder that exists.

        Parameters
        ----------
        folder : path
            The model folder.
        verbose : int
            0 for no output, 1 for a progress bar on stderr.

        Returns
        -------
        Zoo
            The model folder, which can be used in ``with`` to close its database in the end.
        """
        path = Path(folder)
        store = Store(path)
        if not _has_learned(store):
            store.close()
            raise WhorlError(f"{path} has not learned anything yet; learn labelled photos into it first")
        return cls(path, store, verbose)

    @classmethod
    def new(cls, folder: Where, verbose: int = 1) -> Self:
        """A model folder that does not exist yet. The first delivery that it learns makes it."""
        path = Path(folder)
        may_become_model(path)
        store = Store(path) if is_model_folder(path) and not is_empty(path) else None
        if store and not _has_learned(store):
            store.close()
            store = None
        return cls(path, store, verbose)

    def close(self) -> None:
        """Close the database."""
        if self._opened:
            self._opened.close()
        self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def learn(
        self,
        photos: Where | None = None,
        labels: str | None = None,
        new: int | None = None,
        *,
        all_new: bool = False,
        settings: Settings | None = None,
        keep_photos: bool = False,
        yes: bool = False,
        notify: Notify | None = None,
    ) -> Report:
        """Learn corrections that were made since the last time, then the new photos of a folder.

        If it fails or is interrupted, the model is as it was; the same call goes on where it was.

        Parameters
        ----------
        photos : path, optional
            A folder of photos. Without it, only corrections are learned.
        labels : str, optional
            ``"folders"`` if the photos are in a folder per class, or the path of a table with a file and a label in
            each row. The first delivery is labelled by its folders by default, later ones have no labels.
        new : int, optional
            The number of new classes in a delivery without labels; by default it is estimated. Photos that the model
            knows go to their classes, and those that fit no class into a junk cluster.
        all_new : bool
            Whether all photos of a delivery without labels belong to new classes; ``new`` is then needed.
        settings : Settings, optional
            Method, network and more of a new model.
        keep_photos : bool
            Whether to copy the photos into the model folder. Otherwise they are found by their path and content.
        yes : bool
            Whether labels that are one letter away from the name of a cluster are other classes.
        notify : callable, optional
            Gets a line for the user about photos that are not learned, and more.

        Returns
        -------
        Report
            What was learned, and which photos were not.
        """
        from whorl.photos.asked import Asked, Settings
        from whorl.photos.learning import prepare, relearn, sweep_and_teach

        chosen, say = settings or Settings(), notify or _silent
        if photos is None:
            with self._writing() as store:
                return relearn(self.folder, store, chosen, say, self.verbose)
        asked = Asked(Path(photos), labels, new, all_new, keep_photos, yes)
        if self._opened is None:
            return self._begin(asked, chosen, say)
        with self._writing() as store:
            prepared = prepare(self.folder, asked, chosen, store, say, self.verbose)
            return sweep_and_teach(self.folder, asked, store, prepared, say)

    def predict(
        self, photos: Where | Sequence[Where], threshold: float | None = None, notify: Notify | None = None
    ) -> list[Answer]:
        """The cluster of each photo, how sure the model is, and the runner-up.

        Parameters
        ----------
        photos : path or list of paths
            Photos, or folders of photos.
        threshold : float, optional
            Below this probability the answer is ``unknown``; 0.5 by default.
        notify : callable, optional
            Gets a line for the user about each photo that cannot be read.

        Returns
        -------
        list of Answer
            In the order of the photos, without those that cannot be read.
        """
        from whorl.photos.predicting import predict

        places = [photos] if isinstance(photos, str | PathLike) else photos
        return predict(self.folder, self._store, [Path(place) for place in places], threshold, notify or _silent)

    def clusters(self) -> list[ClusterInfo]:
        """The clusters that have images or a name, by id; those that are junk come last."""
        with self._store.reading():
            shown = self._store.catalog().shown
            rows = self._store.rows("SELECT cluster, count(*), min(delivery), avg(sure) FROM image GROUP BY cluster")
        about = {row[0]: row[1:] for row in rows}
        found = list[ClusterInfo]()
        for id, one in shown.items():
            images, delivery, sure = about.get(id, (0, None, None))
            found.append(ClusterInfo(id, one.name, images, one.junk, delivery, sure))
        return sorted(found, key=lambda one: (one.junk, one.id))

    def images(self, cluster: int) -> list[tuple[int, str, float | None]]:
        """The images of a cluster, the surest one first: id, path, and the probability with which it was learned.

        The probability of an image that was put aside as junk is None.
        """
        edits.require(self.catalog, [cluster])
        query = "SELECT id, path, sure FROM image WHERE cluster = ? ORDER BY sure DESC, id"
        return [(row[0], row[1], row[2]) for row in self._store.rows(query, [cluster])]

    def history(self) -> list[Event]:
        """All deliveries and edits, the first one first."""
        return self._store.log()

    @property
    def catalog(self) -> Catalog:
        """Where every image is, and what the clusters are called."""
        return self._store.catalog()

    def name(self, cluster: int, name: str, yes: bool = False) -> int:
        """Name a cluster. It keeps the name through all later deliveries.

        Parameters
        ----------
        cluster : int
            The id of the cluster.
        name : str
            The name, which no other cluster has, whatever its case and spaces.
        yes : bool
            Whether a name that is one letter away from that of another cluster is meant as it is.

        Returns
        -------
        int
            The number of the event in the log, as for all edits.
        """
        about = {"clusters": [cluster], "name": " ".join(name.split())}
        return self._edit("name", lambda catalog: edits.named(catalog, cluster, name, yes), about)

    def merge(self, clusters: Sequence[int]) -> int:
        """Merge clusters into a new one, which takes the first name among them."""
        return self._edit("merge", lambda catalog: edits.merged(catalog, clusters), {"clusters": list(clusters)})

    def split(self, cluster: int, into: int | None = None, images: Sequence[int | Where] | None = None) -> int:
        """Split a cluster ``into`` k new ones by the features of its images, or put some images into a new one.

        The largest of k parts keeps the name. If some images are put into a new one, the others stay where they are.
        """
        if (into is None) == (images is None):
            raise WhorlError("split a cluster either `into` a number of parts, or by a list of images")
        about: dict[str, Any] = {"clusters": [cluster]}
        if images is not None:
            chosen = find_images(self._store, cluster, images)
            about["images"] = len(chosen)
            return self._edit("split", lambda catalog: edits.parted(catalog, cluster, chosen), about)
        from whorl.photos.parts import parts  # imports scikit-learn

        about["into"] = into

        def edit(catalog: Catalog) -> Change:
            return edits.split(catalog, cluster, parts(self.folder, self._store, cluster, into or 0))

        return self._edit("split", edit, about)

    def move(self, cluster: int, images: Sequence[int | Where], to: int) -> int:
        """Move images of a cluster, given by id, path or name, to another one."""
        chosen = find_images(self._store, cluster, images)
        about = {"clusters": [cluster], "to": to, "images": len(chosen)}
        return self._edit("move", lambda catalog: edits.moved(catalog, cluster, chosen, to), about)

    def junk(self, clusters: int | Sequence[int], images: Sequence[int | Where] | None = None) -> int:
        """Mark clusters as junk, or put some images of one cluster into a new one that is junk."""
        ids = [clusters] if isinstance(clusters, int) else list(clusters)
        about: dict[str, Any] = {"clusters": ids}
        if images is None:
            return self._edit("junk", lambda catalog: edits.junked(catalog, ids), about)
        if len(ids) != 1:
            raise WhorlError("name the one cluster that these images are in")
        chosen = find_images(self._store, ids[0], images)
        about["images"] = len(chosen)
        return self._edit("junk", lambda catalog: edits.junked_images(catalog, ids[0], chosen), about)

    def undo(self) -> int:
        """Take back the last edit that has not been taken back. Deliveries stay."""
        return self._step(edits.UNDO)

    def redo(self) -> int:
        """Make the edit again that was taken back last."""
        return self._step(edits.REDO)

    def _begin(self, asked: Asked, settings: Settings, notify: Notify) -> Report:
        """Learn the first delivery. Nothing is made on disk before it has been read."""
        from whorl.photos.learning import prepare, sweep_and_teach

        may_become_model(self.folder)
        prepared = prepare(self.folder, asked, settings, None, notify, self.verbose)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from None
        with locked(self.folder):
            create(self.folder)
            self._opened = Store(self.folder)
            if self._opened.log():
                raise WhorlError(f"{self.folder} has been made by another command; repeat this one")
            return sweep_and_teach(self.folder, asked, self._opened, prepared, notify)

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self.folder)
        return self._opened

    @contextmanager
    def _writing(self) -> Iterator[Store]:
        store = self._store
        with locked(self.folder):
            yield store

    def _edit(self, kind: str, edit: Edit, about: Mapping[str, Any]) -> int:
        with self._writing() as store, store.writing():
            return store.append(kind, about, edit(store.catalog()))

    def _step(self, kind: str) -> int:
        with self._writing() as store, store.writing():
            numbers = store.undoable()
            left = numbers.done if kind == edits.UNDO else numbers.undone
            if not left:
                raise WhorlError(f"there is nothing to {kind}")
            event = store.event(left[-1])
            about = {"event": store.origin(event.number)}
            return store.append(kind, about, edits.taken_back(store.catalog(), event.change))


def _has_learned(store: Store) -> bool:
    """Whether there was a delivery; the command that made the folder may have been killed before."""
    return bool(store.rows("SELECT 1 FROM event LIMIT 1"))
