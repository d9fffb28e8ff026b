"""Writes files into a folder of the user, and replaces or removes only those that it wrote itself.

``.whorl-files.json`` in the folder lists the files that whorl wrote there, with the SHA-256 of each. A file that is not
listed, or that was changed since, belongs to the user.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.runs.files import kind, make_folder, read_bytes, read_json, write_bytes, write_json
from whorl.sections import Section

LIST = ".whorl-files.json"


class _Listed(Section):
    files: dict[str, tuple[str, ...]]
    """The hashes a file may have. While a file is being replaced it has two: of the old content and of the new one."""


class Owned:
    """The files that whorl wrote into a folder. ``key`` is the option that chose the folder, for messages."""

    def __init__(self, folder: Path, key: str = "out") -> None:
        self.folder: Path = folder
        self.key: str = key
        self._elsewhere = f"move it away, or choose another `{key}`"

    def prepare(self, names: Collection[str] = ()) -> None:
        """Make the folder. Raises if it cannot be written, or if one of ``names`` is a file of the user."""
        make_folder(self.folder, self.key)
        listed = self._listed()
        for name in names:
            self._require_own(name, listed)

    def write(self, files: Mapping[str, bytes], stale: Callable[[str], bool] = lambda name: False) -> None:
        """Write ``files``, and remove earlier ones for which ``stale`` is true. Raises before it changes anything."""
        self.prepare()
        listed = self._listed()
        removed = [name for name in listed if name not in files and stale(name)]
        for name in (*removed, *files):
            self._require_own(name, listed, files.get(name))
        hashes = {name: hashlib.sha256(payload).hexdigest() for name, payload in files.items()}
        during = {name: (*listed.get(name, ()), made) for name, made in hashes.items()}
        write_json(self.folder / LIST, _Listed(files={**listed, **during}).model_dump(mode="json"))
        for name, payload in files.items():
            write_bytes(self.folder / name, payload)
        for name in removed:
            (self.folder / name).unlink(missing_ok=True)
        kept = {name: known for name, known in listed.items() if name not in removed}
        after = kept | {name: (made,) for name, made in hashes.items()}
        write_json(self.folder / LIST, _Listed(files=after).model_dump(mode="json"))

    def _listed(self) -> dict[str, tuple[str, ...]]:
        path = self.folder / LIST
        if not os.path.lexists(path):
            return {}
        found = read_json(path, self._elsewhere)
        try:
            return _Listed.model_validate(found).files
        except ValueError as error:
            raise WhorlError(f"{path} is damaged ({reason(error)}); {self._elsewhere}") from None

    def _require_own(self, name: str, listed: Mapping[str, tuple[str, ...]], payload: bytes | None = None) -> None:
        """Raise if ``name`` exists and is not as whorl wrote it. A file with the same content is no obstacle."""
        path = self.folder / name
        if not os.path.lexists(path):
            return
        if other := kind(path):
            raise WhorlError(f"{path} is {other}, and whorl writes a file of that name; {self._elsewhere}")
        try:
            content = read_bytes(path)
        except OSError as error:
            raise WhorlError(f"cannot read {path}: {reason(error)}; {self._elsewhere}") from None
        if content != payload and hashlib.sha256(content).hexdigest() not in listed.get(name, ()):
            how = "was changed after whorl wrote it" if name in listed else "was not written by whorl"
            raise WhorlError(f"{path} {how}; {self._elsewhere}")
