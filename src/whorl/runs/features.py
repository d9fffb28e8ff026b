"""Features of frozen backbones, kept in a folder so that later commands need not compute them again."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch

from whorl.data.download import cache
from whorl.errors import WhorlError
from whorl.runs.files import read_tensors, write_tensors
from whorl.types import FloatArray

VARIABLE = "WHORL_FEATURES"
"""The environment variable that names the folder; ``off`` keeps nothing."""
OFF = "off"


class FeatureFolder:
    """Each block of features is a file named by what it was computed from. Any file may be deleted at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self._writable = True

    def load(self, key: str, shape: tuple[int, int]) -> FloatArray | None:
        """The features that were saved under this key; None if there are none, or the file is damaged."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            found = read_tensors(path, "")[0].get("features")
            why = "" if found is not None and (found.dtype, found.shape) == (torch.float32, shape) else "its content"
        except WhorlError as error:
            found, why = None, str(error).rstrip("; ")
        if found is None or why:
            warnings.warn(f"{path} is not used ({why}); its features are computed again", stacklevel=2)
            return None
        return found.numpy()

    def save(self, key: str, features: FloatArray) -> None:
        """Keep features. If nothing can be written, this is said once, and they are computed again next time."""
        if not self._writable:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(path, {"features": torch.from_numpy(features)})
        except (OSError, WhorlError) as error:
            self._writable = False
            warnings.warn(
                f"features are not kept ({error}); set {VARIABLE} to a folder where they can be, or to {OFF}",
                stacklevel=2,
            )

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.safetensors"


def feature_folder() -> FeatureFolder | None:
    """The folder that the environment names, by default one in the user's cache; None if it says ``off``."""
    asked = os.environ.get(VARIABLE, "")
    if asked == OFF:
        return None
    return FeatureFolder(Path(asked) if asked else cache() / "features")
