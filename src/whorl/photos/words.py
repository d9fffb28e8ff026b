"""What an event of the log did, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whorl.errors import count
from whorl.photos.catalog import NEW, Change
from whorl.photos.store import Event


def told(event: Event, log: Mapping[int, Event]) -> str:
    """One line about an event; ``log`` are the events by number, in which those it undoes are looked up."""
    about, kind = event.about, event.kind
    clusters = about.get("clusters", [])
    if kind in ("undo", "redo"):
        before = log[about["event"]]
        return f"{'took back' if kind == 'undo' else 'made again'} event {before.number}: {told(before, log)}"
    if kind == "learn":
        return f"learned {count(about['images'], 'photo')} of {about['folder']}: {_contents(event)}" + (
            f"; network {about['net']}" if "net" in about else ""
        )
    if kind == "correct":
        return f"learned corrections from {count(about['images'], 'photo')}"
    if kind == "name":
        return f"named {clusters[0]} {about['name']!r}"
    if kind == "merge":
        return f"merged {listed(clusters)} into {ranges(made(event.change))}"
    if kind == "split" and "into" in about:
        return f"split {clusters[0]} into {ranges(made(event.change))}"
    some = f"{count(about['images'], 'image')} of {listed(clusters)}" if "images" in about else listed(clusters)
    if kind == "split":
        return f"put {some} into {ranges(made(event.change))}"
    if kind == "move":
        return f"moved {some} to {about['to']}"
    return f"called {some} junk"


def _contents(event: Event) -> str:
    """What was in a delivery."""
    junk = {one.cluster for one in event.change.clusters if one.after.junk}
    every, mixed = made(event.change), event.about.get("mixed")
    new = [cluster for cluster in every if cluster not in junk]
    old = len({move.after for move in event.change.moves}) - len(every)
    some = f"new {'cluster' if len(new) == 1 else 'clusters'} {ranges(new)}" if new else ""
    if new and mixed and mixed["low"] < mixed["high"]:
        some += f" (estimated {mixed['low']} to {mixed['high']})"
    others = f"more of {count(old, 'cluster')}" if old else ""
    dropped = f"junk in cluster {listed(sorted(junk))}" if junk else ""
    return ", ".join(filter(None, (some, others, dropped)))


def made(change: Change) -> list[int]:
    """The clusters that a change makes, with images in them."""
    reached = {move.after for move in change.moves}
    return sorted(one.cluster for one in change.clusters if one.before == NEW and one.cluster in reached)


def listed(numbers: Sequence[int]) -> str:
    """``12, 14 and 17``."""
    words = list(map(str, numbers))
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def ranges(numbers: Sequence[int]) -> str:
    """``5 to 9`` for numbers without gaps, else a list."""
    gaps = len(numbers) < 3 or numbers[-1] - numbers[0] != len(numbers) - 1
    return listed(numbers) if gaps else f"{numbers[0]} to {numbers[-1]}"
