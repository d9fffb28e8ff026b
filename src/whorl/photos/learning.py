"""Learning into a model folder: corrections first, then the new photos of a delivery, each in one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from whorl.data.adapt import FOLDERS
from whorl.data.folder import SIZE
from whorl.data.options import Notify
from whorl.errors import WhorlError
from whorl.estimator import Whorl
from whorl.photos import edits, files
from whorl.photos.answers import softmax
from whorl.photos.catalog import NEW, Catalog, Cluster
from whorl.photos.corrections import stored_clusters
from whorl.photos.intake import Intake, take_in
from whorl.photos.labels import Listed, listed
from whorl.photos.names import near
from whorl.photos.progress import epochs
from whorl.photos.record import Arrival, Delivered, Weights, record
from whorl.photos.relearn import correct, weights_of
from whorl.photos.store import Store
from whorl.runs.files import write_tensors


@dataclass(frozen=True)
class Settings:
    """Choices of a new model, as for :class:`whorl.Whorl`. Those that are None are its defaults."""

    method: str | None = None
    net: str | None = None
    recipe: str | None = None
    resize: int | None = None
    """Side of the photos in pixels."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further config values by key."""
    seed: int | None = None

    def given(self) -> dict[str, Any]:
        """The parameters of the estimator that were chosen."""
        named = {"method": self.method, "net": self.net, "recipe": self.recipe, "random_state": self.seed}
        return {name: value for name, value in named.items() if value is not None} | (
            {"options": dict(self.options)} if self.options else {}
        )


@dataclass(frozen=True)
class Asked:
    """What to learn: the photos of a folder, labelled or not."""

    folder: Path
    labels: str | None = None
    """A table of labels, or "folders"; the first delivery has those of its folders by default."""
    new: int | None = None
    """The number of new classes in a delivery without labels."""
    keep: bool = False
    """Whether to copy the photos into the model folder."""
    yes: bool = False
    """Whether labels that are one typo away from a name are other classes."""


@dataclass(frozen=True)
class Report:
    """What learning a delivery has done."""

    delivery: int | None
    """The number of the delivery; None if it held nothing new."""
    images: int
    made: Mapping[int, str | None]
    """The new clusters with their names."""
    joined: Mapping[int, int]
    """How many photos went to clusters that were there before."""
    corrected: int
    """How many photos the corrections were learned from; 0 if there were none."""
    found: Mapping[str, Sequence[str]]
    """The photos that were not learned, or should be looked at, by kind."""


_FIXED = "cannot change after the first delivery; make a new model folder instead"
Prepared = tuple[Whorl, Intake, Listed]
"""The model, the new photos, and their labels."""


def prepare(
    folder: Path, asked: Asked, settings: Settings, store: Store | None, notify: Notify, verbose: int
) -> Prepared:
    """The model and the new photos. Nothing is written; wrong input is refused here."""
    model = loaded(folder, store, verbose, settings) if store else Whorl(**settings.given(), verbose=verbose)
    wanted = asked.labels or (None if store else FOLDERS)
    there = listed(asked.folder, wanted, notify)
    if store is None and len(set(there.labels or ())) < 2:
        raise WhorlError(f"{asked.folder} has only one class; a model needs at least two to start with")
    known = {content for (content,) in store.rows("SELECT content FROM image")} if store else set()
    side = model.classifier_.inputs.size if store else settings.resize or SIZE
    intake = take_in(asked.folder, there.names, side, known)
    for line in intake.findings.lines():
        notify(line)
    if not intake.photos and not intake.moved:
        raise WhorlError(f"{asked.folder} has no photo that can be learned; add some")
    if there.labels is not None:
        by_name = dict(zip(there.names, there.labels, strict=True))
        there = Listed(intake.names, tuple(by_name[name] for name in intake.names))
        if store is None and len(set(there.labels or ())) < 2:
            raise WhorlError(f"only one class of {asked.folder} has photos that can be read; a model needs two")
    return model, intake, there


def loaded(folder: Path, store: Store, verbose: int = 0, settings: Settings | None = None) -> Whorl:
    """The stored model. Settings that it does not have are refused. Raises ``Missing`` if its file is not there."""
    ((name,),) = store.rows("SELECT name FROM file WHERE kind = 'model'")
    path = files.checked(folder, name)
    model = Whorl.load(path, verbose=verbose)
    if settings:
        for parameter, value in settings.given().items():
            if getattr(model, parameter) != value:
                raise WhorlError(
                    f"`{parameter}` cannot change after the first delivery; make a new model folder instead"
                )
        if settings.resize not in (None, model.classifier_.inputs.size):
            raise WhorlError("`resize` cannot change after the first delivery; make a new model folder instead")
    return model


def teach(folder: Path, asked: Asked, store: Store, prepared: Prepared, notify: Notify) -> Report:
    """Learn a delivery that :func:`prepare` has read, and store it in one transaction."""
    model, intake, there = prepared
    corrected = correct(folder, store, model, notify) if _has_model(store) else 0
    found = intake.findings.names()
    store_paths(store, intake)
    if not intake.photos:
        return Report(None, 0, {}, {}, corrected, found)
    catalog = store.catalog()
    labels, planned = _labels(store, model, catalog, there, asked)
    key = _key(store, model, intake, labels, asked)
    for _ in epochs(folder, model, intake.images, labels, asked.new if labels is None else None, key):
        pass
    delivered, weights = _delivered(folder, store, model, intake, asked, planned)
    counts = {kind: len(names) for kind, names in found.items() if names}
    with store.writing():
        event = record(store, delivered, weights, {"folder": delivered.folder, "images": len(intake.photos), **counts})
    ((number,),) = store.rows("SELECT number FROM delivery WHERE event = ?", [event])
    inside = [one.cluster for one in delivered.arrivals]
    made = {id: one.name for id, one in delivered.made.items()}
    joined = {id: inside.count(id) for id in sorted(set(inside)) if id not in made}
    return Report(number, len(intake.photos), made, joined, corrected, found)


