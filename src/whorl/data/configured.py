"""Loads the data set that a config names."""

from __future__ import annotations

from pathlib import Path

from whorl.data import DataOptions, Dataset, Notify, load
from whorl.data.hub import same_name
from whorl.data.imagenet import same_subset
from whorl.errors import WhorlError, count
from whorl.sections import DataConfig


def load_configured(
    wanted: DataConfig, directory: Path | None, strict: bool, workers: int, notify: Notify
) -> tuple[DataConfig, Dataset]:
    """The data set, and the config section ``data`` that identifies it wherever it is stored.

    The section has the fingerprint of the content, and no paths: a list file becomes the ids of its classes.
    """
    subset = wanted.subset
    if wanted.name == "imagenet100":
        subset = same_subset(subset)
    elif subset != DataConfig.model_fields["subset"].default:
        raise WhorlError(f"`data.subset` is for imagenet100, not {wanted.name}")
    options = DataOptions(wanted.resize, wanted.per_class, wanted.classes, subset, strict, workers)
    loaded = load(wanted.name, directory, options, notify)
    if loaded.skipped:
        notify(f"skipped {count(len(loaded.skipped), 'broken image')}; set `strict` to stop at the first one instead")
    found = {"name": same_name(wanted.name), "subset": subset, "fingerprint": loaded.fingerprint}
    return wanted.model_copy(update=found), loaded
