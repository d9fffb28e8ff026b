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
    from whorl.photos.asked import Settings
    from whorl.photos.outcome import Mixed, Report

MERGES = 5
"""The most merges that are suggested on the terminal."""


@command(LearnFlags)
def learn(flags: LearnFlags) -> None:
    """Learn a folder of photos into a model folder: what is new in it, after what people have corrected."""
    settings = _settings(flags)
    from whorl.photos.schema import require_model
    from whorl.photos.zoo import Zoo

    if flags.folder is None:
        if flags.labels_of is not None or flags.new is not None or flags.all_new:
            raise WhorlError("--labels, --new and --all-new are about a folder of photos; name one")
        require_model(flags.into)
    with interruptible(), Zoo.new(flags.into, verbose=int(not flags.quiet)) as zoo:
        try:
            report = zoo.learn(
                flags.folder,
                flags.labels_of,
                flags.new,
                all_new=flags.all_new,
                settings=settings,
                keep_photos=flags.keep_photos,
                yes=flags.yes,
                notify=flags.notify,
            )
        except KeyboardInterrupt:
            raise Stopped(shlex.join(["whorl", *sys.argv[1:]])) from None
    if flags.as_json:
        say_json(asdict(report))
    else:
        print_report(report, str(flags.into))


def print_report(report: Report, folder: str) -> None:
    """Print what was learned into the model folder ``folder``."""
    if report.corrected:
        say(f"learned corrections from {count(report.corrected, 'photo')}")
    if report.delivery is None:
        if not report.corrected:
            say("nothing new to learn")
        return
    say(f"delivery {report.delivery}: learned {count(report.images, 'photo')}")
    if report.joined:
        say(f"known: {count(sum(report.joined.values()), 'photo')} of {_clusters(dict.fromkeys(report.joined))}")
    if report.made:
        new = f"{count(report.mixed.new, 'photo')} of " if report.mixed else ""
        say(f"new: {new}{_clusters(report.made)}")
    if report.junk is not None:
        say(f"junk: {count(len(report.found['junk']), 'photo')}, not learned, in cluster {report.junk}")
    if report.mixed:
        _print_mixed(report.mixed, folder)


def _print_mixed(mixed: Mixed, folder: str) -> None:
    """Print how the number of new classes was chosen, and which clusters may be one."""
    some = "1 new class" if mixed.clusters == 1 else f"{mixed.clusters} new classes"
    between = f" ({mixed.low} to {mixed.high})" if mixed.low < mixed.high else ""
    say(f"{some}{between}: {'; '.join(mixed.reasons)}")
    if mixed.merges:
        say("these clusters may be one; look at them, and merge them if so:")
    for a, b, share in mixed.merges[:MERGES]:
        say(f"  {shlex.join(['whorl', 'merge', folder, str(a), str(b)])}  (likeness {share:.2f})")
    if len(mixed.merges) > MERGES:
        say(f"  … ({len(mixed.merges) - MERGES} more; --json and `whorl history --json` list all)")


def _clusters(named: Mapping[int, str | None]) -> str:
    shown: Sequence[str] = [f"{id} {name}" if name else str(id) for id, name in named.items()]
    some = ", ".join(shown[:20]) + (f", … ({len(shown) - 20} more)" if len(shown) > 20 else "")
    return f"{'cluster' if len(shown) == 1 else 'clusters'} {some}"


def _settings(flags: LearnFlags) -> Settings:
    """The choices for a new model, checked before anything is imported that takes long."""
    from whorl.known import check_asked, require
    from whorl.tree import leaves, merge, override, parse_override

    options = merge(*map(parse_override, flags.set_ or []))
    check_asked(merge(options, override(("net.tune", flags.tune))))
    for key, name in (("method.name", flags.method), ("recipe", flags.recipe)):
        if name is not None:
            require(key, name)
    from whorl.photos.asked import Settings

    return Settings(
        method=flags.method,
        net=flags.net,
        recipe=flags.recipe,
        resize=flags.resize,
        options=leaves(options),
        seed=flags.seed,
        weights=flags.weights,
        tune=flags.tune,
    )
