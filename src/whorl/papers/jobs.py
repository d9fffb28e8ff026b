"""From the cells of a paper to the jobs of a grid: applies recipe, budget and seeds, and loads the images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whorl.config import ExperimentConfig
from whorl.data.source import Dataset
from whorl.data.stream import split_sizes
from whorl.errors import WhorlError
from whorl.experiment import workload
from whorl.grid.queue import Job
from whorl.papers import Paper
from whorl.papers.cells import config_of
from whorl.papers.choose import Need
from whorl.runs.changed import all_stored_as
from whorl.sections import DataConfig
from whorl.tree import Tree

Images = Callable[[DataConfig], tuple[DataConfig, Dataset]]
"""Loads the images that a config names, or raises WhorlError."""


@dataclass(frozen=True)
class Prepared:
    """The jobs that can be run, and why others cannot."""

    jobs: tuple[Job, ...]
    sizes: dict[str, int]
    """Side of the images, by data set."""
    seeds: tuple[int, ...]
    fills: tuple[tuple[Need, ExperimentConfig], ...]
    """Every need that can be run, with its config for seed 0."""
    left_out: dict[str, list[Need]] = field(default_factory=dict)
    """The needs that cannot be run, by reason."""

    @property
    def parts(self) -> list[tuple[str, int, int]]:
        """Each table and figure, with the number of its cells and of the runs that fill them."""
        found: dict[str, tuple[set[tuple[str, str]], set[str]]] = {}
        for need, config in self.fills:
            cells, runs = found.setdefault(need.cell.part, (set(), set()))
            cells.add((need.cell.name, need.cell.column))
            runs.add(config.title)
        return [(part, len(cells), len(self.seeds) * len(runs)) for part, (cells, runs) in found.items()]

    @property
    def cells(self) -> int:
        """The number of cells that the jobs fill."""
        return sum(cells for _, cells, _ in self.parts)


def prepare(
    paper: Paper,
    needs: Sequence[Need],
    recipe: str,
    budget: Tree,
    seeds: Sequence[int],
    images: Images,
    out: Path,
    settle: Callable[[ExperimentConfig, Dataset], ExperimentConfig] = lambda config, _: config,
) -> Prepared:
    """A job for each need and seed; all jobs of the lowest seed come before those of the next.

    ``settle`` replaces what a config leaves open until the data are known, such as ``precision=auto``. Runs that an
    earlier version stored below ``out`` keep their configs.
    """
    passes = dict[str, tuple[int, ...]]()
    sizes, left_out = dict[str, int](), dict[str, list[Need]]()
    fills: list[tuple[Need, ExperimentConfig]] = []
    unique: dict[str, tuple[Need, ExperimentConfig, DataConfig]] = {}
    loaded = _Once(images)
    for need in needs:
        try:
            config = config_of(paper, need.asked, recipe, budget)
            wanted, (identified, data) = config.data, loaded(config.data)
            _require_classes(paper, need, wanted, len(data.class_names))
            config = _without_idle_limit(config.model_copy(update={"data": identified}), len(data.class_names))
            config = all_stored_as(out, settle(config, data), data, seeds)
            title = config.title
            if title not in unique:
                passes[title] = workload(config, data)
                unique[title] = need, config, wanted
            sizes[config.data.name] = data.inputs.size
            fills.append((need, config))
        except WhorlError as error:
            left_out.setdefault(str(error), []).append(need)
    # One data set after the other, so that a worker seldom has to load another one.
    by_data = sorted(unique.items(), key=lambda item: list(sizes).index(item[1][1].data.name))
    jobs = [
        Job(f"{need.name}, seed {seed}", config.model_copy(update={"seed": seed}), passes[title], wanted)
        for seed in seeds
        for title, (need, config, wanted) in by_data
    ]
    return Prepared(tuple(jobs), sizes, tuple(seeds), tuple(fills), left_out)


def _require_classes(paper: Paper, need: Need, wanted: DataConfig, found: int) -> None:
    """A different data set under the paper's name must not fill its cells."""
    column = paper.columns[need.cell.column]
    if wanted.name == column.data and wanted.classes is None and found != column.classes:
        raise WhorlError(
            f"{wanted.name} has {column.classes} classes in {paper.name}, and {found} were found; set `data_dir` to "
            f"the folder of {wanted.name}, or set `data.classes={found}` to use fewer classes"
        )


def _without_idle_limit(config: ExperimentConfig, classes: int) -> ExperimentConfig:
    """Drop a limit on the number of tasks that the stream does not reach, so that the same run has one config."""
    stream = config.stream
    if stream.tasks is None or stream.tasks < len(split_sizes(classes, stream.step, stream.first)):
        return config
    return config.model_copy(update={"stream": stream.model_copy(update={"tasks": None})})


class _Once:
    """Loads each data set once, and remembers failures as well."""

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
