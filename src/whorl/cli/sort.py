"""``whorl sort``: photos into folders by the clusters that a model names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli.flags import RunFlags
from whorl.cli.lines import interruptible, say, say_json
from whorl.cli.zoo import AsJson, Threshold, With, opened
from whorl.errors import WhorlError, count

if TYPE_CHECKING:
    from whorl.photos.sorting import How


def sort(
    photos: Annotated[Path, typer.Argument(help="A folder of photos.")],
    folder: With,
    to: Annotated[Path, typer.Option(help="The folder in which a folder per cluster is made.")],
    copy: Annotated[bool, typer.Option("--copy", help="Copy the photos; this is the default.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Make links to the photos.")] = False,
    move: Annotated[bool, typer.Option("--move", help="Move the photos.")] = False,
    threshold: Threshold = None,
    as_json: AsJson = False,
) -> None:
    """Sort photos into a folder per cluster, and one for unknown. No file is overwritten."""
    if copy + link + move > 1:
        raise WhorlError("choose one of --copy, --link and --move")
    how: How = "link" if link else "move" if move else "copy"
    with opened(folder) as zoo:
        answers = zoo.predict(photos, threshold, RunFlags.notify)
    from whorl.photos import sorting

    with interruptible():
        done = list(sorting.sort(answers, to, how))
    if as_json:
        say_json([vars(one) for one in done])
        return
    word = {"copy": "copied", "link": "linked", "move": "moved"}[how]
    per_folder: dict[str, int] = {}
    for one in done:
        name = Path(one.target).parent.name
        per_folder[name] = per_folder.get(name, 0) + 1
    for name, number in sorted(per_folder.items()):
        say(f"{name}: {count(number, 'photo')}")
    there = sum(not one.new for one in done)
    say(f"{word} {count(len(done) - there, 'photo')} to {to}" + f"; {there} were there already" * bool(there))
