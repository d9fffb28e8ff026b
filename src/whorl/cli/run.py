"""``whorl run``: one config from start to end, or from where it stopped."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whorl.errors import WhorlError, unknown

if TYPE_CHECKING:
    from whorl.config import Config
    from whorl.data.source import Dataset
    from whorl.experiment import Result

STEP_KEYS = (
    "task", "classes", "acc", "acc_plain", "acc5", "nmi", "ari", "acc_fc", "acc_nme", "acc_ncm", "label_acc", "method",
    "seconds", "images_per_second",
)  # fmt: skip

Opt = typer.Option


def run(
    data: Annotated[
        str | None, Opt(help="digits, cifar100, folder, imagenet, imagenet100, synthetic, hub:NAME.")
    ] = None,
    data_dir: Annotated[Path | None, Opt(help="Where the data lie (a folder, or an archive).")] = None,
    method: Annotated[str | None, Opt(help="ours, icarl, wa, …; `whorl methods` lists them.")] = None,
    labels: Annotated[str | None, Opt(help="pseudo: cluster what arrives; given: use its labels (supervised).")] = None,
    recipe: Annotated[str | None, Opt(help="paper: the appendix; fast: far fewer passes; demo: seconds.")] = None,
    seed: Annotated[int | None, Opt(help="Changes everything random but the class order. [default: 0]")] = None,
    step: Annotated[int | None, Opt(help="Classes a task.")] = None,
    first: Annotated[int | None, Opt(help="Classes of task 1, where not --step.")] = None,
    tasks: Annotated[int | None, Opt(help="Stop after so many tasks.")] = None,
    order: Annotated[str | None, Opt(help="Class order: A, B, natural, or a file of class ids.")] = None,
    resize: Annotated[int | None, Opt(help="Side of the images in pixels.")] = None,
    per_class: Annotated[int | None, Opt(help="At most so many training images a class.")] = None,
    classes: Annotated[int | None, Opt(help="Only the first so many classes.")] = None,
    subset: Annotated[str | None, Opt(help="imagenet100: S1, S2, or a file that lists classes.")] = None,
    net: Annotated[str | None, Opt(help="resnet32, resnet18, resnet18-small, tiny.")] = None,
    classifier: Annotated[str | None, Opt(help="Whose score is the headline: fc or nme. Both are stored.")] = None,
    memory: Annotated[str | None, Opt(help="per-class or total.")] = None,
    quota: Annotated[int | None, Opt(help="Exemplars per class, or in total. [default: 20]")] = None,
    select: Annotated[str | None, Opt(help="How exemplars are chosen: herding or random.")] = None,
    reading: Annotated[str | None, Opt(help="Reading of Algorithm 2: aligned, reuse, recluster.")] = None,
    features: Annotated[str | None, Opt(help="What is clustered: current, first, scratch, pca.")] = None,
    refresh: Annotated[int | None, Opt(help="Cluster again every so many epochs (UPL-K); 0: never.")] = None,
    cluster: Annotated[str | None, Opt(help="Clustering: kmeans, gmm, spectral, agglomerative, sinkhorn.")] = None,
    epochs: Annotated[int | None, Opt(help="Epochs of every task.")] = None,
    set_: Annotated[list[str] | None, Opt("--set", help="Any constant, e.g. optim.lr=0.05. Repeatable.")] = None,
    config: Annotated[Path | None, Opt(help="A TOML file of the same keys; flags win over it.")] = None,
    out: Annotated[Path, Opt(help="Where runs are stored.")] = Path("runs"),
    fresh: Annotated[bool, Opt("--fresh", help="Start over, dropping what this run has stored.")] = False,
    strict: Annotated[bool, Opt("--strict", help="Stop at a broken image instead of skipping it.")] = False,
    device: Annotated[str, Opt(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    precision: Annotated[str | None, Opt(help="fp32 or bf16 (autocast).")] = None,
    channels_last: Annotated[bool, Opt(help="Memory layout of images.")] = True,
    compile_: Annotated[bool, Opt("--compile", help="Compile the network; pays off in long runs.")] = False,
    workers: Annotated[int, Opt(help="Processes that decode images which do not fit in memory.")] = 2,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON document on stdout.")] = False,
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False,
) -> None:
    """Learn class after class. The same command again resumes, or prints the stored result."""
    from whorl.config import merge, parse_override, read_toml
    from whorl.recipes import override, resolve

    asked = merge(
        read_toml(config) if config else {},
        override(
            ("data.name", data), ("data.resize", resize), ("data.per_class", per_class), ("data.classes", classes),
            ("data.subset", subset), ("stream.step", step), ("stream.first", first), ("stream.tasks", tasks),
            ("stream.order", _order(order)),
            ("method.name", method), ("labels", labels), ("recipe", recipe), ("seed", seed), ("net.arch", net),
            ("classifier", classifier), ("memory.policy", memory), ("memory.quota", quota), ("memory.select", select),
            ("memory.reading", reading), ("cluster.name", cluster), ("pseudo.features", features),
            ("pseudo.refresh", refresh), ("train.epochs", epochs), ("train.first_epochs", epochs),
            ("precision", precision),
        ),
        *map(parse_override, set_ or []),
    )  # fmt: skip
    from whorl.cli.progress import reporter
    from whorl.experiment import run as run_config
    from whorl.methods import method_class
    from whorl.runtime import Runtime, find_device

    runtime = Runtime(find_device(device), "fp32", channels_last, compile_, workers)
    name = resolve(asked).method.name
    if epochs is not None and method_class(name).online:
        raise WhorlError(
            f"{name} sees each new image once, so --epochs does not apply to it; "
            "--set train.first_epochs=N changes its first, offline task"
        )
    resolved, loaded = prepare(asked, data_dir, strict, workers)
    with reporter(quiet) as progress:
        try:
            result = run_config(resolved, loaded, out, runtime, progress, fresh)
        except KeyboardInterrupt:
            progress.close()
            again = [word for word in sys.argv[1:] if word != "--fresh"]
            print(f"whorl: stopped; to go on: {shlex.join(['whorl', *again])}", file=sys.stderr)
            raise typer.Exit(130) from None
    if as_json:
        print(json.dumps(document(result)))
    else:
        from whorl.cli.runs import print_run

        print_run(result.path, resolved, result.steps, result.summary)


def prepare(asked: dict[str, Any], data_dir: Path | None, strict: bool, workers: int) -> tuple[Config, Dataset]:
    """The whole config and its data. The config is checked before the data are loaded, which may take a while."""
    from whorl.data.configured import load_configured
    from whorl.experiment import check
    from whorl.recipes import resolve

    config = resolve(asked)
    check(config)
    found, loaded = load_configured(
        config.data, data_dir, strict, workers, notify=lambda line: print(line, file=sys.stderr)
    )
    return config.model_copy(update={"data": found}), loaded


def document(result: Result) -> dict[str, Any]:
    """What ``--json`` prints."""
    from whorl.scores import plain

    return {
        "run": str(result.path),
        "config": result.config.tree(),
        "steps": [{key: value for key, value in plain(step).items() if key in STEP_KEYS} for step in result.steps],
        "avg": result.summary.avg,
        "last": result.summary.last,
    }


def _order(order: str | None) -> str | list[int] | None:
    from whorl.data.order import NAMED, read_order

    if order is None or order in NAMED:
        return order
    if not Path(order).exists():
        raise unknown("class order (and no file of that name)", order, NAMED)
    return list(read_order(Path(order)))
