"""The labeler: lines 6 to 8 of Algorithm 1, from features to the labels a delivery is learned with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from whorl.cluster import Clusterer
from whorl.cluster.base import require_finite, unit_rows
from whorl.data.inputs import Inputs
from whorl.data.source import Concat, Samples, Turned
from whorl.errors import WhorlError
from whorl.labels.extractors import Extractor, Sight
from whorl.labels.mixed import split
from whorl.labels.trust import unsure
from whorl.metrics.match import aligned
from whorl.sections import PseudoConfig
from whorl.seeds import derive
from whorl.types import HIDDEN, Delivery, FloatArray, ImageSource, IntArray, Labelling, granted


@dataclass
class Labeler:
    """Makes the labels of a delivery: the given ones, or one new class per cluster of its features."""

    config: PseudoConfig
    seed: int
    extractor: Extractor
    clusterer: Clusterer

    def label(
        self, delivery: Delivery, number: int, known: int, sight: Sight, exemplars: Samples | None = None
    ) -> Labelling:
        """The labels of delivery ``number``, for a learner that knows ``known`` classes.

        ``exemplars`` are those of the known classes; a mixed delivery needs them.
        """
        if delivery.labels is not HIDDEN:
            labels, count = granted(delivery.labels), len(delivery.images)
            if len(labels) != count:
                raise WhorlError(f"there are {count} samples but {len(labels)} labels")
            return Labelling.of_labels(labels, known, delivery.new)
        if delivery.new is None and not delivery.mixed:
            raise WhorlError("this delivery has no labels; state how many new classes to look for with `new`")
        if not known:
            raise WhorlError("the initial delivery needs labels; later ones can come without")
        if delivery.mixed:
            return self._split(delivery, number, known, sight, exemplars)
        features = self._clustered(delivery.images, sight)
        assert delivery.new is not None
        groups = self.clusterer.fit_predict(features, delivery.new, derive(self.seed, "cluster", number)).labels
        return self._labelling(features, groups, known, delivery.new)

    def _clustered(self, images: ImageSource, sight: Sight) -> FloatArray:
        """The features of samples as they are clustered."""
        features = self.features(images, lambda images: self.extractor(images, sight), sight.inputs)
        return sight.whitening(features) if sight.whitening else features

    def _split(self, delivery: Delivery, number: int, known: int, sight: Sight, exemplars: Samples | None) -> Labelling:
        """The labels of a mixed delivery."""
        if exemplars is None or not len(exemplars):
            raise WhorlError(
                "known classes are recognised by their exemplars; set `memory.quota` to 1 or more, or state that all "
                "samples are of new classes, with `new` and `mixed=False`"
            )
        if self.config.refresh:
            raise WhorlError("`pseudo.refresh` clusters all samples again; set `pseudo.refresh=0`, or `mixed=False`")
        count = len(delivery.images)
        if not 0 <= (delivery.new or 0) <= count:
            raise WhorlError(f"cannot find {delivery.new} new classes in {count} samples; `new` must be 0 to {count}")
        # At once, because an extractor may be fitted on what it receives.
        features = self._clustered(Concat([exemplars.images, delivery.images]), sight)
        require_finite(features)
        parts = features[: len(exemplars)], features[len(exemplars) :]
        return split(*parts, exemplars.labels, known, delivery.new, self.clusterer, derive(self.seed, "mixed", number))

    def _labelling(self, features: FloatArray, groups: IntArray, known: int, new: int) -> Labelling:
        """One new class per group; the part of each group that is not trusted is neither learned nor stored."""
        points = unit_rows(features) if getattr(self.clusterer, "l2", False) else features
        return Labelling.of_groups(groups, known, new, unsure(points, groups, new, self.config.trust))

    def features(self, images: ImageSource, extract: Callable[[ImageSource], FloatArray], inputs: Inputs) -> FloatArray:
        """The features by ``extract``, transformed as ``pseudo.transform`` says."""
        if self.config.transform == "none":
            return extract(images)
        turns = range(4 if self.config.transform == "turns" and inputs.kind == "images" else 1)
        mirrors = (False, True) if inputs.mirrors else (False,)
        networks = self.config.networks if self.config.features == "networks" else 1

        def by_network(turn: int, mirror: bool) -> list[FloatArray]:
            return np.split(extract(_seen(images, turn, mirror)), networks, axis=1)

        views = [zip(*(by_network(turn, mirror) for mirror in mirrors), strict=True) for turn in turns]
        return side_by_side([mirrored for turned in views for mirrored in turned])

    def due(self, delivery: Delivery, done: int, epochs: int) -> bool:
        """Whether to cluster again after ``done`` of the ``epochs`` epochs of phase 0 (UPL-K)."""
        every = self.config.refresh
        return delivery.labels is HIDDEN and every > 0 and done % every == 0 and done < epochs

    def refreshed(self, labels: Labelling, features: FloatArray, number: int, done: int) -> Labelling:
        """New labels from the current features, after ``done`` epochs (docs/protocol.md, A30)."""
        seed = derive(self.seed, "cluster", number, done)
        groups = self.clusterer.fit_predict(features, labels.new, seed).labels
        if self.config.ids == "aligned":
            groups = aligned(groups, labels.ids - labels.known, labels.new)
        return self._labelling(features, groups, labels.known, labels.new)


def side_by_side(features: Sequence[Sequence[FloatArray]]) -> FloatArray:
    """For each group of views: the mean of their features, the square root, scaled to length one; joined as columns.

    The square root of a negative value is that of its magnitude, with its sign.
    """
    parts = list[FloatArray]()
    for views in features:
        mean = np.mean(views, axis=0)
        roots = np.sign(mean) * np.sqrt(np.abs(mean))
        length = np.linalg.norm(roots, axis=1, keepdims=True)
        parts.append(np.asarray(roots / np.maximum(length, np.finfo(np.float32).tiny), dtype=np.float32))
    return np.concatenate(parts, axis=1)


def _seen(images: ImageSource, turns: int, mirror: bool) -> ImageSource:
    """The images in another view; the source itself for upright ones, whose features may be at hand."""
    return Turned(images, turns, mirror) if turns or mirror else images
