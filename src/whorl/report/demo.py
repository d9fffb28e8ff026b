"""The page of ``whorl demo``: one data set learned twice, with the labels and without."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version

from markupsafe import Markup

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.data.stream import class_incremental, split_sizes
from whorl.metrics import curves
from whorl.report import plots
from whorl.report.page import PAGES
from whorl.report.sheet import Cluster, clusters, compose, png, resized
from whorl.report.text import listed, number
from whorl.runs.run import Run
from whorl.scores import RunScores, TaskScores

SAMPLE, COLUMNS = 20, 10
"""Images shown per cluster, and per strip."""
PACKAGES = "torch", "numpy", "scikit-learn", "matplotlib"


@dataclass(frozen=True)
class Demo:
    """Two finished runs that differ only in the labels, and the clusters that the second one found."""

    config: ExperimentConfig
    """The config of the run without labels."""
    given: RunScores
    pseudo: RunScores
    names: tuple[str, ...]
    """Class names in the order of arrival."""
    found: dict[int, list[Cluster]]
    """The clusters of each task without labels."""

    @property
    def steps(self) -> list[tuple[TaskScores, TaskScores]]:
        """The scores after each task: with labels, without."""
        return list(zip(self.given.steps, self.pseudo.steps, strict=True))

    @property
    def taught(self) -> str:
        """The classes of task 1 in words."""
        names = self.names[: self.given.steps[0].classes]
        return f"the classes {listed(names)}" if 1 < len(names) <= 10 else f"{len(names)} classes"


def gather(given: Run, pseudo: Run, data: Dataset) -> Demo:
    """Read the two runs and compare the clusters with the true labels, which the learner never saw."""
    spec = pseudo.config.stream
    sizes = split_sizes(len(data.class_names), spec.step, spec.first, spec.tasks)
    stream, truth = class_incremental(data, sizes, spec.order, labels_given=False)
    found = {
        task: clusters(delivery.images, labels, true, truth.names, SAMPLE)
        for task, (delivery, labels, true) in enumerate(
            zip(stream, pseudo.labels(len(stream)), truth.train, strict=True), 1
        )
        if task > 1
    }
    return Demo(pseudo.config, given.scores(), pseudo.scores(), truth.names, found)


def render(demo: Demo, repeat: Sequence[str]) -> str:
    """The page; ``repeat`` are the commands that make both runs again."""
    page = PAGES.get_template("demo.html")
    return page.render(
        demo=demo, repeat=repeat, rows=_rows(demo), summary=_summary(demo), svg=_figure(demo), strips=_strips,
        versions=[f"whorl {version('whorl')}", f"Python {python_version()}", *(f"{p} {version(p)}" for p in PACKAGES)],
        sample=SAMPLE,
    )  # fmt: skip


def _rows(demo: Demo) -> list[list[str]]:
    return [
        [str(given.task), str(given.classes), *map(number, (given.acc, given.acc_nme)),
         *map(number, (pseudo.acc, pseudo.acc_nme, pseudo.label_acc))]
        for given, pseudo in demo.steps
    ]  # fmt: skip


def _figure(demo: Demo) -> Markup:
    lines = [
        plots.Line(name, [step.task for step in run.steps], [step.acc or 0.0 for step in run.steps])
        for name, run in (("with labels", demo.given), ("without labels", demo.pseudo))
    ]
    figure = plots.panels([plots.Panel("", lines)], "Step", "ACC over all classes so far", size=(5.2, 3.1))
    return Markup(plots.inline(plots.svg(figure), "accuracy"))


def _summary(demo: Demo) -> list[list[str]]:
    both = demo.given, demo.pseudo
    nme = [curves.avg([step.acc_nme or 0.0 for step in run.steps]) for run in both]
    rows = {
        f"Avg (steps 2 to {len(demo.steps)})": [run.summary.avg for run in both],
        "Avg, nearest mean": nme,
        "Last": [run.summary.last for run in both],
        "Forgetting": [run.summary.forgetting for run in both],
    }
    return [[name, *map(number, values)] for name, values in rows.items()]


def _strips(found: Cluster) -> list[tuple[str, int, int, str]]:
    """The images of a cluster in rows: data URI, width and height on the page, and alternative text."""
    strips = []
    for start in range(0, len(found.images), COLUMNS):
        images, framed = found.images[start : start + COLUMNS], found.strangers[start : start + COLUMNS]
        # Two image pixels for one on the page, so that it is sharp on fine screens too.
        pixels = compose(resized(images, 64), framed, len(images), gap=4)
        odd = f", {framed.sum()} of them framed as another class" if framed.any() else ""
        alt = f"{len(images)} of the {found.size} images of cluster {found.label}{odd}"
        uri = "data:image/png;base64," + b64encode(png(pixels)).decode()
        strips.append((uri, pixels.shape[1] // 2, pixels.shape[0] // 2, alt))
    return strips
