"""What is asked of a model folder: the choices of a new model, and what to learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.errors import WhorlError


@dataclass(frozen=True)
class Settings:
    """Choices of a new model, as for :class:`whorl.Whorl`. Those that are None are its defaults."""

    method: str | None = None
    net: str | None = None
    recipe: str | None = None
    resize: int | None = None
    """Side of the photos in pixels."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further config values by key."""
    seed: int | None = None
    weights: Path | None = None
    """A file with the weights of a pretrained network."""
    tune: str | None = None
    """What of a pretrained network is trained: none, last or all."""

    def given(self) -> dict[str, Any]:
        """The parameters of the estimator that were chosen, without the file of weights."""
        named = {"method": self.method, "net": self.net, "recipe": self.recipe, "random_state": self.seed}
        options = dict(self.options) | ({"net.tune": self.tune} if self.tune else {})
        chosen = {name: value for name, value in named.items() if value is not None}
        return chosen | ({"options": options} if options else {})


@dataclass(frozen=True)
class Asked:
    """What to learn: the photos of a folder, labelled or not."""

    folder: Path
    labels: str | None = None
    """A table of labels, or "folders"; the first delivery has those of its folders by default."""
    new: int | None = None
    """The number of new classes in a delivery without labels; None estimates it."""
    all_new: bool = False
    """Whether all photos of a delivery without labels belong to new classes."""
    keep: bool = False
    """Whether to copy the photos into the model folder."""
    yes: bool = False
    """Whether labels that are one typo away from a name are other classes."""

    @property
    def mixed(self) -> bool:
        """Whether photos without labels may be of known classes, or of none."""
        return not self.all_new

    def check(self, labelled: bool) -> None:
        """Raise a ``WhorlError`` if this cannot be asked of a delivery with labels, or of one without."""
        for name, value in (("new", self.new), ("all_new", self.all_new or None)):
            if labelled and value is not None:
                raise WhorlError(f"`{name}` is about photos without labels, and these have some; leave it out")
        if self.all_new and not self.new:
            raise WhorlError("the number of classes is not estimated with `all_new`; state it with `new`")
