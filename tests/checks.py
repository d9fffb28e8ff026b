"""The conformance battery: what every method, clusterer and reading of Algorithm 2 must keep to.

Each check takes a config and its data and raises where the promise is broken. ``test_conformance.py`` runs them over
all there is; a third party can run them over a method of its own in the same way.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whorl.config import Config, Tree, merge
from whorl.data.augment import Augment
from whorl.data.source import Dataset
from whorl.data.stream import Stream, class_incremental, split_sizes
from whorl.engine import Learner
from whorl.errors import HiddenLabelError
from whorl.experiment import run
from whorl.methods import method_class
from whorl.nets.extract import extract
from whorl.nets.heads import CorrectedHead
from whorl.recipes import resolve
from whorl.reporter import Silent
from whorl.runs.files import read_tensors
from whorl.runs.store import Run
from whorl.runtime import Runtime
from whorl.scores import Summary, TaskScores, plain
from whorl.types import granted

OWN: dict[str, Tree] = {
    "bic": {"method": {"every": 2, "correction_epochs": 2}},
    "eeil": {"method": {"balanced_epochs": 2}},
    "ilio": {"train": {"epochs": 1}},
}
"""What fits a method to so little data."""


def small_config(**changes: Any) -> Config:
    """Three tasks of two classes in two epochs each, over the six small synthetic classes; dots are ``__``."""
    base: Tree = {
        "data": {"name": "synthetic", "classes": 6, "per_class": 20, "resize": 8},
        "stream": {"step": 2},
        "train": {"first_epochs": 2, "epochs": 2, "batch": 16},
        "cluster": {"restarts": 2},
    }
    name = changes.get("method__name", "ours")
    if method_class(name).needs_memory:
        base["memory"] = {"quota": 4}
    base = merge(base, OWN.get(name, {}))
    for dotted, value in changes.items():
        tree: Any = value
        for part in reversed(dotted.split("__")):
            tree = {part: tree}
        base = merge(base, tree)
    return resolve(base)


def streams(config: Config, data: Dataset) -> Stream:
    sizes = split_sizes(len(data.class_names), config.stream.step, config.stream.first, config.stream.tasks)
    return class_incremental(data, sizes, config.stream.order, config.labels == "given")[0]


def make_learner(config: Config, data: Dataset) -> Learner:
    return Learner(config, Augment.of(data, config.train.augment), Runtime())


def learn(learner: Learner, stream: Stream) -> None:
    for task in stream:
        for _ in learner.learn(task, Silent()):
            pass


def stored(path: Path) -> dict[str, Tensor]:
    """Every tensor a run left behind."""
    files = sorted(path.glob("*.safetensors"))
    return {f"{file.name}:{name}": tensor for file in files for name, tensor in read_tensors(file)[0].items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(steps: tuple[TaskScores, ...]) -> list[dict[str, Any]]:
    """The scores without the times."""
    return [{k: v for k, v in plain(step).items() if k not in ("seconds", "images_per_second")} for step in steps]


class Killed(Exception):
    """Stands for a kill."""


class KillAfter(Silent):
    """Ends the run right after the given epoch was saved, counted over the whole run."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def epoch(self, record: dict[str, Any]) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def check_head_grows(config: Config, data: Dataset) -> None:
    """1. The head grows by exactly n; old logits are unchanged before training."""
    learner, stream = make_learner(config, data), streams(config, data)
    learn(learner, stream[:1])
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    learner.model.eval()
    if isinstance(learner.model.head, CorrectedHead):
        learner.model.head.newest.fill_(False)  # the correction is for looking; training goes on without
    with torch.no_grad():
        before = learner.model(images).logits
        learner.model.grow(3)
        after = learner.model(images).logits
    assert after.shape[1] == before.shape[1] + 3
    torch.testing.assert_close(after[:, : before.shape[1]], before, rtol=1e-6, atol=1e-6)


def check_seeds(config: Config, data: Dataset, tmp: Path) -> None:
    """2. Same seed, same bits; another seed, other bits."""
    one, two = run(config, data, tmp / "a"), run(config, data, tmp / "b")
    assert same(stored(one.path), stored(two.path))
    assert numbers(one.steps) == numbers(two.steps)
    other = run(config.model_copy(update={"seed": config.seed + 1}), data, tmp / "c")
    assert not same(stored(one.path), stored(other.path))


def check_resume(config: Config, data: Dataset, tmp: Path) -> None:
    """3. Killed after any epoch and resumed equals uninterrupted, bit for bit."""
    whole = run(config, data, tmp / "whole")
    epochs = len(Run.open(whole.path).log())
    spec = config.train
    assert epochs >= spec.first_epochs + (len(whole.steps) - 1) * spec.epochs
    for kill in range(1, epochs + 1):
        out = tmp / f"killed{kill}"
        try:
            run(config, data, out, reporter=KillAfter(kill))
        except Killed:
            pass
        else:
            raise AssertionError("the run was not killed")
        again = run(config, data, out)
        assert same(stored(whole.path), stored(again.path)), f"killed after epoch {kill}"
        assert numbers(whole.steps) == numbers(again.steps)
        assert [r["epoch"] for r in Run.open(again.path).log()] == [r["epoch"] for r in Run.open(whole.path).log()]


def reachable(*roots: object) -> Iterator[object]:
    """Everything that can be got at from these objects, but for modules, classes and functions' globals."""
    todo, seen = list(roots), set()
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (ModuleType, type)):
            continue
        seen.add(id(thing))
        yield thing
        inner = gc.get_referents(thing)
        todo += [x for x in inner if x is not thing.__globals__] if isinstance(thing, FunctionType) else inner


