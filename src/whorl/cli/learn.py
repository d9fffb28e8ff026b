"""``whorl learn``: a folder of photos, or what people have corrected, into a model folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from whorl.cli.flags import LearnFlags, command
from whorl.cli.lines import Stopped, interruptible, say, say_json
from whorl.errors import WhorlError, count

if TYPE_CHECKING:
    from whorl.photos.learning import Report, Settings


@command(LearnFlags)
def learn(flags: LearnFlags) -> None:
    """Learn a folder of photos into a model folder: what is new in it, after what people have corrected."""
    settings = _settings(flags)
    from whorl.photos.schema import require_model
    from whorl.photos.zoo import Zoo

    if flags.folder is None:
        if flags.labels_of is not None or flags.new is not None:
            raise WhorlError("--labels and --new are about a folder of photos; name one")
        require_model(flags.into)
    with interruptible(), Zoo.new(flags.into) as zoo:
        try:
            report = zoo.learn(
                flags.folder,
                flags.labels_of,
                flags.new,
                settings=settings,
                keep_photos=flags.keep_photos,
                yes=flags.yes,
                notify=flags.notify,
                verbose=int(not flags.quiet),
            )
        except KeyboardInterrupt:
            raise Stopped(shlex.join(["whorl", *sys.argv[1:]])) from None
    if flags.as_json:
        say_json(asdict(report))
    else:
        print_report(report)


def print_report(report: Report) -> None:
    """Print what was learned."""
    if report.corrected:
        say(f"learned corrections from {count(report.corrected, 'photo')}")
    if report.delivery is None:
        if not report.corrected:
            say("nothing new to learn")
        return
    say(f"delivery {report.delivery}: learned {count(report.images, 'photo')}")
    if report.joined:
        say(f"{count(sum(report.joined.values()), 'photo')} of {_clusters(dict.fromkeys(report.joined))}")
    if report.made:
        say(f"new: {_clusters(report.made)}")


def _clusters(named: Mapping[int, str | None]) -> str:
    shown: Sequence[str] = [f"{id} {name}" if name else str(id) for id, name in named.items()]
    some = ", ".join(shown[:20]) + (f", … ({len(shown) - 20} more)" if len(shown) > 20 else "")
    return f"{'cluster' if len(shown) == 1 else 'clusters'} {some}"


def _settings(flags: LearnFlags) -> Settings:
    """The choices for a new model, checked before anything is imported that takes long."""
    from whorl.known import check_asked, require
    from whorl.tree import leaves, merge, parse_override

    options = merge(*map(parse_override, flags.set_ or []))
    check_asked(options)
    for key, name in (("method.name", flags.method), ("recipe", flags.recipe)):
        if name is not None:
            require(key, name)
    from whorl.photos.learning import Settings

    return Settings(flags.method, flags.net, flags.recipe, flags.resize, leaves(options), flags.seed)
