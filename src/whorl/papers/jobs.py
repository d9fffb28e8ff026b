"""From what a paper shows to jobs of a grid: recipe, budget, seeds and images come in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whorl.config import Config, DataConfig, Tree
from whorl.data.source import Dataset
from whorl.data.stream import split_sizes
from whorl.errors import WhorlError
from whorl.experiment import workload
from whorl.papers import Paper
from whorl.papers.cells import config_of
from whorl.papers.choose import Need
from whorl.runs.grid import Job

Images = Callable[[DataConfig], tuple[DataConfig, Dataset]]
"""Loads the images that a config asks for, or raises."""


@dataclass(frozen=True)
class Prepared:
    """The jobs that can be run, and why others cannot."""

    jobs: tuple[Job, ...]
    sizes: dict[str, int]
    """Side of the images, by data set."""
    parts: tuple[tuple[str, int, int], ...] = ()
    """Each table and figure: how many cells it has here, and how many runs fill them."""
    left_out: dict[str, list[Need]] = field(default_factory=dict)
    """Reason → what it keeps from being run."""

    @property
    def cells(self) -> int:
        """How many cells the jobs fill."""
        return sum(cells for _, cells, _ in self.parts)


def prepare(
    paper: Paper, needs: Sequence[Need], recipe: str, budget: Tree, seeds: Sequence[int], images: Images
) -> Prepared:
    """A job for each need and seed; the first seed of everything comes first."""
    found: dict[str, tuple[Need, Config, tuple[int, ...], DataConfig]] = {}
    sizes, left_out = dict[str, int](), dict[str, list[Need]]()
    fills: dict[str, dict[tuple[str, str], set[str]]] = {}
    loaded = _Once(images)
    for need in needs:
        try:
            config = config_of(paper, need.asked, recipe, budget)
            wanted, (identified, data) = config.data, loaded(config.data)
            _require_classes(paper, need, wanted, len(data.class_names))
            config = _shortened(config.model_copy(update={"data": identified}), len(data.class_names))
            if config.title not in found:
                found[config.title] = need, config, workload(config, data), wanted
            sizes[config.data.name] = data.input_size
            cell = need.cell
            fills.setdefault(cell.part, {}).setdefault((cell.name, cell.column), set()).add(config.title)
        except WhorlError as error:
            left_out.setdefault(str(error), []).append(need)
    # Data set by data set, so that a worker seldom has to load another one.
    by_data = sorted(found.values(), key=lambda one: list(sizes).index(one[1].data.name))
    jobs = [
        Job(f"{need.name}, seed {seed}", config.model_copy(update={"seed": seed}), passes, wanted)
        for seed in seeds
        for need, config, passes, wanted in by_data
    ]
    parts = [(part, len(cells), len(seeds) * len(set().union(*cells.values()))) for part, cells in fills.items()]
    return Prepared(tuple(jobs), sizes, tuple(parts), left_out)


def _require_classes(paper: Paper, need: Need, wanted: DataConfig, there: int) -> None:
    """Another data set under the paper's name must not fill its cells."""
    column = paper.columns[need.cell.column]
    if wanted.name == column.data and wanted.classes is None and there != column.classes:
        raise WhorlError(
            f"{wanted.name} has {column.classes} classes in {paper.name}, and {there} were found; say where it lies "
            f"with --data-dir {wanted.name}=DIR, or that fewer classes are meant with --set data.classes={there}"
        )


def _shortened(config: Config, classes: int) -> Config:
    """A limit on the number of tasks says nothing where there are no more than that."""
    stream = config.stream
    if stream.tasks is None or stream.tasks < len(split_sizes(classes, stream.step, stream.first)):
        return config
    return config.model_copy(update={"stream": stream.model_copy(update={"tasks": None})})


class _Once:
    """Loads each data set once, and remembers a failure as well."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._known: dict[DataConfig, tuple[DataConfig, Dataset] | WhorlError] = {}

    def __call__(self, wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        if wanted not in self._known:
            try:
                self._known[wanted] = self._images(wanted)
            except WhorlError as error:
                self._known[wanted] = error
        answer = self._known[wanted]
        if isinstance(answer, WhorlError):
            raise answer
        return answer
