"""Recipes: named sets of constants. Values that a user sets win over them, and the config stores the result in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from whorl.config import ExperimentConfig, LearnerConfig, check_values, checked
from whorl.data import find_loader, traits_of
from whorl.data.inputs import PHOTO_SIZE, Inputs
from whorl.errors import WhorlError, unknown
from whorl.known import DEFAULT_LABELER, DEFAULT_METHOD, OWN_NET, is_pretrained
from whorl.methods import method_class
from whorl.methods.base import Conditions
from whorl.tree import Tree, merge

RECIPES: dict[str, Tree] = {
    # The paper's appendix: SGD 0.1, batch 128, 120 epochs per task, divided by ten every 30, weight decay 1e-5.
    # Momentum: docs/protocol.md, A26.
    "paper": {
        "train": {"first_epochs": 120, "epochs": 120, "batch": 128},
        "optim": {"lr": 0.1, "weight_decay": 1e-5, "schedule": "steps", "milestones": [30, 60, 90]},
    },
    # One cycle with batch 64 needs a fifth of the epochs of step decay, and smaller images in two thirds of them
    # leave 0.6 of the pixels (docs/results.md, "The recipe fast").
    "fast": {
        "train": {"first_epochs": 36, "epochs": 36, "batch": 64, "sizes": [0.5, 0.75, 1.0]},
        "optim": {"lr": 0.2, "nesterov": True, "weight_decay": 5e-4, "schedule": "onecycle"},
    },
    "demo": {
        "train": {"first_epochs": 12, "epochs": 12, "batch": 32},
        "optim": {"lr": 0.1, "nesterov": True, "weight_decay": 5e-4, "schedule": "onecycle"},
    },
}


def _best(conditions: Conditions) -> Tree:
    """What gave the best labels of those measured (docs/results.md, "Better labels").

    Networks that are trained on the initial task alone are worse than those that were trained on more before.
    """
    taught = conditions.vectors or conditions.pretrained
    networks: Tree = {"features": "first"} if taught else {"features": "networks", "networks": 2}
    return {"pseudo": {**networks, "transform": "root", "whiten": True}, "cluster": {"name": "sinkhorn"}}


LABELERS: dict[str, Callable[[Conditions], Tree]] = {"paper": lambda conditions: {}, "best": _best}
"""How pseudo labels are made: the paper's plain choice, and what gave the best labels within its protocol."""


def resolve(asked: Tree) -> ExperimentConfig:
    """The complete config of an experiment: the data set's usual values, the recipe, the method, then ``asked``."""
    check_values(ExperimentConfig, asked)
    data = asked.get("data", {})
    name = str(data.get("name", "digits"))
    traits = traits_of(find_loader(name))
    size = int(data.get("resize") or traits.size)
    photos = traits.photos or size >= PHOTO_SIZE
    conditions = Conditions(
        "", size, photos, traits.vectors, data.get("classes") or traits.classes, asked.get("method", {})
    )
    usual = merge({"data": {"name": name}}, traits.usual or {})
    if "step" in asked.get("stream", {}) or "classes" in data:
        usual.get("stream", {}).pop("first", None)  # suits the usual step and number of classes only
    tree = _resolved(asked, usual, conditions)
    if "step" not in tree.get("stream", {}):
        raise WhorlError(f"state the number of classes per task with `stream.step=N`; {name} has no usual step")
    return checked(ExperimentConfig, tree)


def resolve_learner(asked: Tree, inputs: Inputs, classes: int | None = None) -> LearnerConfig:
    """The complete config of a learner for these inputs: the recipe, the method, then ``asked``."""
    check_values(LearnerConfig, asked)
    vectors = inputs.kind == "vectors"
    conditions = Conditions("", inputs.size, inputs.photos, vectors, classes, asked.get("method", {}))
    return checked(LearnerConfig, _resolved(asked, {}, conditions))


def _usual_net(conditions: Conditions) -> Tree:
    return {"arch": "identity" if conditions.vectors else "resnet18" if conditions.photos else "resnet32"}


def _resolved(asked: Tree, usual: Tree, conditions: Conditions) -> Tree:
    usual = merge({"recipe": "fast", "net": _usual_net(conditions)}, usual)
    net = asked.get("net", {})
    from_pretrained = is_pretrained(str(net.get("arch", "")))
    frozen = net.get("tune", "none" if from_pretrained else "all") == "none"
    conditions = replace(conditions, pretrained=from_pretrained or net.get("arch") == OWN_NET)
    if frozen:  # what is learned then is vectors
        conditions = replace(conditions, photos=False, vectors=True)
    recipe = asked.get("recipe", usual["recipe"])
    if recipe not in RECIPES:
        raise unknown("recipe", str(recipe), RECIPES)
    method = method_class(str(asked.get("method", {}).get("name", DEFAULT_METHOD)))
    properties = {**vars(conditions), "recipe": recipe}
    labeler = asked.get("labeler", DEFAULT_LABELER)
    if labeler not in LABELERS:
        raise unknown("labeler", str(labeler), LABELERS)
    known = Conditions(**properties)
    usual = merge(usual, RECIPES[recipe], method.defaults(known), LABELERS[labeler](known))
    if from_pretrained:  # such networks take images of one size
        usual = merge(usual, {"net": {"tune": "none"}, "train": {"sizes": []}})
    for key in ("milestones", "weight_decay"):
        if key in asked.get("optim", {}):
            usual["optim"].pop(f"first_{key}", None)  # a value that the user sets holds for task 1 too
    tree = merge(usual, asked)
    pseudo, own = tree.get("pseudo", {}), asked.get("pseudo", {})
    if pseudo.get("refresh") and "features" not in own:
        pseudo.pop("features", None)  # of the labeler; a refresh clusters the model in training
    if pseudo.get("features") != LABELERS[labeler](known).get("pseudo", {}).get("features"):
        for key in {"networks", "whiten"} - own.keys():  # those of the labeler go with its features
            pseudo.pop(key, None)
    options = {key: value for key, value in tree.get("method", {}).items() if key != "name"}
    tree["method"] = {"name": method.name, **checked(method, options, "method").model_dump()}
    return tree
