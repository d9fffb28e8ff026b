"""Randomness as a function: every generator is derived from the run's seed and what it is for."""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, for instance ``derive(0, "shuffle", task, phase, epoch)``."""
    text = "/".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose. The CPU's, so that every device draws the same numbers."""
    return torch.Generator().manual_seed(derive(seed, *purpose))
