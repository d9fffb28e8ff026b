"""``whorl merge``: several clusters into one."""

from __future__ import annotations

from typing import Annotated

import typer

from whorl.cli.zoo import AsJson, Folder, opened, print_event


def merge(
    folder: Folder,
    ids: Annotated[list[int], typer.Argument(metavar="CLUSTER…", help="The ids of two or more clusters.")],
    as_json: AsJson = False,
) -> None:
    """Merge clusters into a new one, which takes the first name among them."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.merge(ids), as_json)
