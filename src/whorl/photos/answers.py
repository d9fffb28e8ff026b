"""Answers for photos: the cluster, how sure the model is, the runner-up, or "unknown"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whorl.classifier import Classifier
from whorl.data.adapt import THREADS
from whorl.data.check import SIZE as CHECK_SIZE
from whorl.data.check import failures
from whorl.data.decode import decode
from whorl.data.files import scan_all
from whorl.data.options import Notify
from whorl.data.source import FileSource
from whorl.errors import WhorlError, printable
from whorl.memory.memory import Memory
from whorl.photos.catalog import Catalog
from whorl.types import FloatArray

UNKNOWN, JUNK = "unknown", "junk"
THRESHOLD = 0.5
"""Below this probability the answer is "unknown": another cluster is as likely as the best one."""
SCALES = 2.0 ** np.arange(-1, 9)


@dataclass(frozen=True)
class Answer:
    """The answer for a photo."""

    file: str
    answer: str
    """The name of the cluster, ``cluster 12`` if it has none, ``junk``, or ``unknown``."""
    cluster: int | None
    """The id of the cluster; None if the answer is ``unknown``."""
    confidence: float
    """The probability of the best cluster."""
    runner_up: str
    runner_up_confidence: float


def shown(catalog: Catalog, cluster: int) -> str:
    """What a cluster is called in answers."""
    one = catalog.clusters[cluster]
    return JUNK if one.junk else one.name or f"cluster {cluster}"


def photos_of(places: Sequence[Path], notify: Notify) -> list[Path]:
    """The files among ``places``, and all photos of the folders among them."""
    found = list[Path]()
    for place in places:
        if place.is_dir():
            listing = scan_all(place, notify)
            found += [place / name for name in listing.names]
        elif place.exists():
            found.append(place)
        else:
            raise WhorlError(f"{printable(str(place))} does not exist; pass photos, or a folder of them")
    return found


def readable(paths: Sequence[Path], notify: Notify) -> list[Path]:
    """The photos that can be read. The others are reported; if there is none left, raises a ``WhorlError``."""
    broken = failures(range(len(paths)), lambda i: _try(paths[i]), THREADS)
    for _, why in sorted(broken.items()):
        notify(f"skipped: {why}")
    found = [path for n, path in enumerate(paths) if n not in broken]
    if not found:
        raise WhorlError("none of the photos can be read; nothing was done")
    return found


def _try(path: Path) -> None:
    decode(path, CHECK_SIZE)


def scale_of(classifier: Classifier, memory: Memory) -> float:
    """The factor for the scores before the softmax: 1 for logits; for distances, what makes exemplars most likely."""
    if classifier.rule == "fc" or not len(memory):
        return 1.0
    scores = classifier.scores(memory.source)[classifier.rule]
    rows = np.arange(len(scores))
    fits = [-np.log(np.maximum(softmax(scores, scale)[rows, memory.labels], 1e-12)).mean() for scale in SCALES]
    return float(SCALES[int(np.argmin(fits))])


def softmax(scores: FloatArray, scale: float) -> npt.NDArray[np.float64]:
    """The probabilities [n, classes] of scores, multiplied by ``scale`` first."""
    shifted = np.exp(scale * (scores.astype(np.float64) - scores.max(axis=1, keepdims=True)))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def by_cluster(
    probabilities: npt.NDArray[np.float64], classes: Sequence[int], stands: Mapping[int, int]
) -> tuple[npt.NDArray[np.float64], list[int]]:
    """The probabilities of clusters, and their ids: classes that stand for the same cluster are added up."""
    clusters = sorted(set(stands.values()))
    column = {cluster: n for n, cluster in enumerate(clusters)}
    summed = np.zeros((len(probabilities), len(clusters)))
    for n, label in enumerate(classes):
        summed[:, column[stands[label]]] += probabilities[:, n]
    return summed, clusters


def answers(
    paths: Sequence[Path],
    summed: npt.NDArray[np.float64],
    clusters: Sequence[int],
    catalog: Catalog,
    threshold: float = THRESHOLD,
) -> list[Answer]:
    """The answers from the probabilities of clusters."""
    found = list[Answer]()
    for path, row in zip(paths, summed, strict=True):
        best, second = (int(n) for n in np.argsort(-row, kind="stable")[:2]) if len(clusters) > 1 else (0, 0)
        sure = float(row[best]) >= threshold
        found.append(
            Answer(
                file=str(path),
                answer=shown(catalog, clusters[best]) if sure else UNKNOWN,
                cluster=clusters[best] if sure else None,
                confidence=float(row[best]),
                runner_up=shown(catalog, clusters[second if sure else best]),
                runner_up_confidence=float(row[second if sure else best]),
            )
        )
    return found


def source(paths: Sequence[Path], side: int) -> FileSource:
    """The photos as a source that decodes them when they are needed."""
    return FileSource(Path("/"), [str(path.absolute()) for path in paths], side)
