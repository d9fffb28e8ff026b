"""Learning into a model folder: corrections first, then the new photos of a delivery, each in one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from whorl.data.adapt import FOLDERS
from whorl.data.options import Notify
from whorl.data.parts import few
from whorl.errors import WhorlError, count
from whorl.estimator import Whorl
from whorl.methods import method_of
from whorl.photos import edits, files
from whorl.photos.arrivals import Places, delivery_of, places_of, reported
from whorl.photos.asked import Asked, Settings
from whorl.photos.catalog import Catalog, Cluster
from whorl.photos.corrections import stored_clusters
from whorl.photos.intake import Intake, take_in
from whorl.photos.labels import Listed, listed
from whorl.photos.names import near
from whorl.photos.opening import again, begun
from whorl.photos.outcome import Report
from whorl.photos.progress import Lesson, epochs
from whorl.photos.record import record
from whorl.photos.relearn import correct
from whorl.photos.store import Store

Prepared = tuple[Whorl, Intake, Listed]
"""The model, the new photos, and their labels."""


def prepare(
    folder: Path, asked: Asked, settings: Settings, store: Store | None, notify: Notify, verbose: int
) -> Prepared:
    """The model and the new photos. Nothing is written; wrong input is refused here."""
    wanted = asked.labels or (None if store else FOLDERS)
    asked.check(wanted is not None)
    model, side = begun(settings, verbose) if store is None else again(folder, store, settings, verbose)
    if store and wanted is None and asked.mixed:
        _require_exemplars(model)
    there = listed(asked.folder, wanted, notify)
    if store is None and len(set(there.labels or ())) < 2:
        raise WhorlError(f"{asked.folder} has only one class; a model needs at least two to start with")
    known = {content for (content,) in store.rows("SELECT content FROM image")} if store else set()
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


def _require_exemplars(model: Whorl) -> None:
    """Raise a ``WhorlError`` if the model cannot tell known classes from new ones."""
    way = "state the number of new classes with `new`, and that all photos are of new ones with `all_new`"
    config = model.config_
    if not len(model.memory_) and not method_of(config).needs_past:
        raise WhorlError(f"known classes are recognised by their exemplars, and this model has none; {way}")
    if config.pseudo.refresh:
        raise WhorlError(f"`pseudo.refresh`, which this model has, clusters all photos as new ones; {way}")


def teach(folder: Path, asked: Asked, store: Store, prepared: Prepared, notify: Notify) -> Report:
    """Learn a delivery that :func:`prepare` has read, and store it in one transaction."""
    model, intake, there = prepared
    corrected = correct(folder, store, model, notify) if _has_model(store) else 0
    store_paths(store, intake)
    if not intake.photos:
        return Report(None, 0, {}, {}, corrected, intake.findings.names())
    catalog = store.catalog()
    labels, planned = _labels(store, model, catalog, there, asked)
    key = _key(store, model, intake, labels, asked)
    lesson = Lesson(intake.images, labels, asked.new, asked.mixed and labels is None)
    for _ in epochs(folder, model, lesson, key):
        pass
    places = places_of(catalog, model, planned)
    delivered, weights = delivery_of(folder, model, intake, asked, places)
    report = reported(delivered, intake, model, places, corrected)
    counts = {kind: len(names) for kind, names in report.found.items() if names}
    about: dict[str, Any] = {"folder": delivered.folder, "images": report.images, **counts}
    if report.mixed:
        about["mixed"] = asdict(report.mixed)
    if model.origin_ and len(model.deliveries_) == 1:
        about["net"] = str(model.origin_)
        notify(f"network: {model.origin_}")
    with store.writing():
        event = record(store, delivered, weights, about)
    if report.junk is not None:
        names = report.found["junk"]
        notify(f"{count(len(names), 'photo')} fit no class, put into cluster {report.junk} as junk: {few(names)}")
    ((number,),) = store.rows("SELECT number FROM delivery WHERE event = ?", [event])
    return replace(report, delivery=number)


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
    corrected = correct(folder, store, again(folder, store, settings, verbose)[0], notify)
    return Report(None, 0, {}, {}, corrected, {})


def _has_model(store: Store) -> bool:
    return bool(store.rows("SELECT 1 FROM file WHERE kind = 'model'"))


def _labels(
    store: Store, model: Whorl, catalog: Catalog, there: Listed, asked: Asked
) -> tuple[Sequence[int] | None, Places]:
    """The labels as classes of the learner, and the cluster of each class: its id, and what it is if it is new."""
    stands = stored_clusters(store)
    planned: Places = {label: (cluster, None) for label, cluster in stands.items()}
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
    text = json.dumps([before, params, content, None if labels is None else list(labels), asked.new, asked.all_new])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
