"""Model folders without a learner, and folders of photos made of the digits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whorl.photos.catalog import NEW, Cluster
from whorl.photos.record import Arrival, Delivered, Stored, record
from whorl.photos.schema import create
from whorl.photos.store import Store


def fake_store(folder: Path) -> Store:
    """A model folder that has learned nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    create(folder)
    return Store(folder)


def deliver(store: Store, sizes: Mapping[int, int], names: Mapping[int, str] | None = None) -> int:
    """Add images to clusters (number of images by cluster id), as learning a delivery does; returns the event."""
    known = store.catalog().clusters
    (first,) = store.rows("SELECT count(*) FROM image")[0]
    arrivals, made = list[Arrival](), dict[int, Cluster]()
    for cluster, size in sizes.items():
        if cluster not in known:
            made[cluster] = Cluster((names or {}).get(cluster)) if cluster in (names or {}) else NEW
        for _ in range(size):
            number = first + len(arrivals) + 1
            content = number.to_bytes(16, "big")
            arrivals.append(
                Arrival(content, content, f"/photos/{number}.png", None, 100, None, cluster, cluster, 0.5)
            )
    (count,) = store.rows("SELECT count(*) FROM delivery")[0]
    files = [Stored(f"{kind}-{count}", kind, 1) for kind in ("features", "model")]
    with store.writing():
        return record(store, Delivered("/photos", False, arrivals, made, files[0]), files[1], {})
