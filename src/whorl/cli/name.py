"""``whorl name``: a name for a cluster."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from whorl.cli.flags import RunFlags
from whorl.cli.zoo import AsJson, Cluster, Folder, Yes, opened, print_event


def name(
    folder: Folder,
    cluster: Cluster,
    text: Annotated[str, typer.Argument(metavar="NAME", help="The name.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Name a cluster. It keeps the name through all later deliveries."""
    from whorl.photos.edits import Typo

    with opened(folder) as zoo:
        try:
            number = zoo.name(cluster, text, yes)
        except Typo as error:
            if not sys.stdin.isatty():
                raise
            typer.confirm(f"{RunFlags.translate(str(error))}. Is it?", abort=True, err=True)
            number = zoo.name(cluster, text, True)
        print_event(zoo, number, as_json)
