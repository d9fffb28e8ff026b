"""What a loader declares about its data set, so that a config can be resolved before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from whorl.tree import Tree

L = TypeVar("L", bound=Callable[..., Any])


@dataclass(frozen=True)
class Traits:
    """The properties of a data set that choose the network and the constants of a method."""

    size: int = 32
    """Side of the images that the network sees without ``data.resize``; ignored for vectors."""
    photos: bool = False
    """Whether these are photos at any size. Images of 128 pixels or more count as photos anyway."""
    files: bool = False
    """Whether the samples are image files, which are decoded to any side."""
    vectors: bool = False
    """Whether the samples are vectors."""
    classes: int | None = None
    """The number of classes, if it is always the same."""
    usual: Tree | None = None
    """Config values that suit the data set, for instance ``{"stream": {"step": 10}}``."""


def declares(traits: Traits) -> Callable[[L], L]:
    """A decorator that declares the traits of a loader, as its attribute ``traits``."""

    def mark(loader: L) -> L:
        vars(loader)["traits"] = traits
        return loader

    return mark


def traits_of(loader: Callable[..., Any]) -> Traits:
    """The traits that a loader declares; without any, those of small images with any number of classes."""
    found = getattr(loader, "traits", None)
    return found if isinstance(found, Traits) else Traits()
