"""Algorithm 1: a learner, its state, and the step by which it learns a delivery."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import cache, reduce

import numpy as np
from torch import nn

from whorl import cluster
from whorl.classifier import Classifier, Name
from whorl.config import LearnerConfig
from whorl.data.inputs import Inputs
from whorl.data.source import Samples, in_memory
from whorl.data.vectors import root_mean_square
from whorl.errors import WhorlError
from whorl.fit import Purpose
from whorl.labels import extractors
from whorl.labels.labeler import Labeler
from whorl.labels.whiten import Whitening
from whorl.memory.holdout import hold_out, stored_ranks
from whorl.memory.memory import Memory
from whorl.memory.select import Selection, get_selector
from whorl.memory.update import Update, exemplar_means, updated
from whorl.methods import method_of
from whorl.methods.base import Load, Method
from whorl.nets import backbone as nets
from whorl.nets.asides import add_asides
from whorl.nets.backbone import Backbone
from whorl.nets.builder import Builder
from whorl.nets.extract import Features, extract
from whorl.nets.frozen import FrozenBackbone, Store
from whorl.nets.model import Model, weights
from whorl.nets.pretrained import Origin, origin_of
from whorl.nets.vectors import Scaled
from whorl.networks import WITHOUT, Networks, label_passes
from whorl.refine import UNLABELLED, Refinement
from whorl.reporter import Ticker
from whorl.runtime import Runtime
from whorl.seeds import derive
from whorl.state import State
from whorl.training import Halt, Tensors, Training
from whorl.types import HIDDEN, Delivery, FloatArray, ImageSource, IntArray, Labelling, granted

REFINING = -1
"""Stands for the number of a phase where random numbers are drawn for a refinement."""


class Learner:
    """A model that grows. It knows no stream: deliveries are numbered in the order they are learned.

    The learner changes only when a delivery has been learned completely. A step that is interrupted leaves it as it
    was before.
    """

    def __init__(
        self,
        config: LearnerConfig,
        inputs: Inputs,
        runtime: Runtime,
        backbone: Backbone | None = None,
        store: Store | None = None,
    ) -> None:
        self.config: LearnerConfig = config
        if config.precision == "auto":
            raise ValueError("choose a precision first, with whorl.runs.precision")
        self.runtime: Runtime = runtime.at(config.precision)
        self.given: Backbone | None = backbone
        """The backbone that was passed in, used instead of ``net.arch``."""
        self.origin: Origin | None = origin_of(backbone)
        self._builder = Builder(config.net, config.seed, inputs, self.runtime, backbone)
        self.fixed: FrozenBackbone | None = None
        """The backbone, if it is not trained; the model then learns its features."""
        if config.net.tune == "none":
            self.fixed = FrozenBackbone(self._builder.backbone(config.seed), inputs, self.runtime, store)
            self._builder = replace(self._builder, given=Scaled(self.fixed.dim))
        self.method: Method = method_of(config)
        clusterer = cluster.create(**config.cluster.model_dump())
        extractor = extractors.find(config.pseudo.features)
        self.labeler: Labeler = Labeler(config.pseudo, config.seed, extractor, clusterer)
        self.model: Model = self._builder.model()
        self.inputs: Inputs
        """How samples are prepared."""
        self._inner: Inputs
        """How the model prepares what it learns: the samples, or their features by the frozen backbone."""
        if self.fixed:
            self.inputs, self._inner = self.fixed.inputs, Inputs.vectors(self.fixed.dim)
        else:
            self._inner = nets.inputs_of(self.model.backbone, inputs).viewed(config.train.augment)
            self.inputs = self._inner
            nets.check_fit(self.model.backbone, self.inputs, self.runtime)
        if self._inner.kind == "vectors":
            _refuse_views(config)
        self.frozen: Model = self.model.frozen()
        """The model after the last delivery, for inference."""
        self._initial = self.frozen
        self._initial_weights = weights(self.model)
        self._networks = Networks.of(config, self._builder, self._inner, self.runtime)
        self._networks.check()
        self._whitening: Whitening | None = None
        self.memory: Memory = Memory(config.memory.policy, config.memory.quota)
        self.means: FloatArray | None = None
        self.sizes: tuple[int, ...] = ()
        self.names: tuple[Name, ...] = ()
        self.past: tuple[Samples, ...] = ()
        self.labels: Labelling | None = None
        """The labels of the last delivery."""
        self.settled: dict[str, float] = {}
        """What the method reported about the last step."""

    @property
    def known(self) -> int:
        """The number of classes learned so far."""
        return self.frozen.classes

    @property
    def classifier(self) -> Classifier:
        """The learner as it is now, for prediction."""
        how = self.config.classifier, self.runtime, self.fixed
        return Classifier(self.frozen, self.inputs, self.means, self.names, *how)

    def learn(
        self,
        delivery: Delivery,
        ticker: Ticker,
        resume: Halt | None = None,
        names: Sequence[Name] | Callable[[int], Sequence[Name]] = (),
    ) -> Generator[Halt, None, None]:
        """Learn a delivery: one step of Algorithm 1. Yields after each epoch; run it to the end.

        ``names`` are the names of the new classes, or a function that makes as many as are needed; by default a class
        is called by its id.
        """
        delivery = self._seen(delivery)
        self._inner.check(delivery.images)
        delivery = replace(delivery, images=self.runtime.hold(delivery.images))
        model = copy.deepcopy(self.model)
        if not self.sizes and isinstance(model.backbone, Scaled):
            model.backbone.root_mean_square.fill_(root_mean_square(delivery.images))
        features = Features(model, self._inner, self.runtime, delivery.images)
        labels = resume.labels if resume else self.label(delivery, ticker, features)
        names = names(labels.new) if callable(names) else names
        if names and len(names) != labels.new:
            raise ValueError(f"{labels.new} new classes need as many names, not {len(names)}")
        self.method.check(self.config, (*self.sizes, labels.new), delivery.labels is not HIDDEN)
        networks = self._networks
        if not self.sizes:
            networks = yield from networks.trained(delivery.images, labels, ticker, resume)
            resume = None if resume and len(resume.networks) < len(networks.models) else resume
        self._grow(model, labels.new)
        training = self._training(delivery, labels, features, networks)
        step = yield from training.run(ticker, resume)
        self._commit(training, self.method.settle(step), names, networks)

    def _seen(self, delivery: Delivery) -> Delivery:
        """The delivery as the model learns it: with features for images, if the backbone is frozen."""
        return replace(delivery, images=self.fixed(delivery.images)) if self.fixed else delivery

    def _grow(self, model: Model, new: int) -> None:
        """Add ``new`` classes to a model that is about to be trained, and the layers of its asides."""
        model.grow(new)
        self.runtime.place(model.head)
        add_asides(model, self.config.train.asides(initial=not self.sizes), self.config.seed)
        self.runtime.place(model.asides)

    def check_position(self, delivery: Delivery, halt: Halt) -> None:
        """Raise a ``WhorlError`` unless :meth:`learn` can resume this delivery from a stored position."""
        labels, model = halt.labels, copy.deepcopy(self.model)
        new = labels.new if delivery.new is None else delivery.new
        if (len(labels.ids), labels.known, labels.new) != (len(delivery.images), self.known, new):
            raise WhorlError(f"it is about {labels.new} new classes and {len(labels.ids)} samples")
        network = self._networks.check_position(halt, labels.new, not self.sizes)
        if network is None:
            self._grow(model, labels.new)
        else:
            model = network
        for state in (*halt.starts, halt.model):
            model.load(state)
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        for full, value in halt.optimiser.items():
            name, _, key = full.rpartition("/")
            if name not in shapes or (value.ndim and value.shape != shapes[name]) or not value.is_floating_point():
                raise WhorlError(f"the optimiser's {key} of {name} does not fit this network")

    def take_networks(self, networks: Sequence[Tensors]) -> None:
        """Take over the networks for pseudo labels that another learner has trained, before learning anything."""
        self._networks = self._networks.restored(networks)

    def take_over(
        self, delivery: Delivery, model: Tensors, settled: dict[str, float], networks: Sequence[Tensors] = ()
    ) -> None:
        """Learn the initial delivery by taking over the model, and the networks, that another learner ended it with."""
        labels = Labelling.of_labels(granted(delivery.labels), 0, delivery.new)
        features, delivery = Features(self._builder.model(model), self._inner, self.runtime), self._seen(delivery)
        beside = self._networks.restored(networks)
        self._commit(self._training(delivery, labels, features, beside), settled, (), beside)

    def state(self) -> State:
        """Everything needed to continue later."""
        # An extractor of another package may use the initial model as well.
        initial = {} if self.config.pseudo.features in ("current", "scratch", "pca") else self._initial_weights
        return State(
            weights(self.model),
            initial,
            self.memory.state(),
            self.means,
            self.sizes,
            self.names,
            self.inputs,
            self.past,
            self._networks.weights(),
            weights(self.fixed.net) if self.fixed else {},
            self.origin,
            self._whitening.state() if self._whitening else {},
        )

    def restore(self, state: State) -> None:
        """Become the learner with this state."""
        if self.method.needs_past and len(state.past) != len(state.sizes):
            raise ValueError(f"{self.method.name} needs all samples learned so far, and this state lacks some")
        self.sizes, self.past = state.sizes, state.past
        if self.fixed is None:
            self._builder = replace(self._builder, inputs=state.inputs)
            self.inputs = self._inner = state.inputs
        elif state.frozen:
            self.fixed.load(state.frozen)
        if self.fixed:
            self.past = tuple(replace(each, images=self.fixed(each.images)) for each in state.past)
        networks = Networks.of(self.config, self._builder, self._inner, self.runtime)
        self._networks = networks.restored(state.networks)
        self._whitening = Whitening.from_state(state.whitening) if self.config.pseudo.whiten else None
        self.model = self._builder.model(state.model)
        self.frozen = self.model.frozen()
        if state.initial:
            self._initial_weights = state.initial
            self._initial = self._builder.model(state.initial).frozen()
        self.names = state.names or tuple(range(self.known))
        self.memory = Memory.from_state(self.memory.policy, self.memory.quota, state.memory)
        self.means = state.means
        if self.means is None and len(self.memory):
            features = Features(self.model, self._inner, self.runtime)
            self.means = exemplar_means(self.memory, features(self.memory.source), features, self._mirror)

    def _training(self, delivery: Delivery, labels: Labelling, features: Features, networks: Networks) -> Training:
        """The next step, with the model of ``features`` in training."""
        return Training(
            config=self.config,
            method=self.method,
            inputs=self._inner,
            runtime=self.runtime,
            labeler=self.labeler,
            number=len(self.sizes) + 1,
            delivery=delivery,
            labels=labels,
            held=self._held_out(delivery.images, labels),
            model=features.model,
            features=features,
            previous=self.frozen,
            memory=self.memory,
            sizes=self.sizes,
            past=self.past,
            networks=() if self.sizes else networks.weights(),
        )

    def _commit(self, training: Training, settled: dict[str, float], names: Sequence[Name], networks: Networks) -> None:
        """The end of a step: freeze the model, update the memory with it, and compute the class means."""
        number, labels = training.number, training.labels
        training.model.asides.clear()
        quota = self.memory.per_class(labels.known + labels.new)
        update = Update(
            number, training.delivery.images, labels, training.held, self.method.hold_out_every, training.features
        )
        reading = self.config.memory.reading if training.delivery.labels is HIDDEN else "reuse"
        seed = derive(self.config.seed, "exemplars", number)
        selector = get_selector(self.config.memory.select)
        how = Selection(selector, quota, seed, reading, self.labeler.clusterer)
        memory, seen = updated(self.memory, update, how)
        means = exemplar_means(memory, seen, training.features, self._mirror) if len(memory) else None
        whitening = self._whitened(training, networks) if number == 1 else self._whitening
        frozen, initial = training.model.frozen(), weights(training.model) if number == 1 else self._initial_weights
        # Nothing is computed from here on, so that an interrupt cannot leave half of a step behind.
        self.model, self.frozen, self.memory, self.means = training.model, frozen, memory, means
        self._initial, self._initial_weights = frozen if number == 1 else self._initial, initial
        self._networks, self._whitening = networks, whitening
        self.labels, self.settled = labels, settled
        self.sizes = (*self.sizes, labels.new)
        self.names = (*self.names, *(names or labels.new_ids.tolist()))
        if self.method.needs_past:
            learned = Samples(_copied(training.delivery.images), labels.ids).without(labels.unsure)
            self.past = (*self.past, learned)

    def _whitened(self, training: Training, networks: Networks) -> Whitening | None:
        """How features are whitened, learned from the initial delivery, if the config asks for it."""
        if not self.config.pseudo.whiten:
            return None
        extract = networks.features if self.config.pseudo.features == "networks" else training.features
        found = self.labeler.features(training.delivery.images, extract, self._inner)
        return Whitening.fit(found, training.labels.ids)

    @property
    def _mirror(self) -> bool:
        """Whether class means include mirrored exemplars."""
        return self.config.memory.mirror and self._inner.mirrors

    def passes(self, delivery: Delivery) -> int:
        """An estimate of how many samples :meth:`learn` will train on, with their further views, in all epochs."""
        new = delivery.new or 0
        if delivery.labels is not HIDDEN:
            new = int(np.sum(np.unique(granted(delivery.labels)) >= self.known))
        past = sum(map(len, self.past)) if self.method.needs_past else len(self.memory) * self.method.needs_memory
        load = Load(len(self.sizes) + 1, self.known, new, len(delivery.images), past, self._inner)
        unlabelled = delivery.labels is HIDDEN
        for_labels = label_passes(self.config, len(delivery.images), unlabelled, not self.sizes)
        return for_labels + self.method.passes(self.config.train, load)

    def _held_out(self, images: ImageSource, labels: Labelling) -> IntArray:
        """The samples to hold out for validation: per class as many as known classes have among their exemplars."""
        every = self.method.hold_out_every
        if not every:
            return np.empty(0, dtype=np.int64)
        quota = self.memory.per_class(self.known or labels.new)
        seed = derive(self.config.seed, "hold out", len(self.sizes) + 1)
        sure = np.setdiff1d(np.arange(len(labels.ids)), labels.unsure)
        ranks = stored_ranks(self.memory, images, labels)[sure]
        return sure[hold_out(labels.ids[sure], quota, every, seed, ranks)]

    def label(self, delivery: Delivery, ticker: Ticker, features: Features | None = None) -> Labelling:
        """The labels to learn a delivery with; ``ticker`` receives the batches of a refinement."""
        delivery = self._seen(delivery)
        sight = self._refined(self.sight(features), delivery, ticker)
        exemplars = Samples(self.runtime.hold(self.memory.source), self.memory.labels)
        if not len(self.memory):
            exemplars = reduce(operator.add, self.past, exemplars)
        return self.labeler.label(delivery, len(self.sizes) + 1, self.known, sight, exemplars)

    def _refined(self, sight: extractors.Sight, delivery: Delivery, ticker: Ticker) -> extractors.Sight:
        """The same with networks refined on the delivery, if the config asks for it. They are trained when needed."""
        epochs = self.config.pseudo.refine
        if not epochs:
            return sight
        taught = np.flatnonzero(self.memory.labels < self.sizes[0]) if self.sizes else np.empty(0, dtype=np.int64)
        exemplars = Samples(self.memory.source, self.memory.labels)[taught]
        purpose = Purpose(self.config.seed, len(self.sizes) + 1, REFINING)
        refine = Refinement(epochs, self.config.train.sizes, exemplars, self._inner, self.runtime, purpose)
        delivered = Samples(delivery.images, np.full(len(delivery.images), UNLABELLED))

        def by(model: Callable[[], Model]) -> Callable[[ImageSource], FloatArray]:
            backbone = cache(lambda: refine(model().backbone, delivered, ticker))
            return lambda asked: extract(backbone(), self.model.dim, asked, self._inner, self.runtime)

        return replace(
            sight,
            current=by(lambda: copy.deepcopy(self.model)),
            initial=by(lambda: self._builder.model(self._initial_weights)),
        )

    def sight(self, features: Features | None = None) -> extractors.Sight:
        """What an extractor can use now; ``features`` are those of the current model, if they are at hand."""

        def by(backbone: nn.Module, images: ImageSource) -> FloatArray:
            return extract(backbone, self.model.dim, images, self._inner, self.runtime)

        current = features or Features(self.model, self._inner, self.runtime)
        return extractors.Sight(
            current=current,
            initial=current if len(self.sizes) == 1 else lambda images: by(self._initial.backbone, images),
            random=lambda images: by(self._builder.random_backbone(), images),
            inputs=self._inner,
            dim=self.model.dim,
            seed=self.config.seed,
            networks=self._networks.features if self._networks.models else None,
            whitening=self._whitening,
        )


def _refuse_views(config: LearnerConfig) -> None:
    """Raise a ``WhorlError`` if the config asks for something that needs views of images."""
    for name in config.train.asides(initial=True):
        raise WhorlError(f"`train.{name}` needs images, and these are vectors; set `train.{name}=never`")
    if config.pseudo.networks:
        raise WhorlError(f"`pseudo.networks` needs images, and these are vectors; {WITHOUT}")
    if config.pseudo.refine:
        raise WhorlError("`pseudo.refine` needs images, and these are vectors; set `pseudo.refine=0`")


def _copied(images: ImageSource) -> ImageSource:
    """A copy of samples in memory, which the caller may change later. Others are read again when they are needed."""
    return in_memory(images.read(np.arange(len(images)))) if images.resident else images
