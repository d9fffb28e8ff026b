"""The constants of every method in the papers' code, what short recipes change, and which data get which constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.config import ExperimentConfig, LearnerConfig
from whorl.data import LOADERS
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.methods import METHODS
from whorl.methods.base import Conditions
from whorl.recipes import RECIPES, resolve, resolve_learner
from whorl.sections import OptimConfig, TrainConfig
from whorl.tree import Tree, digest


@dataclass(frozen=True)
class Row:
    """One method's recipe on one data set; ``first`` and ``later`` tasks have (epochs, milestones, weight decay)."""

    method: str
    data: str
    first: tuple[int, tuple[int, ...], float]
    later: tuple[int, tuple[int, ...], float]
    lr: float = 0.1
    batch: int = 128
    gamma: float = 0.1
    asked: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    mirror: bool = False
    """Whether mirrored exemplars count in the class means."""
    by_task: bool = False
    """Whether the decay is divided by the task's number."""

    def __str__(self) -> str:
        return "-".join([self.method, *map(str, self.asked.values()), self.data])


OURS = (120, (30, 60, 90), 1e-5)
SIGMOID, SIGMOID_LARGE = (70, (49, 63), 2e-5), (60, (20, 30, 40, 50), 1e-5)
ONLINE = (1, (30, 60, 90), 1e-5)

# fmt: off
TABLE = [
    Row("ours", "cifar100", OURS, OURS, options={"temperature": 2}),
    Row("ours", "imagenet", OURS, OURS),
    Row("lwf", "cifar100", SIGMOID, SIGMOID, 2.0, gamma=0.2, options={"variant": "mc_bce", "width": 100}),
    Row("lwf", "imagenet", SIGMOID_LARGE, SIGMOID_LARGE, 2.0, gamma=0.2, options={"width": 1000}),
    Row("lwf", "cifar100", (200, (60, 120, 160), 5e-4), (250, (60, 120, 180, 220), 2e-4),
        asked={"variant": "local_ce"}, options={"weight": 3, "temperature": 2}),
    Row("lwf", "cifar100", OURS, OURS, asked={"variant": "eq3"}),
    Row("icarl", "cifar100", SIGMOID, SIGMOID, 2.0, gamma=0.2, options={"loss": "bce", "width": 100}, mirror=True),
    Row("icarl", "imagenet100", SIGMOID_LARGE, SIGMOID_LARGE, 2.0, gamma=0.2,
        options={"width": 100}),
    Row("icarl", "imagenet", SIGMOID_LARGE, SIGMOID_LARGE, 2.0, gamma=0.2, options={"width": 1000}),
    Row("icarl", "cifar100", (200, (60, 120, 170), 5e-4), (170, (80, 120), 2e-4), asked={"loss": "ce_kd"},
        options={"temperature": 2}, mirror=True),
    Row("eeil", "cifar100", (100, (25, 50, 75), 1e-4), (40, (10, 20, 30), 1e-4),
        options={"profile": "twelve", "balanced_epochs": 30, "balanced_lr": 0.01, "noise": 0, "loss": "heads"}),
    Row("eeil", "imagenet", (60, (15, 30, 45), 1e-4), (40, (10, 20, 30), 1e-4), options={"profile": "twelve"}),
    Row("eeil", "cifar100", (90, (50, 60), 1e-4), (60, (40, 50), 1e-4), asked={"profile": "light"},
        options={"balanced_epochs": 30, "balanced_lr": 0.01}),
    Row("lucir", "cifar100", (160, (80, 120), 5e-4), (160, (80, 120), 5e-4),
        options={"less_forget": 5, "margin": 0.5, "negatives": 2, "ranking": 1, "imprint": True}, mirror=True),
    Row("lucir", "imagenet100", (90, (30, 60), 1e-4), (90, (30, 60), 1e-4),
        options={"less_forget": 10}),
    Row("lucir", "imagenet", (90, (30, 60), 1e-4), (90, (30, 60), 1e-4), options={"less_forget": 10}),
    Row("wa", "cifar100", (170, (60, 100, 140), 2e-4), (170, (60, 100, 140), 2e-4),
        options={"norm": 2, "clip": True, "reinit": False, "temperature": 2}),
    Row("wa", "cifar100", (250, (100, 150, 200), 1e-4), (250, (100, 150, 200), 1e-4), batch=32,
        asked={"profile": "full"}, by_task=True),
    Row("wa", "imagenet", (100, (30, 60, 80, 90), 1e-4), (100, (30, 60, 80, 90), 1e-4), batch=256, by_task=True),
    Row("bic", "cifar100", (250, (100, 150, 200), 2e-4), (250, (100, 150, 200), 2e-4),
        options={"every": 10, "correction_epochs": 200, "correction_lr": 0.1, "penalty": 0.1, "temperature": 2}),
    Row("bic", "imagenet", (100, (30, 60, 80, 90), 1e-3), (100, (30, 60, 80, 90), 1e-3), batch=256, by_task=True),
    Row("ilio", "cifar100", OURS, ONLINE,
        options={"block": 16, "lr": 0.01, "accommodation": 0.5, "temperature": 2, "strict": False}),
    Row("ilio", "imagenet", OURS, ONLINE),
]
# fmt: on

