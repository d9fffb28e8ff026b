"""``whorl junk``: a cluster, or some of its images, that are no class."""

from __future__ import annotations

from typing import Annotated

import typer

from whorl.cli.zoo import AsJson, Cluster, Folder, opened, print_event


def junk(
    folder: Folder,
    cluster: Cluster,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE…", help="Only these images of the cluster: names or paths.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call a cluster junk, or some of its images. Junk is not learned again."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.junk(cluster, images or None), as_json)
