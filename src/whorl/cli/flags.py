"""The flags of the commands as typed tables: one dataclass per command, one field per flag."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer import Option as Opt

from whorl.cli import complete
from whorl.cli.lines import tell
from whorl.errors import WhorlError

_PRECISION = "fp32, bf16 (autocast), or auto: the faster one, measured for a second."
_QUOTED = re.compile(r"(?:\b(set|raise|lower) )?`([a-z0-9_]+(?:\.[a-z0-9_]+)*)(?:=([^`]*))?`")

_OTHERS = {"plot": "--plot", "new": "--new", "yes": "--yes", "into": "--into"}
"""Flags of commands without a table, by the parameter that library messages name."""


@dataclass(frozen=True)
class Key:
    """The config key that a flag sets and that messages replace by the flag; ``also`` lists further keys it sets."""

    name: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Base class: subclasses declare each flag as an annotated field, with a :class:`Key` if it sets a config value."""

    @classmethod
    def keys(cls) -> dict[str, Key]:
        """The config keys by field."""
        return {name: each for name, hint in _hints(cls) for each in hint.__metadata__ if isinstance(each, Key)}

    @classmethod
    def flag_of(cls) -> dict[str, str]:
        """The flag for each config key or parameter that a library message can name."""
        keys, found = cls.keys(), dict[str, str]()
        for name, hint in _hints(cls):
            for option in hint.__metadata__:
                if isinstance(option, typer.models.OptionInfo):
                    # typer keeps a flag that is given explicitly as the default value
                    flag = option.default if isinstance(option.default, str) else "--" + name.replace("_", "-")
                    found[keys[name].name if name in keys else name] = flag
        return found

    @classmethod
    def translate(cls, message: str) -> str:
        """Replace config keys in backquotes by flags: `` `memory.quota=30` `` becomes ``--quota 30``.

        A config key without a flag becomes ``--set key=value`` where the message advises to change it, and loses its
        backquotes elsewhere. A flag that only ``whorl run`` has is named as such.
        """
        from whorl.config import ExperimentConfig

        flags, of_run = _OTHERS | cls.flag_of(), RunFlags.flag_of()

        def flag(found: re.Match[str]) -> str:
            verb, key, value = found.groups()
            if key in flags:
                words = flags[key] if value is None else f"{flags[key]} {value}"
            elif key.partition(".")[0] in ExperimentConfig.model_fields:
                words = f"--set {key}={value or '…'}" if verb or value else key
            elif key in of_run:
                words = f"{of_run[key]} of `whorl run`"
            else:
                return found.group(0)
            if verb == "set" and words.startswith(("--set ", "--strict", "--fresh")):
                verb = "pass"
            return f"{verb} {words}" if verb else words

        return _QUOTED.sub(flag, message)

    @classmethod
    def notify(cls, line: str) -> None:
        """Print a message of the library on stderr, with flags instead of config keys."""
        tell(cls.translate(line))

    def values(self) -> tuple[tuple[str, Any], ...]:
        """The config keys with the values of their flags, for :func:`whorl.tree.override`."""
        given = {key: getattr(self, field) for field, key in self.keys().items()}
        return tuple((name, value) for key, value in given.items() for name in (key.name, *key.also))


F = TypeVar("F", bound=Flags)


def command(flags: type[F]) -> Callable[[Callable[[F], None]], Callable[..., None]]:
    """Turn a function of ``flags`` into a command that has one option per field."""
    hints = dict(_hints(flags))
    for name, hint in hints.items():
        for option in hint.__metadata__:
            if isinstance(option, typer.models.ParameterInfo):
                option.autocompletion = _completion(name)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if _required(hints[field.name], field.default) else field.default,
            annotation=hints[field.name],
        )
        for field in fields(flags)
    ]

    def decorate(body: Callable[[F], None]) -> Callable[..., None]:
        def wrapper(**given: Any) -> None:
            try:
                body(flags(**given))
            except WhorlError as error:
                raise WhorlError(flags.translate(str(error))) from None

        wrapper.__name__, wrapper.__doc__ = body.__name__, body.__doc__
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _hints(flags: type[Flags]) -> list[tuple[str, Any]]:
    """The fields with their annotations."""
    return list(get_type_hints(flags, include_extras=True).items())


def _completion(field: str) -> Callable[..., list[str]] | None:
    """The function that completes the values of a flag; flags of the same name have the same values."""
    special = {"set_": complete.keys, "paper": complete.papers}
    key = RunFlags.keys().get(field)
    return complete.values(key.name) if key and complete.knows(key.name) else special.get(field)


def _required(hint: Any, default: object) -> bool:
    """Whether a field is an argument that cannot be left out; None is the default of one that can."""
    return default is not None and any(isinstance(each, typer.models.ArgumentInfo) for each in hint.__metadata__)


