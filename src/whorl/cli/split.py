"""``whorl split``: one cluster into several."""

from __future__ import annotations

from typing import Annotated

import typer

from whorl.cli.zoo import AsJson, Cluster, Folder, opened, print_event


def split(
    folder: Folder,
    cluster: Cluster,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE…", help="Images to put into a new cluster: names or paths.")
    ] = None,
    into: Annotated[int | None, typer.Option(min=2, help="Split into this many parts by the features.")] = None,
    as_json: AsJson = False,
) -> None:
    """Split a cluster into parts that look alike, or put some of its images into a new cluster."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.split(cluster, into, images or None), as_json)
