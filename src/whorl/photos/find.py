"""Finding images of a cluster by what people call them: an id, a path, or the end of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike

from whorl.errors import WhorlError
from whorl.photos.store import Store


def find_images(store: Store, cluster: int, given: Sequence[int | str | PathLike[str]]) -> list[int]:
    """The ids of images in a cluster. Raises a ``WhorlError`` if one is not there, or could be several."""
    rows = store.rows("SELECT id, path FROM image WHERE cluster = ? ORDER BY id", [cluster])
    return [one if isinstance(one, int) else _find(rows, cluster, os.fspath(one)) for one in given]


def _find(rows: Sequence[tuple[int, str]], cluster: int, name: str) -> int:
    path = os.path.abspath(name)
    end = "/" + name.replace(os.sep, "/").removeprefix("./")
    found = [id for id, stored in rows if stored == path] or [
        id for id, stored in rows if stored.replace(os.sep, "/").endswith(end)
    ]
    if not found and name.isdecimal():
        found = [id for id, _ in rows if id == int(name)]
    if not found:
        raise WhorlError(f"cluster {cluster} has no image {name!r}")
    if len(found) > 1:
        raise WhorlError(f"{name!r} could be {len(found)} images of cluster {cluster}; write more of the path")
    return found[0]