NETS = {  # head, ReLU after the last block, classifier
    "finetune": ("linear", True, "fc"),
    "joint": ("linear", True, "fc"),
    "ours": ("linear", True, "fc"),
    "lwf": ("linear", True, "fc"),
    "icarl": ("linear", False, "nme"),
    "eeil": ("linear", True, "fc"),
    "lucir": ("cosine", False, "fc"),
    "wa": ("linear-nobias", True, "fc"),
    "bic": ("corrected", True, "fc"),
    "ilio": ("means", True, "fc"),
}

SHORTER: dict[tuple[str, str], dict[str, Any]] = {
    ("eeil", "fast"): {"profile": "light"},
    ("eeil", "demo"): {"profile": "light"},
    ("bic", "demo"): {"correction_epochs": 40},
}
"""The options that short recipes change."""


def resolved(method: str, data: str, recipe: str, **options: Any) -> ExperimentConfig:
    return resolve({"data": {"name": data}, "recipe": recipe, "method": {"name": method, **options}})


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_paper(row: Row) -> None:
    config = resolved(row.method, row.data, "paper", **row.asked)
    train, optim = config.train, config.optim
    assert (train.first_epochs, train.epochs, train.batch) == (row.first[0], row.later[0], row.batch)
    assert (optim.lr, optim.gamma, optim.schedule) == (row.lr, row.gamma, "steps")
    assert (optim.momentum, optim.nesterov) == (0.9, False)
    for task in (1, 2, 10):
        _, milestones, decay = row.first if task == 1 else row.later
        at = optim.at(task)
        assert at.milestones == milestones
        assert at.weight_decay == pytest.approx(decay / (task if row.by_task else 1), rel=1e-12)
    assert config.memory.mirror == row.mirror
    options = config.method.options
    assert {name: options[name] for name in row.options} == row.options
    assert {name: options[name] for name in row.asked} == row.asked


def test_bic_on_imagenet_ends_at_a_tenth_of_its_decay() -> None:
    """1e-4 times ten groups at the first task, 1e-4 at the tenth."""
    optim = resolved("bic", "imagenet", "paper").optim
    assert [optim.at(task).weight_decay for task in (1, 2, 10)] == pytest.approx([1e-3, 5e-4, 1e-4])


@pytest.mark.parametrize("recipe", list(RECIPES))
@pytest.mark.parametrize("method", list(METHODS))
def test_head_and_classifier_are_the_methods_in_every_recipe(method: str, recipe: str) -> None:
    config = resolved(method, "cifar100", recipe)
    assert (config.net.head, config.net.final_relu, config.classifier) == NETS[method]
    assert config.memory.quota == (0 if method in ("finetune", "joint", "lwf") else 20)
    assert config.memory.policy == "per-class"
    assert config.net.arch == "resnet32"


def test_icarl_with_a_softmax_keeps_the_last_relu() -> None:
    assert resolved("icarl", "cifar100", "paper", loss="ce_kd").net.final_relu
    assert not resolved("icarl", "cifar100", "paper", loss="bce").net.final_relu


