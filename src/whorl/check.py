"""Checks of a learner's config that its types cannot express: names, and values that exclude each other."""

from __future__ import annotations

from collections.abc import Sequence

from whorl import cluster
from whorl.config import LearnerConfig
from whorl.data.inputs import VIEWS
from whorl.errors import WhorlError, unknown
from whorl.known import KNOWN, OWN_NET, is_pretrained
from whorl.labels import extractors
from whorl.memory.select import get_selector
from whorl.methods import method_of
from whorl.nets import backbone
from whorl.nets.builder import AUTO
from whorl.nets.heads import HEADS


def check_learner(config: LearnerConfig, sizes: Sequence[int] = (), labelled: bool = True) -> None:
    """Raise a ``WhorlError`` if a name is unknown or two values exclude each other. Needs no data.

    ``sizes`` are the numbers of new classes per delivery as far as they are known, ``labelled`` is whether all
    deliveries have labels.
    """
    if config.net.arch != OWN_NET and not is_pretrained(config.net.arch):
        backbone.find(config.net.arch)
    if config.net.tune == "none":
        _refuse_training(config)
    extractors.find(config.pseudo.features)
    for kind, name, known in (
        ("head", config.net.head, list(HEADS)),
        ("augmentation", config.train.augment, ["auto", *VIEWS]),
    ):
        if name not in known:
            raise unknown(kind, name, known)
    KNOWN["labeler"].require(config.labeler)
    get_selector(config.memory.select)
    cluster.create(**config.cluster.model_dump())
    method, pseudo = method_of(config), config.pseudo
    method.check(config, sizes, labelled)
    if pseudo.refresh and pseudo.features != "current":
        raise WhorlError(
            f"`pseudo.refresh` clusters with the current model; it cannot be combined with "
            f"`pseudo.features={pseudo.features}`"
        )
    if pseudo.features == "networks" and not pseudo.networks:
        raise WhorlError(
            "`pseudo.features=networks` needs networks; set `pseudo.networks` to 1 or more, or other features"
        )
    if pseudo.networks and pseudo.features in ("current", "first", "scratch", "pca"):
        raise WhorlError(
            f"`pseudo.networks={pseudo.networks}` trains networks that `pseudo.features={pseudo.features}` does not "
            "use; set `pseudo.features=networks`, or `pseudo.networks=0`"
        )
    if pseudo.whiten and pseudo.features not in ("first", "networks"):
        raise WhorlError(
            "`pseudo.whiten` needs features of networks that learn the initial task and stay as they are, which "
            f"`pseudo.features={pseudo.features}` does not use; set it to first or networks, or `pseudo.whiten=false`"
        )
    if pseudo.whiten and pseudo.refine:
        raise WhorlError("`pseudo.whiten` is learned from unrefined features; leave out `pseudo.refine`")
    if pseudo.arch != AUTO:
        backbone.find(pseudo.arch)
    if pseudo.trust < 1 and method.needs_past:
        raise WhorlError(f"{method.name} learns all samples again in every step; set `pseudo.trust=1`")
    if pseudo.refine and pseudo.features not in ("current", "first"):
        raise WhorlError(
            f"`pseudo.refine` refines a trained network; it cannot be combined with `pseudo.features={pseudo.features}`"
        )
    if pseudo.refresh and pseudo.refine:
        raise WhorlError("`pseudo.refresh` clusters unrefined features; it cannot be combined with `pseudo.refine`")
    if pseudo.refresh and (method.online or method.hold_out_every):
        reason = "uses each image once" if method.online else "holds images out by their initial labels"
        raise WhorlError(f"{method.name} {reason}; it cannot be combined with `pseudo.refresh`")
    if config.classifier == "nme" and config.memory.quota == 0:
        raise WhorlError("`classifier=nme` needs exemplars; set `memory.quota`, or `classifier=fc`")


def _refuse_training(config: LearnerConfig) -> None:
    """Raise a ``WhorlError`` if the config asks for something that trains a network, beside a frozen backbone."""
    train, pseudo = config.train, config.pseudo
    asked = {
        "train.rotations": train.rotations != "never",
        "train.contrast": train.contrast != "never",
        "pseudo.networks": pseudo.networks > 0,
        "pseudo.refine": pseudo.refine > 0,
        "pseudo.features": pseudo.features == "scratch",
        "pseudo.transform": pseudo.transform == "turns",
    }
    for key in (key for key, wanted in asked.items() if wanted):
        raise WhorlError(f"`net.tune=none` learns features and not images; leave out `{key}`, or set `net.tune=all`")
