"""The classifier: an immutable snapshot of a learner, for evaluation, prediction and export."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from whorl.data.inputs import Inputs
from whorl.memory.nme import nme_scores
from whorl.nets.extract import extract
from whorl.nets.frozen import FrozenBackbone
from whorl.nets.heads import MeansHead
from whorl.nets.model import Model
from whorl.runtime import Runtime
from whorl.types import FloatArray, ImageSource, IntArray

Name = str | int


@dataclass(frozen=True, eq=False)
class Classifier:
    """A frozen network with its input preparation, class means and class names.

    Attributes
    ----------
    net : Model
        Backbone and head, frozen: eval mode, no gradient, batch norm folded into the convolutions.
    inputs : Inputs
        How samples are prepared.
    means : ndarray or None
        The mean feature of each class's exemplars, at length one; None without exemplars.
    names : tuple of str or int
        The name of each class, by id.
    rule : str
        The classifier whose answers count: ``fc`` or ``nme``.
    runtime : Runtime
        Device and precision.
    frozen : FrozenBackbone or None
        The backbone that samples pass before the network, if it was not trained.
    """

    net: Model
    inputs: Inputs
    means: FloatArray | None
    names: tuple[Name, ...]
    rule: str
    runtime: Runtime
    frozen: FrozenBackbone | None = None

    def __post_init__(self) -> None:
        if self.means is not None:
            means = self.means.view()
            means.setflags(write=False)
            object.__setattr__(self, "means", means)

    def seen(self, images: ImageSource) -> ImageSource:
        """The samples as the network sees them: their features, if there is a frozen backbone before it."""
        return self.frozen(images) if self.frozen else images

    def features(self, images: ImageSource) -> FloatArray:
        """The features [n, dim] of the samples."""
        images, inputs = self.seen(images), Inputs.vectors(self.frozen.dim) if self.frozen else self.inputs
        inputs.check(images)
        return extract(self.net.backbone, self.net.dim, images, inputs, self.runtime)

    def scores(self, images: ImageSource) -> dict[str, FloatArray]:
        """Scores [n, classes] by every classifier that is available; the highest score wins.

        ``fc`` are the logits of the head, ``nme`` is the nearness to the means of the exemplars, and ``ncm`` the
        nearness to the running class means, for heads that keep them.
        """
        return self.scores_of(self.features(images))

    def scores_of(self, features: FloatArray) -> dict[str, FloatArray]:
        """The scores of samples with these features [n, dim]."""
        head = self.net.head
        with torch.inference_mode():
            logits = head(torch.from_numpy(features).to(self.runtime.device)).float().cpu().numpy()
        found = {"fc": logits}
        if self.means is not None:
            found["nme"] = nme_scores(features, self.means)
        if isinstance(head, MeansHead):
            found["ncm"] = nme_scores(features, F.normalize(head.means, dim=1).cpu().numpy())
        return found

    def predict(self, images: ImageSource) -> IntArray:
        """The class id of each sample."""
        return np.asarray(self.scores(images)[self.rule].argmax(axis=1), dtype=np.int64)

    def probabilities(self, images: ImageSource) -> FloatArray:
        """The softmax of the scores [n, classes]. Not calibrated."""
        scores = torch.from_numpy(self.scores(images)[self.rule])
        return torch.softmax(scores.double(), dim=1).float().numpy()
