"""What the commands over a model folder share: opening it, and printing what an edit did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whorl.cli.lines import say, say_json

if TYPE_CHECKING:
    from whorl.photos.zoo import Zoo

Folder = Annotated[Path, typer.Argument(help="The model folder.")]
With = Annotated[Path, typer.Option("--with", help="The model folder.")]
Cluster = Annotated[int, typer.Argument(help="The id of a cluster; `whorl clusters` lists them.")]
Yes = Annotated[bool, typer.Option("--yes", help="The name is no typo.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Threshold = Annotated[
    float | None, typer.Option(min=0, max=1, help="The answer is unknown below this probability. [default: 0.5]")
]


@contextmanager
def opened(folder: Path) -> Iterator[Zoo]:
    """The model folder, closed in the end."""
    from whorl.photos.zoo import Zoo

    with Zoo.open(folder) as zoo:
        yield zoo


def print_event(zoo: Zoo, number: int, as_json: bool) -> None:
    """Print what the event ``number`` did."""
    from whorl.photos.words import made, told

    log = {event.number: event for event in zoo.history()}
    event = log[number]
    if as_json:
        say_json({"event": number, "kind": event.kind, **event.about, "made": made(event.change)})
    else:
        say(told(event, log))
