"""Loads the data set that a config names."""

from __future__ import annotations

from pathlib import Path

from whorl.config import DataConfig
from whorl.data import DataOptions, Dataset, Notify, load
from whorl.errors import WhorlError

SUBSETS = "S1", "S2"


def load_configured(
    wanted: DataConfig, directory: Path | None, strict: bool, workers: int, notify: Notify
) -> tuple[DataConfig, Dataset]:
    """The data set, and the config section ``data`` with the fingerprint of the content that was found."""
    if wanted.subset != SUBSETS[0] and wanted.name != "imagenet100":
        raise WhorlError(f"`data.subset` is for imagenet100, not {wanted.name}")
    options = DataOptions(wanted.resize, wanted.per_class, wanted.classes, wanted.subset, strict, workers)
    loaded = load(wanted.name, directory, options, notify)
    if loaded.skipped:
        notify(f"skipped {len(loaded.skipped)} broken images; set `strict` to stop at the first one instead")
    # The fingerprint covers the classes that a list file names. The path of the file must not change the run's hash.
    subset = wanted.subset if wanted.subset in SUBSETS else "list"
    return wanted.model_copy(update={"fingerprint": loaded.fingerprint, "subset": subset}), loaded
