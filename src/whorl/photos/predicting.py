"""Predicting with a model folder: the stored model, and what its classes stand for now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whorl.data.options import Notify
from whorl.estimator import Whorl
from whorl.photos.answers import THRESHOLD, Answer, answers, by_cluster, photos_of, readable, softmax, source
from whorl.photos.catalog import Catalog
from whorl.photos.corrections import stored_clusters
from whorl.photos.files import Missing
from whorl.photos.opening import loaded
from whorl.photos.store import Store


def predict(
    folder: Path, store: Store, places: Sequence[Path], threshold: float | None, notify: Notify
) -> list[Answer]:
    """The answers for photos and for all photos of folders."""
    paths = readable(photos_of(places, notify), notify)
    try:
        model, standing = _stored(folder, store)
    except Missing:  # a newer model has taken its place, and the file of the older one is gone
        model, standing = _stored(folder, store)
    classifier = model.classifier_
    scores = classifier.scores(source(paths, classifier.inputs.size))[classifier.rule]
    summed, clusters = by_cluster(
        softmax(scores, standing.scale), [int(name) for name in model.classes_], standing.clusters
    )
    return answers(paths, summed, clusters, standing.catalog, THRESHOLD if threshold is None else threshold)


@dataclass(frozen=True)
class _Standing:
    """What the classes of a model stand for."""

    clusters: dict[int, int]
    catalog: Catalog
    scale: float


def _stored(folder: Path, store: Store) -> tuple[Whorl, _Standing]:
    with store.reading():
        model = loaded(folder, store)
        ((scale,),) = store.rows("SELECT scale FROM model ORDER BY event DESC LIMIT 1")
        return model, _Standing(stored_clusters(store), store.catalog(), scale)