def check_hidden_labels(config: Config, data: Dataset, tmp: Path) -> None:
    """4. Hidden labels raise when touched, cannot be got at, and changing them changes nothing that is learned."""
    stream = streams(config, data)
    task = stream[1]
    if config.labels == "given":
        assert len(granted(task.labels)) == len(task.images)
        return
    for touch in (granted, list, len, np.asarray, lambda hidden: hidden[0], lambda hidden: hidden == 1):
        try:
            touch(task.labels)
        except HiddenLabelError:
            continue
        raise AssertionError("a hidden label was touched and nothing happened")
    learner = make_learner(config, data)
    learn(learner, stream)
    pools = [thing for thing in reachable(learner, stream) if isinstance(thing, np.ndarray) and thing.dtype == np.int64]
    assert pools
    assert not any(np.shares_memory(pool, data.train_labels) for pool in pools)
    # The same images must arrive in each task, so labels are exchanged within the tasks that hide them.
    rolled, first = data.train_labels.copy(), stream.sizes[0]
    for low in range(first, len(data.class_names), config.stream.step):
        mine = np.flatnonzero((rolled >= low) & (rolled < low + config.stream.step))
        rolled[mine] = np.roll(rolled[mine], 7)
    assert not np.array_equal(rolled, data.train_labels)
    honest, lying = run(config, data, tmp / "a"), run(config, replace(data, train_labels=rolled), tmp / "b")
    assert same(stored(honest.path), stored(lying.path))
    assert [s["acc"] for s in honest.steps] == [s["acc"] for s in lying.steps]
    assert [s["label_acc"] for s in honest.steps] != [s["label_acc"] for s in lying.steps]


def check_memory(config: Config, data: Dataset) -> None:
    """5. The memory keeps to its quota, exemplars belong to their cluster, none is stored twice."""
    learner, stream = make_learner(config, data), streams(config, data)
    for task in stream:
        learn(learner, Stream([task]))
        memory, quota = learner.memory, learner.memory.per_class(learner.known)
        if quota == 0:
            assert len(memory) == 0
            continue
        assert all(0 < len(where) <= quota for _, where in memory.by_class())
        assert len(np.unique(memory.labels)) == learner.known
    if config.memory.quota == 0 or config.memory.reading == "recluster":
        return
    for task, samples in zip(stream, learner.learned, strict=True):
        pixels = task.images.read(np.arange(len(task.images))).flatten(1)
        for image, label in zip(learner.memory.images, learner.memory.labels, strict=True):
            if learner.memory.tasks[learner.memory.labels == label][0] != task.index:
                continue
            found = np.flatnonzero((pixels == image.flatten()).all(1).numpy())
            assert len(found) >= 1
            assert label in samples.labels[found]
    assert len(torch.unique(learner.memory.images.flatten(1), dim=0)) == len(learner.memory)


def check_no_empty_class(config: Config, data: Dataset) -> None:
    """6. No pseudo class is empty."""
    learner, stream = make_learner(config, data), streams(config, data)
    learn(learner, stream)
    known = 0
    for task, samples in zip(stream, learner.learned, strict=True):
        assert np.array_equal(np.unique(samples.labels), np.arange(known, known + task.classes))
        known += task.classes


def check_save_and_go_on(config: Config, data: Dataset, tmp: Path) -> None:
    """7. learn(A), save, load, learn(B) equals learn over [A, B]. 10. save → load → predict is equal."""
    stream = streams(config, data)
    whole = make_learner(config, data)
    learn(whole, stream)
    first, second = make_learner(config, data), make_learner(config, data)
    store = Run(tmp, config)
    for done in (1, 2):
        learn(first, stream[done - 1 : done])
        store.save_task(first.state(), {"finished": False, "steps": [{}] * done})
    second.restore(store.load_task(2), stream[:2])
    for rule, scores in first.scores(data.test).items():
        again = second.scores(data.test)[rule]
        assert (scores is None and again is None) or np.array_equal(scores, again)  # type: ignore[arg-type]
    learn(second, stream[2:])
    assert same(whole.state().model, second.state().model)
    assert same(whole.state().memory, second.state().memory)


def check_teacher_is_untouched(config: Config, data: Dataset) -> None:
    """8. The teacher is bit-identical before and after a step, buffers included, and sees with folded norms alike."""
    learner, stream = make_learner(config, data), streams(config, data)
    learn(learner, stream[:1])
    teacher, model = learner.frozen, copy.deepcopy(learner.model)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    learn(learner, stream[1:2])
    assert not teacher.training
    assert same(before, teacher.state_dict())
    images = data.test.read(np.arange(8))
    with torch.no_grad():
        unfolded = model.eval()(learner.augment.look(images)).features
    folded = extract(teacher, data.test, learner.augment, learner.runtime)[:8]
    torch.testing.assert_close(torch.from_numpy(folded), unfolded, rtol=1e-4, atol=1e-4)


def check_averages(config: Config, data: Dataset, tmp: Path) -> None:
    """9. Avg leaves out task 1 and equals Last for two tasks."""
    spec = config.stream.model_copy(update={"tasks": 2})
    result = run(config.model_copy(update={"stream": spec}), data, tmp)
    accs = [step["acc"] for step in result.steps]
    assert result.summary.avg == result.summary.last == accs[1]
    assert result.summary.avg_with_first == sum(accs) / 2
    assert Summary.of(result.steps[:1]).avg is None
