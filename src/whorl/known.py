"""The built-in names that config values can have.

They are listed here, apart from the objects they name, so that the command line can complete them and refuse a typo
without importing torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whorl import registry
from whorl.errors import WhorlError, unknown

if TYPE_CHECKING:
    from whorl.tree import Tree

HUB = "hub:"
TIMM, HF = "timm:", "hf:"
"""How the names of pretrained networks begin: those of timm, and those of transformers."""
OWN_NET = "own"
"""The value of ``net.arch`` for a network that was passed as a module."""
DEFAULT_METHOD = "ours"
DEFAULT_LABELER = "paper"
ORDERS = ("A", "B", "natural")
NETWORKS = ("resnet32", "resnet14-wide", "resnet18", "resnet18-small", "tiny", "identity", "mlp")
SCORES = ("acc", "acc_plain", "acc5", "acc5_plain", "nmi", "ari", "acc_fc", "acc_nme", "acc_ncm", "label_acc")


class Known(NamedTuple):
    """The names of one kind of component, and the entry point group of those from other packages."""

    kind: str
    names: tuple[str, ...]
    group: str | None = None

    def all(self) -> list[str]:
        """All names, including those of other packages."""
        return registry.names(self.names, self.group) if self.group else sorted(self.names)

    def require(self, name: str) -> None:
        """Raise a ``WhorlError`` if there is no such name."""
        if name not in self.names and name not in self.all():
            raise unknown(self.kind, name, self.all())


KNOWN: dict[str, Known] = {
    "method.name": Known(
        "method",
        ("finetune", "joint", "ours", "lwf", "icarl", "eeil", "lucir", "wa", "bic", "ilio"),
        "whorl.methods",
    ),
    "data.name": Known(
        "data set",
        ("cifar100", "digits", "folder", "imagenet", "imagenet100", "synthetic", "vectors"),
        "whorl.data",
    ),
    "cluster.name": Known("clusterer", ("kmeans", "gmm", "spectral", "agglomerative", "sinkhorn"), "whorl.cluster"),
    "net.arch": Known("network", NETWORKS, "whorl.nets"),
    "pseudo.arch": Known("network", ("auto", *NETWORKS), "whorl.nets"),
    "net.head": Known("head", ("linear", "linear-nobias", "cosine", "corrected", "means")),
    "train.augment": Known("augmentation", ("auto", "crop_flip", "shift", "resized_crop", "none")),
    "pseudo.features": Known("extractor", ("current", "first", "networks", "scratch", "pca"), "whorl.extractors"),
    "memory.select": Known("selector", ("herding", "random"), "whorl.memory"),
    "recipe": Known("recipe", ("paper", "fast", "demo")),
    "labeler": Known("labeler", ("paper", "best")),
}
"""By config key."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "finetune": (),
    "joint": (),
    "ours": ("temperature",),
    "lwf": ("variant", "width", "temperature", "weight"),
    "icarl": ("loss", "width", "temperature"),
    "eeil": ("temperature", "loss", "profile", "balanced_epochs", "balanced_lr", "noise"),
    "lucir": ("less_forget", "margin", "negatives", "ranking", "imprint"),
    "wa": ("temperature", "norm", "clip", "reinit", "profile"),
    "bic": ("temperature", "every", "correction_epochs", "correction_lr", "penalty"),
    "ilio": ("temperature", "accommodation", "block", "lr", "weight_decay", "strict"),
}
"""The options of the built-in methods."""


def check_asked(asked: Tree, source: str = "") -> None:
    """Raise a ``WhorlError`` if a key, a value or a name in ``asked`` is wrong; the message begins with ``source``."""
    from whorl.config import ExperimentConfig, check_values

    check_values(ExperimentConfig, asked, source)
    try:
        for key in KNOWN:
            section, _, last = key.rpartition(".")
            name = (asked.get(section, {}) if section else asked).get(last)
            if name is not None:
                require(key, name)
        _check_options(asked.get("method", {}))
    except WhorlError as error:
        raise WhorlError(f"{source}: {error}" if source else str(error)) from None


def _check_options(method: Tree) -> None:
    """Raise if the method has no such option or, without a name, if no method has. Plug-ins are not checked here."""
    methods = [method["name"]] if "name" in method else KNOWN["method.name"].all()
    if OPTIONS.keys() >= set(methods):
        known = {option for name in methods for option in OPTIONS[name]}
        for key in sorted(method.keys() - known - {"name"}):
            raise unknown("config key", f"method.{key}", [f"method.{option}" for option in known])


def require(key: str, name: str) -> None:
    """Raise a ``WhorlError`` if the config key ``key`` has no value ``name``."""
    free: tuple[str, ...] = {"data.name": (HUB,), "net.arch": (TIMM, HF)}.get(key, ())
    if not name.startswith(free):
        KNOWN[key].require(name)


def is_pretrained(arch: str) -> bool:
    """Whether this is the name of a network of timm or transformers."""
    return arch.startswith((TIMM, HF))
