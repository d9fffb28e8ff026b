"""Image folders: one folder per class, with or without a separate test set."""

from __future__ import annotations

from pathlib import Path

from whorl.data.files import class_folders, existing, part_folder, read_listings, scan
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import fits
from whorl.data.source import Dataset
from whorl.data.traits import Traits, declares
from whorl.errors import WhorlError

SIZE = 32


@declares(Traits(SIZE, files=True))
def load_folder(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """DIR/train/CLASS/* with DIR/test/CLASS/* (or val), in upper or lower case; or DIR/CLASS/*.

    Without a test part, a fifth per class is for testing.
    """
    root, size = existing(directory, "folder"), options.resize or SIZE
    found = {part: part_folder(root, part) for part in ("train", "test", "val")}
    train, test = found["train"], found["test"] or found["val"]
    # A class may be called train. The training part of that name has class folders in it; a class folder has none.
    if train is None or not class_folders(root / train):
        parts = [""]
    elif test is None:
        raise WhorlError(f"{root} has {train}/ but neither test/ nor val/; add one, or put the class folders in {root}")
    else:
        parts = [train, test]
    listings = [scan(root, part, notify) for part in parts]
    resident = fits(sum(len(listing.names) for listing in listings), size)
    return read_listings("folder", listings, size, resident, options, notify)
