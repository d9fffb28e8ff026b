"""``whorl move``: images of a cluster into another one."""

from __future__ import annotations

from typing import Annotated

import typer

from whorl.cli.zoo import AsJson, Cluster, Folder, opened, print_event


def move(
    folder: Folder,
    cluster: Cluster,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE…", help="Images of the cluster: names or paths.")],
    to: Annotated[int, typer.Option(help="The id of the cluster that they belong to.")],
    as_json: AsJson = False,
) -> None:
    """Move images of a cluster to another one."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.move(cluster, images, to), as_json)
