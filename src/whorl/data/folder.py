"""Image folders: one folder per class, with or without a separate test set."""

from __future__ import annotations

from pathlib import Path

from whorl.data.files import existing, read_listings, scan
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import fits
from whorl.data.source import Dataset
from whorl.data.traits import Traits, declares
from whorl.errors import WhorlError

SIZE = 32


@declares(Traits(SIZE))
def load_folder(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """DIR/train/CLASS/* with DIR/test/CLASS/* (or val); or DIR/CLASS/*, of which a fifth per class is for testing."""
    root, size = existing(directory, "folder"), options.resize or SIZE
    parts = [part for part in ("train", "test", "val") if (root / part).is_dir()][:2]
    # A class may be called train. The training part of that name has class folders in it; a class folder has none.
    if "train" not in parts or not any(entry.is_dir() for entry in (root / "train").iterdir()):
        parts = [""]
    elif len(parts) == 1:
        raise WhorlError(f"{root} has train/ but neither test/ nor val/; add one, or put the class folders in {root}")
    listings = [scan(root, part, notify) for part in parts]
    resident = fits(sum(len(listing.names) for listing in listings), size)
    return read_listings("folder", listings, size, resident, options, notify)