def store_paths(store: Store, intake: Intake) -> None:
    """Remember where photos are that were learned before, if the place that is stored has none any more."""
    rows = dict(store.rows("SELECT content, path FROM image"))
    gone = [(path, content) for content, path in intake.moved.items() if not Path(rows[content]).exists()]
    if gone:
        with store.writing():
            store.many("UPDATE image SET path = ? WHERE content = ?", gone)


def sweep_and_teach(folder: Path, asked: Asked, store: Store, prepared: Prepared, notify: Notify) -> Report:
    """Remove what interrupted commands have left, then learn a delivery that :func:`prepare` has read."""
    files.sweep(folder, store)
    return teach(folder, asked, store, prepared, notify)


def relearn(folder: Path, store: Store, settings: Settings, notify: Notify, verbose: int) -> Report:
    """Learn corrections alone."""
    files.sweep(folder, store)
    corrected = correct(folder, store, loaded(folder, store, verbose, settings), notify)
    return Report(None, 0, {}, {}, corrected, {})


def _has_model(store: Store) -> bool:
    return bool(store.rows("SELECT 1 FROM file WHERE kind = 'model'"))


def _labels(
    store: Store, model: Whorl, catalog: Catalog, there: Listed, asked: Asked
) -> tuple[Sequence[int] | None, dict[int, tuple[int, Cluster | None]]]:
    """The labels as classes of the learner, and the cluster of each class: its id, and what it is if it is new."""
    stands = stored_clusters(store)
    planned: dict[int, tuple[int, Cluster | None]] = {label: (cluster, None) for label, cluster in stands.items()}
    if there.labels is None:
        return None, planned
    class_of = {cluster: label for label, cluster in reversed(stands.items())}
    free, label = catalog.free, max([0, *map(int, model.classes_)] if _has_model(store) else [0])
    numbers: dict[str, int] = {}
    for name in sorted(set(there.labels)):
        cluster = edits.name_of(catalog, name)
        if cluster is not None and catalog.clusters[cluster].junk:
            raise WhorlError(f"cluster {cluster} ({name!r}) is junk; rename it, or label these photos otherwise")
        if cluster is not None and cluster in class_of:
            numbers[name] = class_of[cluster]
            continue
        if cluster is None:
            _refuse_typo(catalog, name, asked.yes)
        label += 1
        numbers[name] = label
        planned[label] = (free, Cluster(name)) if cluster is None else (cluster, None)
        free += cluster is None
    return [numbers[name] for name in there.labels], planned


def _refuse_typo(catalog: Catalog, name: str, sure: bool) -> None:
    meant = near(name, [one.name for one in catalog.clusters.values() if one.name])
    if meant and not sure:
        raise edits.Typo(f"the label {name!r} is one letter away from {meant!r}; pass `yes` if it is another class")


def _key(store: Store, model: Whorl, intake: Intake, labels: Sequence[int] | None, asked: Asked) -> str:
    """What identifies this step, so that it is resumed only by the command that began it."""
    before = store.rows("SELECT name FROM file WHERE kind = 'model'")
    params = {name: str(value) for name, value in model.get_params(deep=False).items()}
    content = [photo.content.hex() for photo in intake.photos]
    text = json.dumps([before, params, content, None if labels is None else list(labels), asked.new])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _delivered(
    folder: Path,
    store: Store,
    model: Whorl,
    intake: Intake,
    asked: Asked,
    planned: Mapping[int, tuple[int, Cluster | None]],
) -> tuple[Delivered, Weights]:
    """What was learned, with the files of the features and of the model, which are written here."""
    catalog, classifier = store.catalog(), model.classifier_
    features = classifier.features(intake.images)
    places = dict(planned)
    free = max([catalog.free, *(cluster + 1 for cluster, _ in places.values())])
    for n, label in enumerate(sorted(set(map(int, model.labels_)) - places.keys())):
        places[label] = free + n, NEW
    labels = [int(label) for label in model.labels_]
    weights = weights_of(folder, model)
    chances = softmax(classifier.scores_of(features)[classifier.rule], weights.scale)
    sure = chances[np.arange(len(labels)), np.searchsorted(model.classes_, labels)].tolist()
    arrivals = [
        Arrival(
            content=photo.content,
            pixels=photo.pixels,
            path=photo.path,
            kept=files.keep_photo(folder, Path(photo.path), photo.content) if asked.keep else None,
            bytes=photo.bytes,
            taken=photo.taken,
            cluster=places[label][0],
            label=label,
            sure=probability,
        )
        for photo, label, probability in zip(intake.photos, labels, sure, strict=True)
    ]
    made = {cluster: one for label in sorted(set(labels)) for cluster, one in [places[label]] if one is not None}

    def write(work: Path) -> Path:
        write_tensors(work / "features", {"features": torch.from_numpy(features)}, {})
        return work / "features"

    stored = files.add(folder, "features", write)
    labelled = model.deliveries_[-1].labelled
    delivered = Delivered(str(asked.folder.absolute()), labelled, arrivals, made, stored)
    return delivered, weights
