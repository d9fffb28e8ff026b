"""Learning what people have corrected: classes are regrouped, then the images of corrected clusters are learned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from whorl.data.decode import decode, file_hash
from whorl.data.options import Notify
from whorl.data.parts import fits
from whorl.data.source import ArraySource, Concat, FileSource, in_memory
from whorl.errors import WhorlError, count
from whorl.estimator import Whorl
from whorl.photos import files
from whorl.photos.answers import scale_of
from whorl.photos.catalog import Change
from whorl.photos.corrections import Correction, correction
from whorl.photos.features import stored_features
from whorl.photos.intake import hashed
from whorl.photos.progress import Lesson, epochs
from whorl.photos.record import Weights, set_model
from whorl.photos.store import Store
from whorl.regroup import Regrouping
from whorl.types import ImageSource


@dataclass(frozen=True, eq=False)
class _Found:
    """The images of corrected clusters that can be read, or that are exemplars."""

    images: ImageSource | None
    clusters: list[int]
    """Of each image."""
    lost: int
    """How many images have neither a file nor an exemplar."""


def pending(store: Store, free: int, without: Iterable[int] = ()) -> Correction:
    """What the stored model has not learned yet of the edits. New classes are numbered from ``free`` on.

    The images of clusters in ``without`` are left as they are.
    """
    left_out = set(without)
    rows = ((row[0], row[1]) for row in store.rows("SELECT class, cluster FROM image") if row[1] not in left_out)
    return correction(rows, _junk(store), free)


def correct(folder: Path, store: Store, model: Whorl, notify: Notify) -> int:
    """Learn what has been corrected, in one step and one transaction. Returns the number of images it learned from."""
    free = max(map(int, model.classes_)) + 1
    what = pending(store, free)
    if not what.pending:
        return 0
    found = _found(store, folder, model, what)
    unreadable = set(what.fresh).difference(found.clusters)
    if unreadable:
        notify(f"not learned, since their photos are gone: clusters {', '.join(map(str, sorted(unreadable)))}")
        what = pending(store, free, unreadable)
        found = _found(store, folder, model, what)
    if not what.pending:
        return 0
    staying = {label for label in what.classes.values() if label is not None}
    if not staying or len(staying) + len(what.fresh) < 2:
        raise WhorlError("all clusters but one are merged or junk; a model needs two classes, so undo some of it first")
    exemplars = _exemplars(store, model, what)
    regroup = Regrouping({label: what.classes[label] for label in what.classes}, exemplars)
    images, labels = _with_exemplars(found, what, model, exemplars)
    if images is None:
        raise WhorlError("the corrections cannot be learned, since the photos are gone and there are no exemplars")
    notify(f"learning corrections: {count(len(labels), 'photo')} of {count(len(set(labels)), 'cluster')}")
    for _ in epochs(folder, model, Lesson(images, labels, regroup=regroup), _key(store, what, labels)):
        pass
    weights = weights_of(folder, model)
    with store.writing():
        about = {"images": len(labels), "clusters": sorted(set(found.clusters)), "lost": found.lost}
        set_model(store, weights, store.append("correct", about, Change()))
        _set_classes(store, what)
    return len(labels)


def weights_of(folder: Path, model: Whorl) -> Weights:
    """Write the model."""
    return Weights(files.add(folder, "model", model.save), scale_of(model.classifier_, model.memory_))


def _found(store: Store, folder: Path, model: Whorl, what: Correction) -> _Found:
    return (_features if model.classifier_.frozen else _photos)(store, folder, model, what)


def _features(store: Store, folder: Path, model: Whorl, what: Correction) -> _Found:
    """The features of all images of corrected clusters: a model with a frozen network learns nothing else of them."""
    rows = [
        (delivery, row, cluster)
        for cluster in what.affected
        for delivery, row in store.rows("SELECT delivery, row FROM image WHERE cluster = ? ORDER BY id", [cluster])
    ]
    if not rows:
        return _Found(None, [], 0)
    features = stored_features(folder, store, [(delivery, row) for delivery, row, _ in rows])
    return _Found(in_memory(torch.from_numpy(features)), [cluster for _, _, cluster in rows], 0)


def _photos(store: Store, folder: Path, model: Whorl, what: Correction) -> _Found:
    """The photos of corrected clusters, and those that are exemplars."""
    side, memory = model.classifier_.inputs.size, model.memory_
    exemplar = {hashed(image.numpy()): n for n, image in enumerate(memory.images)}
    paths, stored, clusters, copied = list[str](), list[int](), list[int](), list[int]()
    lost = 0
    for cluster in what.affected:
        query = "SELECT content, pixels, path, kept FROM image WHERE cluster = ? ORDER BY id"
        for content, pixels, path, kept in store.rows(query, [cluster]):
            places = ([folder / files.KEPT / kept] if kept else []) + [Path(path)]
            place = next((each for each in places if _holds(each, content)), None)
            if place is not None:
                paths.append(str(place.absolute()))
                clusters.append(cluster)
            elif pixels in exemplar:
                stored.append(exemplar[pixels])
                copied.append(cluster)
            else:
                lost += 1
    parts: list[ImageSource] = []
    if paths:
        pixels = np.stack([decode(path, side) for path in paths]) if fits(len(paths), side) else None
        parts.append(FileSource(Path("/"), paths, side) if pixels is None else ArraySource(torch.from_numpy(pixels)))
    if stored:
        parts.append(ArraySource(memory.images[torch.tensor(stored)]))
    return _Found(_joined(parts), clusters + copied, lost)


def _with_exemplars(
    found: _Found, what: Correction, model: Whorl, exemplars: Sequence[int | None]
) -> tuple[ImageSource | None, list[int]]:
    """The corrected images and the exemplars of all other classes, with their classes.

    As every class has samples, methods that distil in proportion to the classes without any do not distil from the
    model before, which has learned what was corrected the wrong way.
    """
    labels = [what.label[cluster] for cluster in found.clusters]
    others = [(n, label) for n, label in enumerate(exemplars) if label is not None and label not in labels]
    parts = [found.images] if found.images else []
    if others:
        parts.append(in_memory(model.memory_.images[torch.tensor([n for n, _ in others])]))
    return _joined(parts), labels + [label for _, label in others]


def _joined(parts: Sequence[ImageSource]) -> ImageSource | None:
    return Concat(parts) if len(parts) > 1 else parts[0] if parts else None


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file is there and has this content."""
    try:
        return path.is_file() and file_hash(path) == content
    except (OSError, WhorlError):
        return False


