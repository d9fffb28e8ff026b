"""Networks that are trained on the initial delivery for pseudo labels alone.

Besides the labels, they learn which class is turned by how much, and which two views show the same image. The clusters
of later deliveries are found in their features. These tell unknown classes apart better than the features of a model
that was trained on the labels of a few classes, and they do not change when the model learns wrong pseudo labels.
Networks with other random weights err differently, so the features of several are clustered side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import nn

from whorl import refine
from whorl.config import LearnerConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.errors import WhorlError, count
from whorl.fit import Diverged, Purpose, fit
from whorl.methods.base import Phase
from whorl.methods.losses import classify
from whorl.nets.asides import add_asides, asides_of, views_per_image
from whorl.nets.backbone import check_fit
from whorl.nets.builder import Builder
from whorl.nets.extract import extract
from whorl.nets.model import Model, weights
from whorl.nets.resnet import fold
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.sections import OptimConfig
from whorl.seeds import derive
from whorl.training import Halt, Tensors, recorded
from whorl.types import FloatArray, ImageSource, Labelling

ASIDES = ("rotations", "contrast")
BATCH = 64
OPTIM = OptimConfig(lr=0.2, nesterov=True, weight_decay=5e-4, schedule="onecycle")
"""Those of the recipe ``fast``, for every recipe and method: the labels do not depend on what learns them."""
WITHOUT = "set `pseudo.networks=0`, and `pseudo.features` to current or first"
"""How to do without networks."""


@dataclass(frozen=True)
class Networks:
    """The networks of a learner: how they are trained, and ``models``, those that are trained already."""

    config: LearnerConfig
    builder: Builder
    inputs: Inputs
    runtime: Runtime
    models: tuple[Model, ...] = ()

    @classmethod
    def of(cls, config: LearnerConfig, builder: Builder, inputs: Inputs, runtime: Runtime) -> Networks:
        """The networks that the config asks for, none of them trained yet."""
        return cls(config, builder.beside(config.pseudo.arch, config.seed), inputs, runtime)

    def check(self) -> None:
        """Raise a ``WhorlError`` unless networks of the asked architecture take the inputs."""
        if self.config.pseudo.networks:
            check_fit(self.builder.model().backbone, self.inputs, self.runtime, self.builder.key)

    def trained(
        self, images: ImageSource, labels: Labelling, ticker: Ticker, resume: Halt | None
    ) -> Generator[Halt, None, Networks]:
        """The networks after learning the initial delivery, one after the other. Yields after each epoch."""
        done = self.restored(resume.networks, complete=False) if resume else self
        while len(done.models) < self.config.pseudo.networks:
            model = yield from done._next(Samples(images, labels.ids), labels, ticker, resume)
            done, resume = replace(done, models=(*done.models, model)), None
        return done

    def _next(
        self, data: Samples, labels: Labelling, ticker: Ticker, resume: Halt | None
    ) -> Generator[Halt, None, Model]:
        """Train the next network."""
        model = self._new(labels.new)
        begin, start = (0, Tensors()), weights(model)
        if resume:
            model.load(resume.model)
            begin = resume.epoch + 1, resume.optimiser
        train, asides = self.config.train, asides_of(model, self.inputs)
        name, epochs = f"network {len(self.models) + 1}", train.first_epochs
        phase = Phase(name, data, classify, epochs, BATCH, OPTIM, sizes=train.sizes, asides=asides)
        purpose = Purpose(model.seed, 1, 0)
        try:
            for epoch in fit(phase, model, self.inputs, self.runtime, purpose, ticker, begin):
                record = recorded(epoch, 1, phase)
                yield Halt(0, epoch.epoch, labels, weights(model), epoch.optimiser, (start,), record, self.weights())
        except Diverged:
            raise WhorlError(f"{name} for pseudo labels diverged; {WITHOUT}") from None
        model.asides.clear()
        return model

    def _new(self, classes: int) -> Model:
        """The next network before it is trained."""
        seed = derive(self.config.seed, "network", len(self.models) + 1)
        model = replace(self.builder, seed=seed).model()
        model.grow(classes)
        add_asides(model, ASIDES, seed)
        return self.runtime.place(model)

    def check_position(self, halt: Halt, classes: int, initial: bool) -> Model | None:
        """The network that was in training at a stored position, untrained, or None if it was the model itself.

        Raises a ``WhorlError`` if the networks of the position are not those of this config.
        """
        wanted = self.config.pseudo.networks if initial else 0
        if len(halt.networks) > wanted:
            raise WhorlError(f"it has {count(len(halt.networks), 'network')} for pseudo labels, not {wanted}")
        done = self.restored(halt.networks, complete=False)
        return done._new(classes) if len(halt.networks) < wanted else None

    def restored(self, stored: Sequence[Tensors], complete: bool = True) -> Networks:
        """These networks with stored weights; ``complete`` requires as many as the config asks for."""
        wanted = self.config.pseudo.networks
        if complete and len(stored) != wanted:
            raise WhorlError(f"it has {count(len(stored), 'network')} for pseudo labels, not {wanted}")
        return replace(self, models=tuple(map(self.builder.model, stored)))

    def weights(self) -> tuple[Tensors, ...]:
        """The weights of the trained networks."""
        return tuple(map(weights, self.models))

    @cached_property
    def _frozen(self) -> list[nn.Module]:
        return [fold(model.backbone) for model in self.models]

    def features(self, images: ImageSource) -> FloatArray:
        """The features of the samples by all networks, side by side."""
        found = [
            extract(backbone, model.dim, images, self.inputs, self.runtime)
            for backbone, model in zip(self._frozen, self.models, strict=True)
        ]
        return np.concatenate(found, axis=1)


def label_passes(config: LearnerConfig, images: int, unlabelled: bool, initial: bool) -> int:
    """How many images are trained on for the pseudo labels of a delivery, or in the ``initial`` one for later ones.

    Further views of an image count like images.
    """
    if initial:
        return round(views_per_image(ASIDES) * config.pseudo.networks * config.train.first_epochs * images)
    return refine.passes(config.pseudo.refine, images) if unlabelled else 0
