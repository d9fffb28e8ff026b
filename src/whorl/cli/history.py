"""``whorl history``: what was learned and edited in a model folder."""

from __future__ import annotations

from whorl.cli.lines import say_json, table
from whorl.cli.zoo import AsJson, Folder, opened


def history(folder: Folder, as_json: AsJson = False) -> None:
    """List all deliveries and edits, the first one first."""
    from whorl.photos.words import told

    with opened(folder) as zoo:
        log = {event.number: event for event in zoo.history()}
    if as_json:
        say_json(
            [{"event": one.number, "time": one.time, "kind": one.kind, **one.about, "told": told(one, log)}
             for one in log.values()]
        )  # fmt: skip
        return
    rows = [(str(one.number), one.time.replace("T", " ").rstrip("Z"), told(one, log)) for one in log.values()]
    table(("event", "time (UTC)", "what"), rows, left=("time (UTC)", "what"), drop=("time (UTC)",))
