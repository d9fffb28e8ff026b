"""Splitting a cluster by the stored features of its images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whorl import cluster as clusterers
from whorl.errors import WhorlError
from whorl.photos.features import stored_features
from whorl.photos.store import Store
from whorl.seeds import derive


def parts(folder: Path, store: Store, cluster: int, k: int) -> list[list[int]]:
    """The images of a cluster in ``k`` parts, by k-means on their features at length one.

    The features are those that were stored with the delivery that brought an image.
    """
    rows = store.rows("SELECT id, delivery, row FROM image WHERE cluster = ? ORDER BY id", [cluster])
    if not 2 <= k <= len(rows):
        raise WhorlError(f"`into` must be between 2 and {len(rows)}, the number of images in cluster {cluster}")
    points = stored_features(folder, store, [(delivery, row) for _, delivery, row in rows])
    labels = clusterers.create("kmeans", l2=True).fit_predict(points, k, derive(0, "split", cluster, k)).labels
    return [[rows[n][0] for n in np.flatnonzero(labels == part)] for part in range(k)]
