"""Shared by all tests: small data, small configs, and where the real data lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from whorl.data import DataOptions, load
from whorl.data.source import Dataset

# The nets of the tests are so small that a second thread only costs, and two test processes share the cores.
torch.set_num_threads(1)

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def small_data() -> Dataset:
    """Six learnable classes of 8×8 images, 20 for training each."""
    return load("synthetic", None, DataOptions(resize=8, per_class=20, classes=6))


@pytest.fixture
def draws() -> torch.Generator:
    return torch.Generator().manual_seed(0)