def _exemplars(store: Store, model: Whorl, what: Correction) -> list[int | None]:
    """The class that each exemplar gets. Those of clusters with a new class are delivered instead."""
    junk, found = set(_junk(store)), list[int | None]()
    for image, label in zip(model.memory_.images, model.memory_.labels, strict=True):
        before = int(model.classes_[label])
        query = "SELECT cluster FROM image WHERE pixels = ? ORDER BY class IS ? DESC, id LIMIT 1"
        rows = store.rows(query, [hashed(image.numpy()), before])
        cluster: int = rows[0][0] if rows else -1
        if cluster in junk or cluster in what.fresh:
            found.append(None)
        else:
            found.append(what.label.get(cluster) or what.classes.get(before, before))
    return found


def _set_classes(store: Store, what: Correction) -> None:
    """Within a transaction: the classes by which the images are known from now on."""
    changed = [(after, before) for before, after in what.classes.items() if after != before]
    store.many("UPDATE image SET class = ? WHERE class = ?", changed)
    rows = [(label, cluster, label) for cluster, label in what.label.items()]
    store.many("UPDATE image SET class = ? WHERE cluster = ? AND class IS NOT ?", rows)
    store.many("UPDATE image SET class = NULL WHERE class IS NOT NULL AND cluster = ?", [(id,) for id in _junk(store)])


def _junk(store: Store) -> list[int]:
    return [id for (id,) in store.rows("SELECT id FROM cluster WHERE junk")]


def _key(store: Store, what: Correction, labels: list[int]) -> str:
    """What identifies the step."""
    before = store.rows("SELECT name FROM file WHERE kind = 'model'")
    text = json.dumps([before, sorted(what.classes.items()), sorted(what.label.items()), labels])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
