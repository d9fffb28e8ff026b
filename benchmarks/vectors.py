"""Write an npz file of synthetic embeddings: 50,000 training and 10,000 test vectors of 1,280 numbers, 100 classes.

    python benchmarks/vectors.py FILE.npz
    whorl run --data vectors --data-dir FILE.npz --step 10 --recipe fast

docs/results.md has the times of these runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

CLASSES, SIZE, TRAIN, TEST = 100, 1280, 50_000, 10_000
LATENT = 40
"""Dimensions in which the vectors vary; the others have noise only, as in embeddings of real data."""


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description="Write an npz file of synthetic embeddings.")
    parser.add_argument("file", type=Path)
    out = parser.parse_args().file
    draws = np.random.default_rng(0)
    centres = draws.normal(size=(CLASSES, LATENT))
    mixing = draws.normal(size=(LATENT, SIZE)) / np.sqrt(LATENT)

    def samples(count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        labels = draws.permutation(np.arange(count) % CLASSES)
        latent = centres[labels] + 0.6 * draws.normal(size=(count, LATENT))
        return (latent @ mixing + 0.2 * draws.normal(size=(count, SIZE))).astype(np.float32), labels

    (train, train_labels), (test, test_labels) = samples(TRAIN), samples(TEST)
    np.savez(out, train=train, train_labels=train_labels, test=test, test_labels=test_labels)


if __name__ == "__main__":
    main()
