"""``whorl undo`` and ``whorl redo``: edits of a model folder, back and forth without limit."""

from __future__ import annotations

from whorl.cli.zoo import AsJson, Folder, opened, print_event


def undo(folder: Folder, as_json: AsJson = False) -> None:
    """Take back the last edit that has not been taken back. Deliveries stay."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.undo(), as_json)


def redo(folder: Folder, as_json: AsJson = False) -> None:
    """Make the edit again that was taken back last."""
    with opened(folder) as zoo:
        print_event(zoo, zoo.redo(), as_json)
