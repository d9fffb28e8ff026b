"""ImageNet in its official layout, DIR/train/WNID/* and DIR/val/WNID/*: all classes or a subset of 100."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from whorl.data.files import class_folders, existing, loose_images, part_folder, read_listings, scan
from whorl.data.inputs import Inputs
from whorl.data.options import DataOptions, Notify
from whorl.data.parts import few
from whorl.data.source import Dataset
from whorl.data.traits import Traits, declares
from whorl.errors import WhorlError, printable

INPUT = 224
_ID = "n[0-9]{8}"
_MARGIN = 256 / 224  # for an input size of 224, the shorter side is resized to 256

# LUCIR's subset: entries 0 to 99 of the permutation of 1000 classes drawn with seed 1993, sorted.
_S2 = """
7 11 14 44 54 62 75 77 85 105 108 123 126 127 133 142 160 174 186 192 215 219 224 238 240 260 262 274 275 279 284 288
289 303 312 323 324 337 390 391 394 400 413 419 437 446 466 470 471 473 478 490 493 494 507 508 509 512 523 539 542
548 590 597 600 622 632 634 637 650 658 665 699 704 722 730 748 761 782 783 812 836 842 850 852 856 859 886 894 906
911 912 928 959 966 979 988 989 990 999"""


@declares(Traits(INPUT, photos=True, files=True, classes=1000, usual={"stream": {"step": 100, "order": "A"}}))
def load_imagenet(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """All classes in DIR/train, in the order of their WordNet ids."""
    return _load("imagenet", directory, None, options, notify)


@declares(Traits(INPUT, photos=True, files=True, classes=100, usual={"stream": {"step": 10, "order": "A"}}))
def load_imagenet100(directory: Path | None, options: DataOptions, notify: Notify) -> Dataset:
    """The classes of ``options.subset``: S1 (classes 0 to 99), S2 (drawn with seed 1993) or those listed in a file."""
    return _load("imagenet100", directory, subset_wnids(options.subset), options, notify)


def _load(name: str, directory: Path | None, wanted: list[str] | None, options: DataOptions, notify: Notify) -> Dataset:
    root = existing(directory, name)
    parts = [part_folder(root, part) or part for part in ("train", "val")]
    for part in parts:
        _check_layout(root / part, wanted)
    listings = [scan(root, part, notify, wanted) for part in parts]
    side = options.resize or INPUT
    # Never kept in memory: the crops are cut from a larger square, and a thousand classes would not fit.
    data = read_listings(name, listings, round(side * _MARGIN), False, options, notify)
    return replace(data, inputs=Inputs.images(side, "resized_crop"))


def _check_layout(folder: Path, wanted: list[str] | None) -> None:
    if not folder.is_dir():
        raise WhorlError(f"{folder} does not exist; ImageNet is expected in DIR/train/WNID/ and DIR/val/WNID/")
    there = class_folders(folder)
    if not there and loose_images(folder):
        raise WhorlError(f"the images in {folder} must be sorted into class folders, {folder.name}/WNID/*.JPEG")
    missing = sorted(set(wanted or []) - set(there))
    if missing:
        raise WhorlError(f"{folder} lacks {len(missing)} of {len(wanted or [])} class folders: {few(missing)}")


def wnids() -> list[str]:
    """The 1000 WordNet ids of ILSVRC 2012, sorted."""
    return (files("whorl.data") / "imagenet_wnids.txt").read_text().split()


def subset_wnids(subset: str) -> list[str]:
    """The sorted WordNet ids of ``S1``, ``S2``, of ids separated by spaces, or of a list file.

    The file has one id or class number (0 to 999) per line.
    """
    every = wnids()
    if subset == "S1":
        return every[:100]
    if subset == "S2":
        return [every[int(place)] for place in _S2.split()]
    if re.fullmatch(rf"{_ID}( {_ID})*", subset):
        return _distinct(subset.split(), "`data.subset`")
    try:
        lines = Path(subset).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):
        shown = printable(subset[:60])
        raise WhorlError(f"`data.subset` {shown!r} is neither S1 nor S2 nor a list file that can be read") from None
    return _distinct([_wnid(word, every, subset) for line in lines if (word := line.split("#")[0].strip())], subset)


def same_subset(subset: str) -> str:
    """The same subset without a path: ``S1``, ``S2``, or the ids of a list file separated by spaces."""
    chosen = subset_wnids(subset)
    return next((name for name in ("S1", "S2") if subset_wnids(name) == chosen), " ".join(chosen))


def _distinct(chosen: list[str], subset: str) -> list[str]:
    twice = sorted(wnid for wnid, count in Counter(chosen).items() if count > 1)
    if twice or not chosen:
        raise WhorlError(f"{subset} lists {f'{twice[0]} more than once' if twice else 'no class'}")
    return sorted(chosen)


def _wnid(word: str, every: list[str], subset: str) -> str:
    if re.fullmatch("0*[0-9]{1,3}", word):
        return every[int(word[-3:])]
    if re.fullmatch(_ID, word):
        return word
    raise WhorlError(f"{subset}: {word!r} is neither a WordNet id such as {every[0]} nor a number from 0 to 999")