@dataclass(frozen=True, kw_only=True)
class RunFlags(Flags):
    """The flags of ``whorl run``."""

    data: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("data.name"),
            help="digits, cifar100, folder, imagenet, imagenet100, synthetic, vectors, hub:NAME.",
        ),
        Key("data.name"),
    ] = None
    data_dir: Annotated[Path | None, Opt(help="The folder, archive or file with the data.")] = None
    method: Annotated[
        str | None,
        Opt(help="ours, icarl, wa, …; `whorl methods` lists them."),
        Key("method.name"),
    ] = None
    labels: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("labels"),
            help="pseudo: cluster the new images; given: use their labels (supervised); corrupted: use labels made "
            "wrong on purpose (diagnostic, needs --label-acc).",
        ),
        Key("labels"),
    ] = None
    labeler: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("labeler"),
            help="How pseudo labels are made: paper, or best (docs/results.md). [default: paper]",
        ),
        Key("labeler"),
    ] = None
    label_acc: Annotated[
        float | None,
        Opt(min=0, max=1, help="Share of right labels, with --labels corrupted."),
        Key("label_acc"),
    ] = None
    recipe: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("recipe"),
            help="paper: as in the appendix; fast: far fewer epochs; demo: seconds.",
        ),
        Key("recipe"),
    ] = None
    seed: Annotated[
        int | None, Opt(help="Changes everything random except the class order. [default: 0]"), Key("seed")
    ] = None
    step: Annotated[int | None, Opt(help="Classes per task."), Key("stream.step")] = None
    first: Annotated[int | None, Opt(help="Classes of task 1. [default: as --step]"), Key("stream.first")] = None
    tasks: Annotated[int | None, Opt(help="Stop after N tasks."), Key("stream.tasks")] = None
    order: Annotated[
        str | None,
        Opt(help="Class order: A, B, natural, or a file of class ids."),
        Key("stream.order"),
    ] = None
    resize: Annotated[int | None, Opt(help="Side of the images in pixels."), Key("data.resize")] = None
    per_class: Annotated[int | None, Opt(help="At most N training images per class."), Key("data.per_class")] = None
    classes: Annotated[int | None, Opt(help="Only the first N classes."), Key("data.classes")] = None
    subset: Annotated[
        str | None, Opt(help="imagenet100: S1, S2, or a file that lists classes."), Key("data.subset")
    ] = None
    net: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("net.arch"),
            help="resnet32, resnet18, resnet18-small, tiny; for vectors identity or mlp; pretrained timm:NAME, "
            "hf:NAME, hf:FOLDER.",
        ),
        Key("net.arch"),
    ] = None
    weights: Annotated[Path | None, Opt(help="File with the weights of a pretrained network.")] = None
    tune: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("net.tune"),
            help="What of the network is trained: none (its features are computed once), last (its last block) or "
            "all. [default: all; none if it is pretrained]",
        ),
        Key("net.tune"),
    ] = None
    classifier: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("classifier"),
            help="The classifier of the main score: fc or nme. Both are stored.",
        ),
        Key("classifier"),
    ] = None
    memory: Annotated[
        str | None,
        Opt(help="per-class or total."),
        Key("memory.policy"),
    ] = None
    quota: Annotated[int | None, Opt(help="Exemplars per class, or in total. [default: 20]"), Key("memory.quota")] = (
        None
    )
    select: Annotated[
        str | None,
        Opt(help="Selection of exemplars: herding or random."),
        Key("memory.select"),
    ] = None
    reading: Annotated[
        str | None,
        Opt(help="Reading of Algorithm 2: aligned, reuse, recluster."),
        Key("memory.reading"),
    ] = None
    features: Annotated[
        str | None,
        Opt(help="Features to cluster: current, first, networks, scratch, pca."),
        Key("pseudo.features"),
    ] = None
    refresh: Annotated[
        int | None, Opt(help="Cluster again every N epochs (UPL-K); 0: never."), Key("pseudo.refresh")
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            autocompletion=complete.values("cluster.name"),
            help="Clustering: kmeans, gmm, spectral, agglomerative, sinkhorn.",
        ),
        Key("cluster.name"),
    ] = None
    epochs: Annotated[
        int | None,
        Opt(min=0, max=1_000_000, help="Epochs of every task."),
        Key("train.epochs", ("train.first_epochs",)),
    ] = None
    set_: Annotated[
        list[str] | None,
        Opt("--set", help="Any config value, e.g. optim.lr=0.05. Repeatable."),
    ] = None
    config: Annotated[Path | None, Opt(help="A TOML file of config values; flags win over it.")] = None
    out: Annotated[Path, Opt(help="The folder of runs.")] = Path("runs")
    fresh: Annotated[bool, Opt("--fresh", help="Start from scratch and delete what this run has stored.")] = False
    strict: Annotated[bool, Opt("--strict", help="Stop at a broken image instead of skipping it.")] = False
    device: Annotated[str, Opt(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    precision: Annotated[str | None, Opt(help=_PRECISION), Key("precision")] = None
    channels_last: Annotated[bool, Opt(help="Memory layout of images.")] = True
    compile_: Annotated[bool, Opt("--compile", help="Compile the network, for long runs.")] = False
    workers: Annotated[int, Opt(min=0, max=256, help="Processes that decode images that do not fit in memory.")] = 2
    as_json: Annotated[bool, Opt("--json", help="Print one JSON document on stdout.")] = False
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags(Flags):
    """The arguments and flags of ``whorl reproduce``."""

    paper: Annotated[str, typer.Argument(help="Which paper: he2021.")] = ""
    table: Annotated[list[int] | None, Opt(help="Only this table. All filters but --labels can be repeated.")] = None
    figure: Annotated[list[int] | None, Opt(help="Only this figure.")] = None
    data: Annotated[
        list[str] | None,
        Opt(help="Only this data set; digits replaces all of them."),
    ] = None
    method: Annotated[list[str] | None, Opt(help="Only this method.")] = None
    step: Annotated[list[int] | None, Opt(help="Only columns of this step size.")] = None
    labels: Annotated[
        str | None,
        Opt(help="Only runs with labels (given) or without (pseudo)."),
    ] = None
    seeds: Annotated[
        int | None, Opt(min=1, max=1000, help="Seeds 0 to N-1. [default: as the paper, 5; recipe demo: 2]")
    ] = None
    recipe: Annotated[
        str | None,
        Opt(help="paper, fast or demo. [default: paper; digits: demo]"),
    ] = None
    resize: Annotated[int | None, Opt(help="Side of the images in pixels."), Key("data.resize")] = None
    per_class: Annotated[int | None, Opt(help="At most N training images per class."), Key("data.per_class")] = None
    tasks: Annotated[int | None, Opt(help="Stop after N tasks."), Key("stream.tasks")] = None
    labeler: Annotated[
        str | None,
        Opt(help="How pseudo labels are made: paper, or best (docs/results.md). [default: paper]"),
        Key("labeler"),
    ] = None
    set_: Annotated[
        list[str] | None,
        Opt("--set", help="Any config value, for all runs, e.g. train.epochs=6."),
    ] = None
    data_dir: Annotated[list[str] | None, Opt(help="The folder of the data: DIR, or NAME=DIR for several.")] = None
    jobs: Annotated[
        int | None, Opt(min=1, max=256, help="Runs at a time. [default: one per core, up to 8; on a GPU 1]")
    ] = None
    out: Annotated[Path, Opt(help="The folder of runs.")] = Path("runs")
    report: Annotated[Path, Opt(help="The folder of the report.")] = Path("report")
    dry_run: Annotated[bool, Opt("--dry-run", help="Print the plan and stop.")] = False
    device: Annotated[str, Opt(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    precision: Annotated[str | None, Opt(help=_PRECISION), Key("precision")] = None
    compile_: Annotated[bool, Opt("--compile", help="Compile the network, for long runs.")] = False
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False


@dataclass(frozen=True, kw_only=True)
class LearnFlags(Flags):
    """The arguments and flags of ``whorl learn``."""

    folder: Annotated[
        Path | None, typer.Argument(help="A folder of photos; without one, only corrections are learned.")
    ] = None
    into: Annotated[Path, Opt("--into", help="The model folder; the first delivery makes it.")]
    labels_of: Annotated[
        str | None,
        Opt("--labels", help="folders (CLASS/*.jpg, default at first), or a table of FILE,LABEL."),
    ] = None
    new: Annotated[
        int | None, Opt(min=0, help="How many new classes a delivery without labels has. [default: estimated]")
    ] = None
    all_new: Annotated[bool, Opt("--all-new", help="All photos belong to new classes, as many as --new says.")] = False
    method: Annotated[str | None, Opt(help="The method of a new model; `whorl methods` lists them."), Key("method")] = (
        None
    )
    net: Annotated[
        str | None,
        Opt(help="The network of a new model: resnet32, resnet18, …, or timm:NAME, hf:NAME, hf:FOLDER."),
        Key("net"),
    ] = None
    weights: Annotated[Path | None, Opt(help="A file with the weights of a pretrained network."), Key("weights")] = None
    tune: Annotated[
        str | None,
        Opt(help="What of a pretrained network is trained: none, last, all. [default: none]"),
        Key("net.tune"),
    ] = None
    recipe: Annotated[str | None, Opt(help="How long a new model trains: paper, fast or demo."), Key("recipe")] = None
    resize: Annotated[
        int | None, Opt(min=8, max=16_384, help="Side of the photos in pixels. [default: 32]"), Key("resize")
    ] = None
    seed: Annotated[int | None, Opt(help="Changes everything random in a new model."), Key("random_state")] = None
    set_: Annotated[
        list[str] | None, Opt("--set", help="Any config value of a new model, e.g. memory.quota=50."), Key("options")
    ] = None
    keep_photos: Annotated[bool, Opt("--keep-photos", help="Copy the photos into the model folder.")] = False
    yes: Annotated[bool, Opt("--yes", help="Labels that look like a typo of a name are other classes.")] = False
    as_json: Annotated[bool, Opt("--json", help="Print one JSON document on stdout.")] = False
    quiet: Annotated[bool, Opt("--quiet", help="No progress.")] = False

    @classmethod
    def flag_of(cls) -> dict[str, str]:
        """As for all commands; the network is a parameter of the estimator, and ``net.arch`` in its config."""
        return {**super().flag_of(), "net.arch": "--net"}