@pytest.mark.parametrize("recipe", ["fast", "demo"])
@pytest.mark.parametrize("method", list(METHODS))
def test_short_recipes_keep_their_length_and_schedule(method: str, recipe: str) -> None:
    config, base = resolved(method, "cifar100", recipe), RECIPES[recipe]
    train, optim = base["train"], base["optim"]
    later = 1 if method == "ilio" else train["epochs"]
    assert config.train == TrainConfig(**{**train, "epochs": later})
    assert config.optim.schedule == optim["schedule"] == "onecycle"
    assert config.optim.nesterov
    assert config.optim.at(1).milestones == config.optim.at(2).milestones == ()
    if method in ("lwf", "icarl"):  # their loss is divided by 100, so they need a larger rate
        assert 5 <= config.optim.lr / optim["lr"] <= 50
    else:
        assert (config.optim.lr, config.optim.weight_decay) == (optim["lr"], optim["weight_decay"])
    paper = resolved(method, "cifar100", "paper").method.options
    assert config.method.options == paper | SHORTER.get((method, recipe), {})


def test_values_that_a_user_sets_win() -> None:
    asked = {
        "data": {"name": "cifar100"},
        "recipe": "paper",
        "method": {"name": "icarl", "width": 50},
        "memory": {"mirror": False},
        "optim": {"lr": 0.7, "milestones": [3]},
        "train": {"epochs": 5},
        "classifier": "fc",
        "net": {"final_relu": True},
    }
    config = resolve(asked)
    assert (config.method.options["width"], config.memory.mirror) == (50, False)
    assert (config.optim.lr, config.optim.milestones, config.optim.weight_decay) == (0.7, (3,), 2e-5)
    assert (config.train.epochs, config.train.first_epochs) == (5, 70)
    assert (config.classifier, config.net.final_relu) == ("fc", True)


def test_values_that_a_user_sets_hold_for_task_1_too() -> None:
    """Each key that was set replaces the method's own value for task 1."""
    tree = {"data": {"name": "cifar100"}, "recipe": "paper", "method": {"name": "icarl", "loss": "ce_kd"}}
    usual = resolve(tree).optim.at(1)
    assert (usual.milestones, usual.weight_decay) == ((60, 120, 170), 5e-4)
    steps = resolve({**tree, "optim": {"milestones": [3]}}).optim
    assert (steps.at(1).milestones, steps.at(1).weight_decay) == ((3,), 5e-4)
    decay = resolve({**tree, "optim": {"weight_decay": 0.0}}).optim
    assert (decay.at(1).milestones, decay.at(1).weight_decay, decay.at(2).weight_decay) == ((60, 120, 170), 0, 0)
    both = resolve({**tree, "optim": {"weight_decay": 0.1, "first_weight_decay": 0.2}}).optim
    assert (both.at(1).weight_decay, both.at(2).weight_decay) == (0.2, 0.1)


def test_the_optimiser_of_a_task() -> None:
    optim = OptimConfig(lr=0.1, weight_decay=6e-4, milestones=(3, 6), first_milestones=(9,), first_weight_decay=2e-4)
    assert (optim.at(1).milestones, optim.at(1).weight_decay) == ((9,), 2e-4)
    assert (optim.at(2).milestones, optim.at(2).weight_decay) == ((3, 6), 6e-4)
    divided = optim.model_copy(update={"decay_by_task": True})
    assert [divided.at(task).weight_decay for task in (1, 2, 3)] == pytest.approx([2e-4, 3e-4, 2e-4])
    assert OptimConfig(lr=0.1, first_milestones=()).at(1).milestones == ()
    assert OptimConfig(lr=0.1, weight_decay=1e-4, first_weight_decay=0.0).at(1).weight_decay == 0
    for task in (1, 3):
        assert divided.at(task).at(2) == divided.at(task)  # no value depends on the task any more
    plain = OptimConfig(lr=0.3, weight_decay=1e-4, milestones=(5,))
    assert plain.at(1) == plain.at(7) == plain


PHOTOS, SMALL = Inputs.images(224, "resized_crop"), Inputs.images(32)


def constants(config: LearnerConfig) -> Tree:
    """The values of a learner's config."""
    tree = config.tree()
    return {key: value for key, value in tree.items() if key not in ("labels", "data", "stream")}


