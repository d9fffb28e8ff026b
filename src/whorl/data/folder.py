"""Your own images: one folder a class, with or without a test set of their own."""

from __future__ import annotations

from pathlib import Path

from whorl.data.files import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Listing,
    digest,
    existing,
    fits,
    open_images,
    same_classes,
    scan,
)
from whorl.data.options import DataOptions, Notify
from whorl.data.source import Dataset, Subset
from whorl.data.split import split
from whorl.errors import WhorlError

SIZE = 32


def load_folder(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """DIR/train/CLASS/* with DIR/test/CLASS/* (or val); or DIR/CLASS/*, of which a fifth is kept for the test."""
    root, size = existing(directory, "folder"), options.resize or SIZE
    if not (root / "train").is_dir():
        return _one_part(scan(root, "", notify), size, options, notify)
    held_out = next((part for part in ("test", "val") if (root / part).is_dir()), None)
    if held_out is None:
        raise WhorlError(f"{root} has train/ but neither test/ nor val/; add one, or put the class folders in {root}")
    train, test = scan(root, "train", notify), scan(root, held_out, notify)
    resident = fits(len(train.names) + len(test.names), size)
    return two_parts("folder", train, test, size, resident, options, notify)


def two_parts(
    name: str, train: Listing, test: Listing, size: int, resident: bool, options: DataOptions, notify: Notify
) -> Dataset:
    """A data set whose training and test images are listed apart."""
    same_classes(train.classes, test.classes)
    train_images, train, broken_train = open_images(train, size, resident, options, notify)
    test_images, test, broken_test = open_images(test, size, resident, options, notify)
    return Dataset(
        name=name,
        train=train_images,
        test=test_images,
        train_labels=train.labels,
        test_labels=test.labels,
        class_names=train.classes,
        fingerprint=digest([*train.lines(), *test.lines()]),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        augment="crop_flip",
        input_size=size,
        skipped=broken_train + broken_test,
    )


def _one_part(listing: Listing, size: int, options: DataOptions, notify: Notify) -> Dataset:
    images, listing, broken = open_images(listing, size, fits(len(listing.names), size), options, notify)
    train, test = split(listing.labels, listing.classes)
    return Dataset(
        name="folder",
        train=Subset(images, train),
        test=Subset(images, test),
        train_labels=listing.labels[train],
        test_labels=listing.labels[test],
        class_names=listing.classes,
        fingerprint=digest(list(listing.lines())),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        augment="crop_flip",
        input_size=size,
        skipped=broken,
    )
