"""Clusterers by name. Other packages register theirs as entry points of the group ``whorl.cluster``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whorl import registry
from whorl.cluster.agglomerative import Agglomerative
from whorl.cluster.base import Clusterer, Clusters
from whorl.cluster.gmm import GMM
from whorl.cluster.kmeans import KMeans
from whorl.cluster.sinkhorn import Sinkhorn
from whorl.cluster.spectral import Spectral

CLUSTERERS: dict[str, Callable[..., Clusterer]] = {
    "kmeans": KMeans,
    "gmm": GMM,
    "spectral": Spectral,
    "agglomerative": Agglomerative,
    "sinkhorn": Sinkhorn,
}
"""Built-in clusterers: name → class, which takes the fields of ``Options`` as keyword arguments."""


def create(name: str, **options: Any) -> Clusterer:
    """Create the clusterer ``name`` with these options."""
    return registry.find("clusterer", name, CLUSTERERS, "whorl.cluster")(**options)


__all__ = [
    "CLUSTERERS",
    "GMM",
    "Agglomerative",
    "Clusterer",
    "Clusters",
    "KMeans",
    "Sinkhorn",
    "Spectral",
    "create",
]
