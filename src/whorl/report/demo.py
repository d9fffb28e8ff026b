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
from whorl.report.sheet import Cluster, clusters, png, resized, strip
from whorl.report.text import listed
from whorl.runs.run import Run
from whorl.scores import RunScores, TaskScores

SAMPLE, COLUMNS = 20, 10
"""Images shown per cluster, and per strip."""
PACKAGES = "whorl", "torch", "numpy", "scikit-learn", "matplotlib"


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
    tasks = list(zip(stream, pseudo.labels(len(stream)), truth.train, strict=True))
    found = {
        task: clusters(delivery.images, labels, true, truth.names, SAMPLE)
        for task, (delivery, labels, true) in enumerate(tasks[1:], 2)
    }
    return Demo(pseudo.config, given.scores(), pseudo.scores(), truth.names, found)


def render(demo: Demo, repeat: Sequence[str]) -> str:
    """The page; ``repeat`` are the commands that make both runs again."""
    page = PAGES.get_template("demo.html")
    return page.render(
        demo=demo, repeat=repeat, svg=_figure(demo), strips=_strips, avg=curves.avg, sample=SAMPLE,
        versions=[f"Python {python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)],
    )  # fmt: skip


def _figure(demo: Demo) -> Markup:
    lines = [
        plots.Line(name, [step.task for step in run.steps], [step.acc or 0.0 for step in run.steps])
        for name, run in (("with labels", demo.given), ("without labels", demo.pseudo))
    ]
    figure = plots.panels([plots.Panel("", lines)], "Step", "ACC over all classes so far", size=(5.2, 3.1))
    return Markup(plots.inline(plots.svg(figure), "accuracy"))


def _strips(found: Cluster) -> list[tuple[str, int, int, str]]:
    """The images of a cluster in rows: data URI, width and height on the page, and alternative text."""
    strips = []
    for start in range(0, len(found.images), COLUMNS):
        images, framed = found.images[start : start + COLUMNS], found.strangers[start : start + COLUMNS]
        # Two image pixels for one on the page, so that it is sharp on fine screens too.
        pixels = strip(resized(images, 64), framed, gap=4)
        odd = f", {framed.sum()} of them framed as another class" if framed.any() else ""
        alt = f"{len(images)} of the {found.size} images of cluster {found.label}{odd}"
        uri = "data:image/png;base64," + b64encode(png(pixels)).decode()
        strips.append((uri, pixels.shape[1] // 2, pixels.shape[0] // 2, alt))
    return strips
