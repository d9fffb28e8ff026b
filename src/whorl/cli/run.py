"""``whorl run``: one config from start to end, or from where it stopped."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whorl.cli.flags import RunFlags, command
from whorl.cli.lines import Stopped, interruptible, say_json
from whorl.errors import WhorlError, unknown

if TYPE_CHECKING:
    from whorl.config import ExperimentConfig
    from whorl.data.source import Dataset
    from whorl.experiment import Result
    from whorl.tree import Tree

STEP_KEYS = (
    "task", "classes", "acc", "acc_plain", "acc5", "nmi", "ari", "acc_fc", "acc_nme", "acc_ncm", "label_acc", "method",
    "seconds", "images_per_second",
)  # fmt: skip


@command(RunFlags)
def run(flags: RunFlags) -> None:
    """Learn class after class. The same command again resumes, or prints the stored result."""
    asked = _asked(flags)
    # Only now, when the arguments are checked: these import torch.
    from whorl.data import find_loader, traits_of
    from whorl.experiment import run as run_config
    from whorl.methods import method_class
    from whorl.nets.pretrained import named
    from whorl.progress import reporter
    from whorl.recipes import resolve
    from whorl.runs.changed import other_data, stored_as
    from whorl.runs.precision import settled
    from whorl.runtime import Runtime, find_device
    from whorl.tree import merge

    runtime = Runtime(find_device(flags.device), "fp32", flags.channels_last, flags.compile_, flags.workers)
    wanted = resolve(asked)
    name = wanted.method.name
    if flags.epochs is not None and method_class(name).online:
        raise WhorlError(
            f"{name} uses each new image once, so `train.epochs` does not apply to it; "
            "`train.first_epochs=N` changes task 1, which is offline"
        )
    backbone = named(wanted.net.arch, flags.weights, wanted.net.size)
    if backbone and wanted.data.resize is None and traits_of(find_loader(wanted.data.name)).files:
        asked = merge(asked, {"data": {"resize": backbone.origin.size}})
    config, data = prepare(asked, flags.data_dir, flags.strict, flags.workers)
    if backbone:
        flags.notify(f"network: {backbone.origin}")
        own = {"arch": backbone.origin.name, "fingerprint": backbone.origin.weights}
        config = config.model_copy(update={"net": config.net.model_copy(update=own)})
    config = settled(config, data, flags.out, runtime, flags.notify)
    config = stored_as(flags.out, config, data)
    if changed := other_data(flags.out, config, data):
        flags.notify(changed)
    with interruptible(), reporter(flags.quiet, translate=flags.translate) as progress:
        try:
            result = run_config(config, data, flags.out, runtime, progress, flags.fresh, backbone=backbone)
        except KeyboardInterrupt:
            progress.close()
            again = [word for word in sys.argv[1:] if word != "--fresh"]
            raise Stopped(shlex.join(["whorl", *again])) from None
    if flags.as_json:
        say_json(document(result))
    else:
        from whorl.cli.runs import print_run

        print_run(result.path, config, result.steps, result.summary)


def _asked(flags: RunFlags) -> Tree:
    """The config values that the user set: the file, then the flags, then ``--set``."""
    from whorl.known import DEFAULT_METHOD, check_asked
    from whorl.tree import merge, override, parse_override, read_toml

    stored = read_toml(flags.config) if flags.config else {}
    check_asked(stored, str(flags.config))
    changed = merge(*map(parse_override, flags.set_ or []))
    check_asked(merge({"method": {"name": DEFAULT_METHOD}}, stored, override(*flags.values()), changed))
    values = [(key, _order(value) if key == "stream.order" and value else value) for key, value in flags.values()]
    return merge(stored, override(*values), changed)


def prepare(
    asked: Tree, data_dir: Path | None, strict: bool = False, workers: int = 0
) -> tuple[ExperimentConfig, Dataset]:
    """The complete config and its data. The config is checked before the data are loaded, which may take a while."""
    from whorl.data.configured import load_configured
    from whorl.experiment import check
    from whorl.recipes import resolve

    config = resolve(asked)
    check(config)
    _check_tasks(config)
    found, loaded = load_configured(config.data, data_dir, strict, workers, notify=RunFlags.notify)
    return config.model_copy(update={"data": found}), loaded


def _check_tasks(config: ExperimentConfig) -> None:
    """Raise if the data set is known to have fewer tasks, without loading it."""
    from whorl.data import find_loader, traits_of

    classes, stream = config.data.classes or traits_of(find_loader(config.data.name)).classes, config.stream
    if classes is not None and stream.tasks is not None:
        most = 1 + max(0, classes - (stream.first or stream.step)) // stream.step
        if stream.tasks > most:
            raise WhorlError(f"`stream.tasks={stream.tasks}` is more than the {most} tasks that these classes make")


def document(result: Result) -> dict[str, Any]:
    """The document of ``--json``."""
    from whorl.scores import plain

    return {
        "run": str(result.path),
        "config": result.config.tree(),
        "steps": [{key: value for key, value in plain(step).items() if key in STEP_KEYS} for step in result.steps],
        "avg": result.summary.avg,
        "last": result.summary.last,
    }


def _order(order: str) -> str | list[int]:
    from whorl.known import ORDERS

    if order in ORDERS:
        return order
    if not Path(order).exists():
        raise unknown("class order (and no file of that name)", order, ORDERS)
    from whorl.data.order import read_order

    return list(read_order(Path(order)))
