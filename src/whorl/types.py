"""The nouns that travel between rooms."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from whorl.errors import HiddenLabelError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class ImageSource(Protocol):
    """Images by index, as uint8 in height × width × 3. Never knows a label."""

    @property
    def size(self) -> int:
        """Side of the (square) images."""
        ...

    @property
    def resident(self) -> bool:
        """Whether the images already lie in memory; others are read by worker processes."""
        ...

    def __len__(self) -> int: ...

    def read(self, indices: IntArray) -> Tensor:
        """The images at ``indices`` as one uint8 tensor [n, size, size, 3]."""
        ...


class _Hidden:
    """Stands where labels would be. Any use of it raises."""

    def _touch(self, *_: object, **__: object) -> NoReturn:
        raise HiddenLabelError("the labels of this task are hidden from the learner")

    __getattr__ = __getitem__ = __iter__ = __len__ = __array__ = __bool__ = _touch
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _touch
    __add__ = __radd__ = __sub__ = __rsub__ = __int__ = __float__ = __index__ = _touch

    def __repr__(self) -> str:
        return "HIDDEN"


HIDDEN = _Hidden()
"""The labels of a task that is learned without them. ``labels is HIDDEN`` is the only allowed question."""

Labels = IntArray | _Hidden
"""Labels where the protocol grants them, else ``HIDDEN``."""


def granted(labels: Labels) -> IntArray:
    """The labels of a task that has them; raises where they are hidden."""
    if isinstance(labels, _Hidden):
        labels._touch()
    return labels
