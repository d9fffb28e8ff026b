"""Small data sets live on the device: which ones are moved there, and that training reads them there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import checks
from whorl import runtime
from whorl.data.source import ArraySource, Dataset, Subset, VectorSource, in_memory
from whorl.data.stream import Stream
from whorl.runtime import Runtime
from whorl.types import ImageSource

IMAGES = ArraySource(torch.zeros(10, 4, 4, 3, dtype=torch.uint8))
ELSEWHERE = Runtime(device="meta")
"""A device that every machine has. Its tensors have no values."""


@pytest.mark.parametrize(
    ("cores", "usual", "jobs", "expected"), [(8, 8, 1, 8), (8, 8, 3, 2), (8, 4, 1, 4), (8, 1, 2, 1), (2, 2, 5, 1)]
)
def test_threads_per_job(cores: int, usual: int, jobs: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the cores, but no more than torch uses by itself, which ``OMP_NUM_THREADS`` decides."""
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("torch.get_num_threads", lambda: usual)
    assert runtime.threads_per_job(jobs) == expected


@pytest.mark.parametrize("source", [IMAGES, Subset(IMAGES, np.array([3, 1, 4])), VectorSource(torch.ones(6, 5))])
def test_samples_in_memory_are_moved_as_a_whole(source: ImageSource) -> None:
    held = ELSEWHERE.hold(source)
    assert len(held) == len(source)
    assert held.size == source.size
    read = held.read(np.array([0, 2]))
    assert read.device.type == "meta"
    assert read.shape == source.read(np.array([0, 2])).shape


def test_the_order_of_samples_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, as if it were another device."""
    vectors = VectorSource(torch.arange(10.0).view(5, 2))
    part = Subset(vectors, np.array([4, 0, 2]))
    held = Runtime(device="cpu:0").hold(part)
    assert held is not part
    assert torch.equal(held.read(np.arange(3)), torch.tensor([[8.0, 9.0], [0.0, 1.0], [4.0, 5.0]]))


def test_on_the_cpu_nothing_is_copied() -> None:
    assert Runtime().hold(IMAGES) is IMAGES


def test_large_distant_and_empty_data_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten images of 48 bytes are 480 bytes. Nothing but one sample is read to find out."""
    monkeypatch.setattr(runtime, "HELD_BYTES", 480)
    assert ELSEWHERE.hold(IMAGES) is not IMAGES
    monkeypatch.setattr(runtime, "HELD_BYTES", 479)
    large = checks.Logged(IMAGES)
    assert ELSEWHERE.hold(large) is large
    assert large.log == [[0]]
    files = checks.Logged(IMAGES, resident=False)
    assert ELSEWHERE.hold(files) is files
    assert files.log == []
    empty = Subset(IMAGES, np.arange(0))
    assert ELSEWHERE.hold(empty) is empty


def test_a_learner_reads_a_delivery_once(small_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels, training, exemplars and class means all use the samples on the device."""

    def hold(_: Runtime, images: ImageSource) -> ImageSource:
        return in_memory(images.read(np.arange(len(images))))

    config = checks.small_config()
    learner, stream = checks.make_learner(config, small_data), checks.streams(config, small_data)
    monkeypatch.setattr(Runtime, "hold", hold)
    for delivery in stream[:2]:
        source = checks.Logged(delivery.images)
        checks.learn(learner, Stream([replace(delivery, images=source)]))
        assert source.log == [[0], list(range(40))]  # one sample shows the kind of all