@pytest.mark.parametrize("recipe", list(RECIPES))
@pytest.mark.parametrize("method", list(METHODS))
def test_own_photos_get_the_constants_for_photos(method: str, recipe: str) -> None:
    """From a folder in 224 pixels, or as arrays: those of ImageNet with as many classes. 32 pixels: those of CIFAR."""
    asked: Tree = {"recipe": recipe, "method": {"name": method}}
    stream = {"step": 10}
    photos = resolve({**asked, "data": {"name": "folder", "resize": 224}, "stream": stream})
    small = resolve({**asked, "data": {"name": "folder", "resize": 32}, "stream": stream})
    assert constants(photos) == constants(resolved(method, "imagenet100", recipe))
    assert constants(small) == constants(resolved(method, "cifar100", recipe))
    assert constants(resolve_learner(asked, PHOTOS)) == constants(photos)
    assert constants(resolve_learner(asked, SMALL)) == constants(small)
    assert (photos.net.arch, small.net.arch) == ("resnet18", "resnet32")


def test_the_number_of_classes_matters_and_not_the_name() -> None:
    for method in ("icarl", "lwf"):
        asked: Tree = {"method": {"name": method}}
        for classes, width in ((None, 100), (30, 100), (250, 250)):
            config = resolve_learner(asked, SMALL, classes)
            assert config.method.options["width"] == width
        data = {"name": "folder", "classes": 250}
        assert resolve({**asked, "data": data, "stream": {"step": 10}}).method.options["width"] == 250


@pytest.mark.parametrize("method", list(METHODS))
def test_defaults_see_properties_only(method: str) -> None:
    """The same properties give the same constants."""
    one = METHODS[method].defaults(Conditions("paper", 224, photos=True, classes=100))
    assert one == METHODS[method].defaults(Conditions("paper", 160, photos=True, classes=100))


def test_methods_name_no_data_set() -> None:
    names = {*LOADERS} - {"vectors"}
    for file in sorted((Path(whorl.__file__).parent / "methods").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        quoted = {name for name in names if f'"{name}"' in text or f"'{name}'" in text}
        assert not quoted, file.name


@pytest.mark.parametrize("method", list(METHODS))
def test_vectors_get_the_identity_and_a_method_that_suits_them(method: str) -> None:
    config = resolve_learner({"method": {"name": method}}, Inputs.vectors(64))
    assert config.net.arch == "identity"
    same = resolve({"method": {"name": method}, "data": {"name": "vectors"}, "stream": {"step": 5}})
    assert constants(same) == constants(config)
    if method == "wa":  # clipping needs features that are not negative, which the identity does not promise
        assert (config.method.options["clip"], config.net.final_relu) == (False, False)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"data": {"name": "folder"}}, r"state the number of classes per task with `stream.step=N`; folder has no"),
        ({"data": {"name": "cifar101"}}, "unknown data set 'cifar101'; did you mean 'cifar100'"),
        ({"recipe": "slow"}, "unknown recipe 'slow'"),
        ({"method": {"name": "our"}}, "unknown method 'our'; did you mean 'ours'"),
        ({"method": {"name": "wa", "gamma": 1}}, "unknown config key 'method.gamma'"),
        ({"optim": 0.1}, "optim is a section of the config; set one of its keys, for instance optim.name or"),
        ({"optim": {"name": "adam"}}, "unknown optim.name value 'adam'; did you mean 'adamw'"),
    ],
)
def test_mistakes_are_one_line(asked: Tree, line: str) -> None:
    with pytest.raises(WhorlError, match=line) as caught:
        resolve(asked)
    assert "\n" not in str(caught.value)


def test_the_optimiser_counts_only_where_it_is_not_sgd() -> None:
    """Runs from before the choice existed keep their names."""
    usual = resolve({"data": {"name": "digits"}})
    named = resolve({"data": {"name": "digits"}, "optim": {"name": "sgd"}})
    other = resolve({"data": {"name": "digits"}, "optim": {"name": "adamw"}})
    assert usual.optim.name == "sgd"
    tree = usual.tree()
    for key in ("sizes", "rotations", "contrast"):
        del tree["train"][key]
    for key in ("networks", "arch", "transform", "whiten", "refine", "trust"):
        del tree["pseudo"][key]
    del tree["labeler"], tree["optim"]["name"], tree["net"]["tune"], tree["net"]["fingerprint"]
    assert usual.hash == digest(tree)
    assert usual.hash == named.hash != other.hash
