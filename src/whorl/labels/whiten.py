"""Whitening: features scaled by how much they vary within the labelled classes.

A direction in which images of one class differ says little about which class they belong to, for new classes as for
known ones. Dividing by the spread within the classes of the initial delivery, whose labels are known, makes such
directions count less when later deliveries are clustered (Hatch et al. 2006, "Within-class covariance normalization for
SVM-based speaker recognition").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whorl.cluster.base import reproducible, unit_rows
from whorl.errors import WhorlError
from whorl.types import FloatArray, IntArray

SHRINKAGE = 0.1
"""The weight of a covariance with equal variances in the estimate, which keeps small variances from being blown up."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """Subtracts ``mean`` [d], multiplies by ``matrix`` [d, d], and scales each row to length one."""

    mean: FloatArray
    matrix: FloatArray

    @classmethod
    def fit(cls, features: FloatArray, labels: IntArray) -> Whitening:
        """The whitening by the covariance within the classes of labelled features [n, d]."""
        points = features.astype(np.float64)
        classes, numbers = np.unique(labels, return_inverse=True)
        means = np.stack([points[numbers == j].mean(axis=0) for j in range(len(classes))])
        rest, d = points - means[numbers], points.shape[1]
        with reproducible():
            covariance = rest.T @ rest / len(points)
            equal = np.trace(covariance) / d or 1.0  # 1 if no class varies
            shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * equal * np.eye(d)
            values, vectors = np.linalg.eigh(shrunk)
            matrix = vectors / np.sqrt(values) @ vectors.T
        return cls(points.mean(axis=0).astype(np.float32), matrix.astype(np.float32))

    def __call__(self, features: FloatArray) -> FloatArray:
        """Whitened features of length one."""
        with reproducible():
            found = (features - self.mean) @ self.matrix
        return np.asarray(unit_rows(found), dtype=np.float32)

    def state(self) -> dict[str, Tensor]:
        """The two arrays by name, to be stored."""
        return {"mean": torch.from_numpy(self.mean), "matrix": torch.from_numpy(self.matrix)}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Whitening:
        """What :meth:`state` returned; raises a ``WhorlError`` if that is something else."""
        mean, matrix = state.get("mean"), state.get("matrix")
        if mean is None or matrix is None:
            raise WhorlError("it has no whitening of features for pseudo labels")
        fits = mean.ndim == 1 and matrix.shape == (len(mean), len(mean))
        if not fits or mean.dtype != torch.float32 or matrix.dtype != torch.float32:
            raise WhorlError("its whitening of features is damaged")
        return cls(mean.numpy(), matrix.numpy())
