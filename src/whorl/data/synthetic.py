"""Generated textures: any number of classes, no download, learned in seconds, too hard for class means of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from whorl.data.inputs import Inputs
from whorl.data.memory import require
from whorl.data.options import DataOptions, Notify
from whorl.data.source import ArraySource, Dataset
from whorl.data.traits import Traits, declares
from whorl.types import FloatArray, IntArray

SIZE = 16
TRAIN, TEST = 100, 20
_SEED = 1993
_SHARED = 6  # number of textures that are mixed into every class
_OWN = 0.7  # weight of the texture that belongs to one class only
_SHIFT = 3
_NOISE = 0.25


@declares(Traits(SIZE, usual={"recipe": "demo", "stream": {"step": 2}, "net": {"arch": "tiny"}}))
def load_synthetic(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """``options.classes`` (10) textures with 20 test and 100 training images per class (``per_class`` if more)."""
    classes = options.classes or 10
    count = max(TRAIN, options.per_class or 0)
    samples = classes * (count + TEST)
    # The images as bytes, and those of one class as floats, of which there are four arrays at a time.
    needed = SIZE * SIZE * 3 * (samples + 4 * 4 * count)
    require(needed, f"synthetic with {samples:,} images", "lower `data.per_class` or `data.classes`")
    prototypes = [_prototype(label) for label in range(classes)]
    train, train_labels = _draw(prototypes, count, part=1)
    test, test_labels = _draw(prototypes, TEST, part=2)
    return Dataset(
        name="synthetic",
        train=train,
        test=test,
        train_labels=train_labels,
        test_labels=test_labels,
        class_names=tuple(f"texture {label}" for label in range(classes)),
        fingerprint="",
        inputs=Inputs(kind="images", size=SIZE, mean=(0.49,) * 3, std=(0.22,) * 3, view="crop_flip", mirrors=True),
    )


def _texture(generator: np.random.Generator) -> FloatArray:
    """A smooth periodic pattern with standard deviation 1: a few low frequencies with random phases."""
    spectrum = np.zeros((SIZE, SIZE, 3), np.complex128)
    low = np.r_[-3:4]
    spectrum[np.ix_(low, low)] = generator.normal(size=(7, 7, 3)) + 1j * generator.normal(size=(7, 7, 3))
    pattern = np.fft.ifft2(spectrum, axes=(0, 1)).real
    return np.asarray(pattern / pattern.std(), np.float32)


def _prototype(label: int) -> FloatArray:
    """The pattern common to all images of a class. It does not depend on the number of classes."""
    shared = np.stack([_texture(np.random.default_rng([_SEED, 0, i])) for i in range(_SHARED)])
    generator = np.random.default_rng([_SEED, 3, label])
    weights = generator.normal(size=_SHARED) / np.sqrt(_SHARED)
    mixed = np.einsum("i,ihwc->hwc", weights, shared) + _OWN * _texture(generator)
    return np.asarray(mixed / mixed.std(), np.float32)


def _draw(prototypes: list[FloatArray], count: int, part: int) -> tuple[ArraySource, IntArray]:
    """``count`` images of each prototype with random shift, contrast, brightness and noise."""
    images = np.empty((len(prototypes), count, SIZE, SIZE, 3), np.uint8)
    grid = np.arange(SIZE)
    for label, prototype in enumerate(prototypes):
        generator = np.random.default_rng([_SEED, part, label])
        shift = generator.integers(-_SHIFT, _SHIFT + 1, size=(count, 2))
        rows = (grid + shift[:, :1]) % SIZE
        columns = (grid + shift[:, 1:]) % SIZE
        moved = prototype[rows[:, :, None], columns[:, None, :]]
        gain = generator.uniform(0.5, 1.5, size=(count, 1, 1, 1)).astype(np.float32)
        light = generator.normal(0, 0.5, size=(count, 1, 1, 1)).astype(np.float32)
        noise = generator.standard_normal(moved.shape, dtype=np.float32)
        images[label] = np.clip(127.5 + 50 * (gain * moved + light + _NOISE * noise), 0, 255)
    labels = np.repeat(np.arange(len(prototypes)), count)
    return ArraySource(torch.from_numpy(images.reshape(-1, SIZE, SIZE, 3))), labels
