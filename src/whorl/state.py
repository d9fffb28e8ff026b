"""The state of a learner: everything that has to be stored to continue later."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from whorl.classifier import Name
from whorl.data.inputs import Inputs
from whorl.data.source import Samples
from whorl.nets.pretrained import Origin
from whorl.types import FloatArray


@dataclass(frozen=True)
class State:
    """A learner between two deliveries. Nothing else is needed to restore it."""

    model: dict[str, Tensor]
    initial: dict[str, Tensor]
    """The model after the initial delivery; empty unless the extractor uses it."""
    memory: dict[str, Tensor]
    means: FloatArray | None
    """The class means of the exemplars."""
    sizes: tuple[int, ...]
    """The number of new classes of each delivery."""
    names: tuple[Name, ...]
    inputs: Inputs
    past: tuple[Samples, ...] = field(default=(), repr=False)
    """All samples learned so far, for a method that declares ``needs_past``."""
    networks: tuple[dict[str, Tensor], ...] = ()
    """The networks that were trained on the initial delivery for pseudo labels alone."""
    frozen: dict[str, Tensor] = field(default_factory=dict)
    """The weights of a backbone that is not trained; the model then has its head alone."""
    origin: Origin | None = None
    """Where a pretrained backbone comes from."""
    whitening: dict[str, Tensor] = field(default_factory=dict)
    """How features are whitened for pseudo labels; empty if they are not."""
