"""What a learned delivery adds to a model folder: where its photos are, and the files that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from whorl.estimator import Whorl
from whorl.photos import files
from whorl.photos.answers import softmax
from whorl.photos.asked import Asked
from whorl.photos.catalog import NEW, Catalog, Cluster
from whorl.photos.intake import Intake, hashed
from whorl.photos.outcome import Report, mixed_of
from whorl.photos.record import Arrival, Delivered, Weights
from whorl.photos.relearn import weights_of
from whorl.runs.files import write_tensors
from whorl.runtime import threads_for
from whorl.types import FloatArray

Places = dict[int | None, tuple[int, Cluster | None]]
"""The cluster of each class of the learner, and what the cluster is if it is new. Photos without a class are junk."""


def places_of(catalog: Catalog, model: Whorl, planned: Places) -> Places:
    """The clusters of all classes of the delivery that the model has just learned, beginning with the planned ones."""
    places = dict(planned)
    free = max([catalog.free, *(cluster + 1 for cluster, _ in places.values())])
    fresh: list[int | None] = [*sorted(set(map(int, model.labels_)) - places.keys())]
    kinds = [NEW] * len(fresh)
    if len(model.junk_):
        fresh.append(None)
        kinds.append(Cluster(junk=True))
    return places | {label: (free + n, kind) for n, (label, kind) in enumerate(zip(fresh, kinds, strict=True))}


def delivery_of(
    folder: Path, model: Whorl, intake: Intake, asked: Asked, places: Mapping[int | None, tuple[int, Cluster | None]]
) -> tuple[Delivered, Weights]:
    """What was learned, with the files of the features and of the model, which are written here."""
    classifier, junk = model.classifier_, set(model.junk_.tolist())
    with threads_for(model.config_.net.arch):
        seen = classifier.seen(intake.images)
        features = classifier.features(seen)
    stored = seen.read(np.arange(len(seen))).numpy() if classifier.frozen else features
    weights = weights_of(folder, model)
    chances = softmax(classifier.scores_of(features)[classifier.rule], weights.scale)
    columns = np.searchsorted(model.classes_, model.labels_)
    labels = [None if n in junk else int(label) for n, label in enumerate(model.labels_)]
    arrivals = [
        Arrival(
            content=photo.content,
            pixels=hashed(stored[n]) if classifier.frozen else photo.pixels,
            path=photo.path,
            kept=files.keep_photo(folder, Path(photo.path), photo.content) if asked.keep else None,
            bytes=photo.bytes,
            taken=photo.taken,
            cluster=places[label][0],
            label=label,
            sure=None if label is None else float(chances[n, columns[n]]),
        )
        for n, (photo, label) in enumerate(zip(intake.photos, labels, strict=True))
    ]
    made = {cluster: one for label in dict.fromkeys(labels) for cluster, one in [places[label]] if one is not None}
    labelled = model.deliveries_[-1].labelled
    file = files.add(folder, "features", lambda work: _written(work / "features", stored))
    return Delivered(str(asked.folder.absolute()), labelled, arrivals, dict(sorted(made.items())), file), weights


def reported(delivered: Delivered, intake: Intake, model: Whorl, places: Places, corrected: int) -> Report:
    """The report of a delivery, which has no number yet."""
    learned = [one.cluster for one in delivered.arrivals if one.label is not None]
    made = {id: one.name for id, one in delivered.made.items() if not one.junk}
    junk = [name for name, one in zip(intake.names, delivered.arrivals, strict=True) if one.label is None]
    found = model.found_
    return Report(
        delivery=None,
        images=len(learned),
        made=made,
        joined={id: learned.count(id) for id in sorted(set(learned)) if id not in made},
        corrected=corrected,
        found={**intake.findings.names(), "junk": junk},
        mixed=mixed_of(found, {label: id for label, (id, _) in places.items() if label is not None}) if found else None,
        junk=next((id for id, one in delivered.made.items() if one.junk), None),
    )


def _written(path: Path, features: FloatArray) -> Path:
    write_tensors(path, {"features": torch.from_numpy(features)})
    return path
