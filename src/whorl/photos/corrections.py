"""What the learner has to learn again, since people have merged, split or moved images, or called them junk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from whorl.photos.store import Store

Seen = tuple[int | None, int]
"""Of an image: the learner's class that it was learned as, None if it has none, and the cluster that it is in now."""


@dataclass(frozen=True)
class Correction:
    """How classes and clusters differ."""

    classes: Mapping[int, int | None]
    """What becomes of each class: itself, the class that it is merged with, or None for junk."""
    label: Mapping[int, int]
    """The class of each cluster that is not junk. The classes of clusters in ``fresh`` are new."""
    fresh: tuple[int, ...]
    """Clusters that the learner has no class for, as after a split."""
    affected: tuple[int, ...]
    """Clusters whose images were learned as something else, or with images that have left since."""

    @property
    def pending(self) -> bool:
        """Whether there is something to learn."""
        return bool(self.affected) or None in self.classes.values()


def clusters_of(counts: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """The cluster that each class stands for: where most of its images are; of equal ones, the oldest.

    ``counts`` are (class, cluster, number of images).
    """
    best: dict[int, tuple[int, int]] = {}
    for label, cluster, images in counts:
        best[label] = max(best.get(label, (0, 0)), (images, -cluster))
    return {label: -cluster for label, (_, cluster) in sorted(best.items())}


def stored_clusters(store: Store) -> dict[int, int]:
    """The cluster that each class of the stored model stands for now."""
    query = "SELECT class, cluster, count(*) FROM image WHERE class IS NOT NULL GROUP BY class, cluster"
    return clusters_of((row[0], row[1], row[2]) for row in store.rows(query))


def correction(images: Iterable[Seen], junk: Iterable[int], free: int) -> Correction:
    """What differs between classes and clusters. New classes are numbered from ``free`` on."""
    counted, dropped = Counter(images), set(junk)
    stands = clusters_of((label, cluster, count) for (label, cluster), count in counted.items() if label is not None)
    first: dict[int, int] = {}
    for label, cluster in stands.items():
        if cluster not in dropped:
            first.setdefault(cluster, label)
    classes = {label: None if cluster in dropped else first[cluster] for label, cluster in stands.items()}
    fresh = sorted({cluster for _, cluster in counted} - dropped - set(first))
    label_of = first | {cluster: free + n for n, cluster in enumerate(fresh)}
    affected = set(fresh)
    for seen, cluster in counted:
        if seen is None:
            affected.add(cluster)
        elif stands[seen] != cluster:
            affected |= {stands[seen], cluster}
        elif classes[seen] != seen:
            affected.add(cluster)
    return Correction(classes, dict(sorted(label_of.items())), tuple(fresh), tuple(sorted(affected - dropped)))
