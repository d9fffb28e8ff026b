"""Predicting with a model folder: the stored model, and what its classes stand for now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whorl.data.options import Notify
from whorl.photos.answers import THRESHOLD, Answer, answers, by_cluster, photos_of, readable, softmax, source
from whorl.photos.corrections import stored_clusters
from whorl.photos.learning import loaded
from whorl.photos.store import Store


def predict(
    folder: Path, store: Store, places: Sequence[Path], threshold: float | None, notify: Notify
) -> list[Answer]:
    """The answers for photos and for all photos of folders."""
    paths = readable(photos_of(places, notify), notify)
    with store.reading():  # the model, and the clusters of its classes
        model = loaded(folder, store)
        stands, catalog = stored_clusters(store), store.catalog()
        ((scale,),) = store.rows("SELECT scale FROM model ORDER BY event DESC LIMIT 1")
    classifier = model.classifier_
    scores = classifier.scores(source(paths, classifier.inputs.size))[classifier.rule]
    summed, clusters = by_cluster(softmax(scores, scale), [int(name) for name in model.classes_], stands)
    return answers(paths, summed, clusters, catalog, THRESHOLD if threshold is None else threshold)
