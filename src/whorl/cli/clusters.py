"""``whorl clusters``: what a model folder knows."""

from __future__ import annotations

from dataclasses import asdict

from whorl.cli.lines import say_json, table
from whorl.cli.zoo import AsJson, Folder, opened


def clusters(folder: Folder, as_json: AsJson = False) -> None:
    """List the clusters: name, number of images, the delivery that brought them, and how sure the model was."""
    with opened(folder) as zoo:
        found = zoo.clusters()
    if as_json:
        say_json([asdict(one) for one in found])
        return
    rows = [
        (
            str(one.id),
            "(junk)" if one.junk else one.name or "–",
            str(one.images),
            str(one.delivery or "–"),
            "–" if one.sure is None else f"{100 * one.sure:.0f} %",
        )
        for one in found
    ]
    table(("cluster", "name", "images", "delivery", "sure"), rows, left=("name",), drop=("delivery",))
