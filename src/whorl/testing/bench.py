"""Small data, learners on a bench, and exact comparisons: what the batteries are made of."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from whorl.config import LearnerConfig
from whorl.data import DataOptions, load
from whorl.data.inputs import Inputs
from whorl.data.source import Samples, VectorSource
from whorl.engine import Learner
from whorl.errors import HiddenLabelError
from whorl.methods import method_class
from whorl.nets.backbone import Backbone
from whorl.nets.model import weights
from whorl.recipes import resolve_learner
from whorl.reporter import Silent
from whorl.runs import checkpoint
from whorl.runtime import Runtime, threads_for
from whorl.training import Halt
from whorl.tree import Tree, merge
from whorl.types import HIDDEN, Delivery, ImageSource, IntArray

T = TypeVar("T")
Tensors = dict[str, Tensor]
_SEEDS = count()


class BrokenPromise(AssertionError):
    """A check of a battery has failed. The message says which one."""


def require(holds: bool, message: str) -> None:
    """Raise a ``BrokenPromise`` with this message unless ``holds``."""
    if not holds:
        raise BrokenPromise(message)


@contextmanager
def no_errors(doing: object) -> Iterator[None]:
    """Turn any exception of the component into a ``BrokenPromise`` of one line; ``doing`` says when it was raised."""
    try:
        yield
    except BrokenPromise:
        raise
    except HiddenLabelError as error:
        raise BrokenPromise(f"{doing}: hidden labels were used: {error}") from error
    except Exception as error:  # third-party code may raise anything
        message = " ".join([f"{type(error).__name__}:", *str(error).split()]).rstrip(":")
        raise BrokenPromise(f"{doing}: {message}") from error


def require_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str) -> None:
    """Raise an ``AssertionError`` unless both hold the same tensors, bit for bit."""
    require(found.keys() == expected.keys(), f"{what}: other tensors are stored: {set(found) ^ set(expected)}")
    different = [name for name in expected if not torch.equal(found[name], expected[name])]
    require(not different, f"{what}: {', '.join(different[:5])} differ in {len(different)} of {len(expected)} tensors")


@contextmanager
def registered(registry: dict[str, T], component: str | T, name: str) -> Iterator[str]:
    """The name of a component; one that is given as an object is registered as ``name`` meanwhile.

    Meanwhile torch uses one thread, since the networks and deliveries of the batteries are small.
    """
    with threads_for("tiny"):
        if isinstance(component, str):
            yield component
            return
        before = registry.get(name)
        registry[name] = component
        try:
            yield name
        finally:
            del registry[name]
            if before is not None:
                registry[name] = before


class Guarded:
    """Samples that refuse to tell their labels, for deliveries without labels."""

    resident = True

    def __init__(self, source: ImageSource, indices: IntArray) -> None:
        self.samples: Tensor = source.read(indices)
        self.size: int = source.size

    def __len__(self) -> int:
        return len(self.samples)

    def read(self, indices: IntArray) -> Tensor:
        """The samples at ``indices``."""
        return self.samples.index_select(0, torch.as_tensor(indices, dtype=torch.int64))

    @property
    def labels(self) -> NoReturn:
        """Raises: nothing that learns may look for labels here."""
        raise HiddenLabelError("labels were looked for beside the images")


@dataclass(frozen=True)
class Parcel:
    """The recipe of a delivery: which samples of each class, and whether their labels are given."""

    classes: Mapping[int, tuple[int, int]]
    """By class, the range of its samples."""
    new: int
    hidden: bool = False

    def __str__(self) -> str:
        known = len(self.classes) - self.new
        labels = "without labels" if self.hidden else "with labels"
        return f"learning a delivery of {self.new} new and {known} known classes {labels}"


@dataclass(frozen=True)
class Material:
    """Six classes of samples that can be learned, and how they are prepared."""

    inputs: Inputs
    train: ImageSource
    labels: IntArray
    test: ImageSource

    def deliver(self, parcel: Parcel) -> Delivery:
        """A delivery of new objects, its samples in an order that does not tell their classes."""
        rows = [np.flatnonzero(self.labels == c)[slice(*part)] for c, part in parcel.classes.items()]
        mixed = np.random.default_rng(0).permutation(np.concatenate(rows))
        labels = HIDDEN if parcel.hidden else self.labels[mixed]
        return Delivery(Guarded(self.train, mixed), labels, parcel.new)


@cache
def images(size: int = 8) -> Material:
    """Textures of ``size`` × ``size`` pixels."""
    data = load("synthetic", None, DataOptions(resize=size, per_class=20, classes=6))
    return Material(data.inputs, data.train, data.train_labels, data.test)


@cache
def vectors(size: int = 12) -> Material:
    """Gaussian blobs of ``size`` dimensions."""
    draws = np.random.default_rng(0)
    centres, labels = 3 * draws.normal(size=(6, size)), np.repeat(np.arange(6), 20)
    points = torch.from_numpy((centres[labels] + draws.normal(size=(120, size))).astype(np.float32))
    return Material(Inputs.vectors(size, 3.0), VectorSource(points), labels, VectorSource(points[::5].clone()))


INITIAL = Parcel({0: (0, 14), 1: (0, 14)}, 2)
NEW = Parcel({2: (0, 14), 3: (0, 14)}, 2)
MIXED = Parcel({4: (0, 14), 5: (0, 14), 0: (14, 20), 2: (14, 20)}, 2)
"""Two new classes, and further samples of two known ones."""
KNOWN = Parcel({1: (14, 20), 3: (14, 20)}, 0)
"""Only samples of known classes."""


def hidden(parcel: Parcel) -> Parcel:
    """The same delivery without labels."""
    return replace(parcel, hidden=True)


@contextmanager
def extractions(kind: type[nn.Module]) -> Iterator[Counter[str]]:
    """Counts how often backbones of this class extract the features of each sample with the same weights."""
    found: Counter[str] = Counter()

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if type(module) is kind and torch.is_inference_mode_enabled():
            tensors = [*module.parameters(), *module.buffers()]
            state = _digest([value.detach().contiguous().numpy().tobytes() for value in tensors])
            found.update(state + _digest([row.contiguous().numpy().tobytes()]) for row in args[0])

    hook = register_module_forward_pre_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def _digest(parts: Sequence[bytes]) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Lesson:
    """A delivery that a learner has learned, the positions it passed, and what it became."""

    parcel: Parcel
    halts: tuple[Path, ...]
    after: Tensors
    settled: dict[str, float]
    past: tuple[Samples, ...]
    labels: IntArray
    repeated: int
    """How many samples were extracted more than once with the same weights."""


def content(learner: Learner) -> Tensors:
    """Everything a learner has learned, as copies of its tensors."""
    state = learner.state()
    found = {f"model.{name}": value for name, value in state.model.items()}
    found |= {f"memory.{name}": value.clone() for name, value in state.memory.items()}
    if state.means is not None:
        found["means"] = torch.from_numpy(state.means)
    return found | {"sizes": torch.tensor(state.sizes), "names": torch.tensor([int(name) for name in state.names])}


@dataclass
class Bench:
    """Learners of one config, taught one delivery after another, with every position stored in a folder."""

    config: LearnerConfig
    material: Material
    folder: Path
    backbone: Backbone | None = None
    lessons: list[Lesson] = field(default_factory=list)

    @classmethod
    def of(cls, method: str, material: Material, folder: Path, settings: Tree | None = None) -> Bench:
        """A bench for a method, trained for two epochs with as little as possible; ``settings`` win."""
        made = method_class(method)
        base: Tree = {
            "recipe": "demo",
            "method": {"name": method},
            "net": {"arch": "tiny" if material.inputs.kind == "images" else "mlp"},
            "train": {"first_epochs": 2, "epochs": 1 if made.online else 2, "batch": 16},
            "cluster": {"restarts": 2},
        }
        if made.needs_memory:
            base["memory"] = {"quota": 4}
        folder.mkdir(parents=True, exist_ok=True)
        return cls(resolve_learner(merge(base, settings or {}), material.inputs), material, folder)

    def branch(self, name: str, lessons: int, settings: Tree | None = None) -> Bench:
        """Another bench that goes on after the first ``lessons`` lessons of this one, with other settings."""
        folder = self.folder / name
        folder.mkdir()
        for path in self.folder.glob("*.safetensors"):
            (folder / path.name).write_bytes(path.read_bytes())
        config = resolve_learner(merge(self.config.tree(), settings or {}), self.material.inputs)
        return Bench(config, self.material, folder, self.backbone, self.lessons[:lessons])

    def learner(self, lessons: int | None = None) -> Learner:
        """A learner after the first ``lessons`` lessons (all of them by default), restored from its files."""
        made = Learner(self.config, self.material.inputs, Runtime(), self.backbone)
        done = len(self.lessons) if lessons is None else lessons
        if done:
            state = checkpoint.load_task(self.folder, done, self.material.inputs)
            past = self.lessons[done - 1].past if made.method.needs_past else ()
            made.restore(replace(state, past=past))
        return made

    def teach(self, learner: Learner, parcel: Parcel, resume: Halt | None = None) -> list[Halt]:
        """Let a learner learn a delivery; returns the positions it passed."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(next(_SEEDS))  # so that unseeded draws differ each time
            with no_errors(parcel):
                return list(learner.learn(self.material.deliver(parcel), Silent(), resume))

    def lesson(self, learner: Learner, parcel: Parcel) -> Lesson:
        """Let a learner learn a delivery, and store every position it passes and the state it ends in."""
        number, teacher = len(self.lessons) + 1, learner.frozen
        before = weights(teacher)
        with extractions(type(learner.model.backbone)) as found:
            halts = self.teach(learner, parcel)
        require_same(weights(teacher), before, "the previous model was changed in a step")
        assert learner.labels is not None
        paths = [self.folder / f"epoch-{number}-{position}" for position in range(len(halts))]
        for path, halt in zip(paths, halts, strict=True):
            checkpoint.save_epoch(path, number, halt, checkpoint.Spent(), 0)
        state = learner.state()
        checkpoint.save_task(self.folder, number, state, learner.labels)
        repeated = sum(times > 1 for times in found.values())
        labels, settled = learner.labels.ids, dict(learner.settled)
        done = Lesson(parcel, tuple(paths), content(learner), settled, state.past, labels, repeated)
        self.lessons.append(done)
        return done

    def released(self, learner: Learner, parcel: Parcel) -> bool:
        """Learn a delivery; whether the learner has let go of its samples afterwards."""
        delivery = self.material.deliver(parcel)
        held = weakref.ref(delivery.images)
        with no_errors(parcel):
            for _ in learner.learn(delivery, Silent()):
                pass
        del delivery
        if held() is not None:
            gc.collect()
        return held() is None
