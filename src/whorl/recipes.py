"""Recipes: constants by name. What a user sets wins over them, and the config stores the result in full."""

from __future__ import annotations

from typing import Any

from whorl.config import Config, Tree, checked, merge
from whorl.data import find_loader
from whorl.errors import WhorlError, unknown
from whorl.methods import method_class
from whorl.methods.base import Setting

RECIPES: dict[str, Tree] = {
    # The appendix: SGD 0.1, batch 128, 120 epochs a step, a tenth every 30, weight decay 1e-5; momentum by A26.
    "paper": {
        "train": {"first_epochs": 120, "epochs": 120, "batch": 128},
        "optim": {"lr": 0.1, "weight_decay": 1e-5, "schedule": "steps", "milestones": [30, 60, 90]},
    },
    # With 5,000 images a task, batch 64 and one cycle reach in 20 epochs what step decay takes 120 to 200 for.
    "fast": {
        "train": {"first_epochs": 22, "epochs": 12, "batch": 64},
        "optim": {"lr": 0.2, "nesterov": True, "weight_decay": 5e-4, "schedule": "onecycle"},
    },
    "demo": {
        "train": {"first_epochs": 12, "epochs": 12, "batch": 32},
        "optim": {"lr": 0.1, "nesterov": True, "weight_decay": 5e-4, "schedule": "onecycle"},
    },
}

# What fits a data set where nothing else is said. Others ("folder", "hub:…") have to say their step.
_FITTING: dict[str, Tree] = {
    # A net that has seen two digits sees little in others; one that has seen six groups new ones well. In natural order
    # the last pair would be 8 and 9, which it often cannot tell apart; order A mixes the digits.
    "digits": {"recipe": "demo", "stream": {"step": 2, "first": 6, "order": "A"}, "net": {"arch": "tiny"}},
    "synthetic": {"recipe": "demo", "stream": {"step": 2}, "net": {"arch": "tiny"}},
    "cifar100": {"stream": {"step": 10, "order": "A"}},
    "imagenet": {"stream": {"step": 100, "order": "A"}, "net": {"arch": "resnet18"}},
    "imagenet100": {"stream": {"step": 10, "order": "A"}, "net": {"arch": "resnet18"}},
}


_KEY = {"optim": "optim.lr=0.05", "data": "data.name=digits", "stream": "stream.step=2", "method": "method.name=ours"}


def resolve(asked: Tree) -> Config:
    """The whole config from what a user asked for: data set's fit, recipe, method, then the user's own values."""
    for section, example in _KEY.items():
        if not isinstance(asked.get(section, {}), dict):
            raise WhorlError(f"{section} is a section of the config; set one of its keys, for instance {example}")
    name = str(asked.get("data", {}).get("name", "digits"))
    find_loader(name)
    fitting = merge({"recipe": "fast", "data": {"name": name}, "net": {"arch": "resnet32"}}, _FITTING.get(name, {}))
    if "step" in asked.get("stream", {}) or "classes" in asked.get("data", {}):
        fitting.get("stream", {}).pop("first", None)  # it fits the usual step and number of classes only
    recipe = asked.get("recipe", fitting["recipe"])
    if recipe not in RECIPES:
        raise unknown("recipe", str(recipe), RECIPES)
    method = method_class(str(asked.get("method", {}).get("name", "ours")))
    setting = Setting(recipe, name, asked.get("method", {}))
    usual = merge(fitting, RECIPES[recipe], method.defaults(setting))
    for key in ("milestones", "weight_decay"):
        if key in asked.get("optim", {}):
            usual["optim"].pop(f"first_{key}", None)  # what a user sets holds for task 1 too
    tree = merge(usual, asked)
    if "step" not in tree.get("stream", {}):
        raise WhorlError(f"say how many classes come at a time with --step N; {name} has no usual step")
    options = {key: value for key, value in tree.get("method", {}).items() if key != "name"}
    tree["method"] = {"name": method.name, **checked(method, options, "method").model_dump()}
    return checked(Config, tree)


def override(*pairs: tuple[str, Any]) -> Tree:
    """A tree from dotted keys, leaving out those whose value is None (a flag that was not given)."""
    out: Tree = {}
    for key, value in pairs:
        if value is not None:
            for part in reversed(key.split(".")):
                value = {part: value}
            out = merge(out, value)
    return out
