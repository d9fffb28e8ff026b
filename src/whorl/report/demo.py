"""The report of ``whorl demo``: one data set learned twice, with the labels and without."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from whorl.config import Config
from whorl.data.source import Dataset
from whorl.data.stream import class_incremental, split_sizes
from whorl.evaluate import summary
from whorl.metrics import curves
from whorl.report import page, plots
from whorl.report.sheet import Cluster, clusters, compose, png, resized
from whorl.report.text import number
from whorl.reporter import Record
from whorl.runs.store import Run

SAMPLE, COLUMNS = 20, 10
"""Images shown of a cluster, and in one strip."""
PACKAGES = "torch", "numpy", "scikit-learn", "matplotlib"


@dataclass(frozen=True)
class Demo:
    """Two finished runs that differ in the labels only, and what the second one found."""

    given: Run
    pseudo: Run
    names: tuple[str, ...]
    """Class names by arrival."""
    found: dict[int, list[Cluster]]
    """The clusters of each task that came without labels."""

    @property
    def config(self) -> Config:
        """The config of the run without labels."""
        return self.pseudo.config

    @property
    def steps(self) -> list[tuple[Record, Record]]:
        """The scores after each task: with labels, without."""
        return list(zip(self.given.scores()["steps"], self.pseudo.scores()["steps"], strict=True))


def gather(given: Run, pseudo: Run, data: Dataset) -> Demo:
    """Read the two runs and look at the clusters beside the truth, which the learner never saw."""
    spec = pseudo.config.stream
    sizes = split_sizes(len(data.class_names), spec.step, spec.first, spec.tasks)
    stream, truth = class_incremental(data, sizes, spec.order, labels_given=False)
    learned = pseudo.load_task(len(stream)).labels
    found = {
        task.index: clusters(task.images, labels.numpy(), true, truth.names, SAMPLE)
        for task, labels, true in zip(stream, learned, truth.train, strict=True)
        if task.index > 1
    }
    return Demo(given, pseudo, truth.names, found)


def render(demo: Demo, repeat: Sequence[str]) -> str:
    """The page; ``repeat`` are the commands that make both runs again."""
    return page.page("whorl demo: new classes without labels", _body(demo, repeat))


def _body(demo: Demo, repeat: Sequence[str]) -> Iterator[str]:
    yield page.heading(1, "Learning new classes without labels")
    yield page.paragraph(_words(demo))
    yield page.heading(2, "Accuracy after each step")
    yield _steps(demo)
    yield page.paragraph(
        "ACC is the share of test images of all classes so far that are recognised, after each id has been matched to "
        "one class, one to one, so that as many as possible agree. Nearest mean is the same, but an image gets the "
        "class whose stored images are nearest on average, instead of the network's own answer. Pseudo labels is how "
        "many of the step's new training images got the right group; guessing would give about "
        f"{1 / demo.config.stream.step:.2f}.",
        soft=True,
    )
    yield _figure(demo)
    yield _summary(demo)
    yield page.heading(2, "What the clusters look like")
    yield page.paragraph(
        f"Up to {SAMPLE} images of each cluster, spread evenly over its members and not chosen by hand. The number of "
        "a pseudo label is only a name. Which true class most members have is shown to judge the cluster; the learner "
        "never saw it. Framed images have another class than most."
    )
    for task, found in demo.found.items():
        yield page.heading(3, f"Step {task}")
        yield page.strips(("Cluster", "Images"), map(_row, found))
    yield page.heading(2, "Repeat it")
    yield page.commands(repeat)
    yield page.facts(_facts(demo))


def _words(demo: Demo) -> str:
    """What was done, in three sentences."""
    config, step = demo.config, demo.config.stream.step
    first = demo.names[: demo.steps[0][0]["classes"]]
    classes = (
        f"the classes {', '.join(first[:-1])} and {first[-1]}" if 1 < len(first) <= 10 else f"{len(first)} classes"
    )
    return (
        f"A small network was taught {classes} of the data set {config.data.name} with labels. After that, images of "
        f"{step} new {'class' if step == 1 else 'classes'} at a time arrived without labels: the network grouped them "
        "by what it saw in them, took the groups as labels, and learned those, while "
        f"{config.memory.quota} stored images a class and its own earlier answers kept the old classes in mind. A "
        "second run was given the true labels in every step, which shows what is lost without them."
    )


def _steps(demo: Demo) -> str:
    rows = [
        (
            str(given["task"]),
            [
                str(given["classes"]),
                *(number(given[key]) for key in ("acc", "acc_nme")),
                *(number(pseudo[key]) for key in ("acc", "acc_nme", "label_acc")),
            ],
        )
        for given, pseudo in demo.steps
    ]
    groups = [
        ("", ["Classes so far"]),
        ("With labels", ["ACC", "Nearest mean"]),
        ("Without labels", ["ACC", "Nearest mean", "Pseudo labels"]),
    ]
    return page.numbers(
        "Test accuracy after each step, for both runs. Step 1 has labels in both.", "Step", groups, rows
    )


def _figure(demo: Demo) -> str:
    tasks = [given["task"] for given, _ in demo.steps]
    accs = [[run["acc"] for run in pair] for pair in zip(*demo.steps, strict=True)]
    lines = [plots.Line(name, tasks, acc) for name, acc in zip(("with labels", "without labels"), accs, strict=True)]
    drawn = plots.inline(plots.svg(plots.curves(lines, "Step", "ACC over all classes so far")), "accuracy")
    said = "; ".join(f"{line.label} {', '.join(map(number, line.y))}" for line in lines)
    return page.figure(drawn, f"ACC after steps 1 to {len(tasks)}: {said}.", "ACC after each step. The scale is cut.")


def _summary(demo: Demo) -> str:
    rows = []
    for name, key in ((f"Avg (steps 2 to {len(demo.steps)})", "avg"), ("Last", "last"), ("Forgetting", "forgetting")):
        rows.append((name, [number(summary(list(steps))[key]) for steps in zip(*demo.steps, strict=True)]))
    pseudo = curves.avg([step["acc_nme"] for _, step in demo.steps])
    given = curves.avg([step["acc_nme"] for step, _ in demo.steps])
    rows.insert(1, ("Avg, nearest mean", [number(given), number(pseudo)]))
    caption = (
        "In one number. Avg leaves out step 1, as the paper does. Forgetting is how far the classes of earlier steps "
        "fell from their best accuracy."
    )
    return page.numbers(caption, "", [("", ["With labels", "Without labels"])], rows)


def _row(found: Cluster) -> tuple[str, str, list[str]]:
    about = f"{found.size} images, {found.share:.1%} of them of class {found.majority}"
    strips = []
    for start in range(0, len(found.images), COLUMNS):
        images, framed = found.images[start : start + COLUMNS], found.strangers[start : start + COLUMNS]
        # Two image pixels for one on the page, so that it is sharp on fine screens too.
        pixels = compose(resized(images, 64), framed, len(images), gap=4)
        odd = f", {framed.sum()} of them framed as another class" if framed.any() else ""
        alt = f"{len(images)} of the {found.size} images of cluster {found.label}{odd}"
        strips.append(page.image(png(pixels), (pixels.shape[1] // 2, pixels.shape[0] // 2), alt))
    return f"Pseudo label {found.label}", about, strips


def _facts(demo: Demo) -> dict[str, str]:
    config, train = demo.config, demo.config.train
    seconds = [sum(step["seconds"] for step in steps) for steps in zip(*demo.steps, strict=True)]
    return {
        "Method": config.method.name,
        "Data": f"{config.data.name}, {len(demo.names)} classes, order {_order(config.stream.order)}",
        "Recipe": f"{config.recipe}: {train.first_epochs} epochs, then {train.epochs} a step, batches of {train.batch}",
        "Network": config.net.arch,
        "Clustering": config.cluster.name,
        "Seed": str(config.seed),
        "Time": f"{seconds[0]:.0f} s with labels, {seconds[1]:.0f} s without",
        "Versions": ", ".join(
            [
                f"whorl {version('whorl')}",
                f"Python {platform.python_version()}",
                *(f"{p} {version(p)}" for p in PACKAGES),
            ]
        ),
    }


def _order(order: str | tuple[int, ...]) -> str:
    return order if isinstance(order, str) else " ".join(map(str, order))
