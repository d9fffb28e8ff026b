"""Randomness as a function: every generator is derived from a seed and its purpose, and none has state to save."""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, for instance ``derive(0, "shuffle", task, phase, epoch)``."""
    text = "/".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose. All devices use CPU generators, so that they draw the same numbers."""
    return torch.Generator().manual_seed(derive(seed, *purpose))
