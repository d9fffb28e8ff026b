"""The images a config asks for."""

from __future__ import annotations

from pathlib import Path

from whorl.config import DataConfig
from whorl.data import DataOptions, Dataset, Notify, load
from whorl.errors import WhorlError

SUBSETS = "S1", "S2"


def load_configured(
    wanted: DataConfig, directory: Path | None, strict: bool, workers: int, notify: Notify
) -> tuple[DataConfig, Dataset]:
    """The data set, and the same part of the config with what identifies the images that were found."""
    if wanted.subset != SUBSETS[0] and wanted.name != "imagenet100":
        raise WhorlError(f"--subset is for imagenet100, not {wanted.name}")
    options = DataOptions(wanted.resize, wanted.per_class, wanted.classes, wanted.subset, strict, workers)
    loaded = load(wanted.name, directory, options, notify)
    if loaded.skipped:
        notify(f"skipped {len(loaded.skipped)} broken images; --strict stops at the first instead")
    # What a list file chose is in the fingerprint; where the file lies is nobody's business.
    subset = wanted.subset if wanted.subset in SUBSETS else "list"
    return wanted.model_copy(update={"fingerprint": loaded.fingerprint, "subset": subset}), loaded
