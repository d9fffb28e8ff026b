"""Which runs a choice of tables, data, methods, steps and labels comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from whorl import papers
from whorl.data import DataOptions, load
from whorl.data.source import Dataset
from whorl.errors import WhorlError
from whorl.papers.cells import check_budget
from whorl.papers.choose import Choice, Need, chosen, stand_in
from whorl.papers.jobs import Prepared, prepare
from whorl.sections import DataConfig
from whorl.tree import Tree

PAPER = papers.load("he2021")
NOWHERE = Path("no-runs-here")


def images(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
    if wanted.name == "imagenet":
        raise WhorlError("no ImageNet here")
    options = DataOptions(wanted.resize, wanted.per_class, 100 if wanted.name != "digits" else None)
    return wanted, load("digits" if wanted.name == "digits" else "synthetic", None, options)


def prepared(choice: Choice, budget: Tree, seeds: int = 1, recipe: str = "demo") -> Prepared:
    return prepare(PAPER, chosen(PAPER, choice), recipe, budget, range(seeds), images, NOWHERE)


def test_everything_is_every_cell_with_what_its_difference_needs() -> None:
    needs = chosen(PAPER, Choice())
    # Table 1: 72 cells, 36 of them differences that need a second run; Table 3: 36 such; then one run a cell.
    assert sum(need.cell.part == "table 1" for need in needs) == 72 + 36
    assert sum(need.cell.part == "table 2" for need in needs) == 7 * 6 - 1
    assert sum(need.cell.part == "table 3" for need in needs) == 36 + 36
    assert sum(need.cell.part == "figure 3" for need in needs) == 2 * 4 * 4


@pytest.mark.parametrize(
    ("choice", "count", "test"),
    [
        (Choice(tables=(2,), steps=(10,)), 14, lambda need: need.cell.column in ("cifar-10", "imagenet100-10")),
        (Choice(tables=(2,), steps=(10,), data=("cifar100",)), 7, lambda need: need.cell.column == "cifar-10"),
        (Choice(figures=(3, 6), steps=(50,)), 8 + 2, lambda need: need.cell.part in ("figure 3", "figure 6")),
        (Choice(tables=(1,), methods=("wa",), labels="given"), 12, lambda need: need.asked["labels"] == "given"),
        (Choice(tables=(3,), labels="pseudo"), 36, lambda need: need.asked["labels"] == "pseudo"),
        (Choice(tables=(2,), data=("digits",)), 41, lambda need: need.asked["data"]["name"] == "digits"),
    ],
)  # fmt: skip
def test_filters(choice: Choice, count: int, test: Callable[[Need], bool]) -> None:
    needs = chosen(PAPER, choice)
    assert len(needs) == count
    assert all(map(test, needs))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(tables=(9,)), r"no table 9 that can be run; it has 1, 2, 3"),
        (Choice(figures=(9,)), r"no figure 9 that can be run; it has 2, 3, 5, 6, 7"),
        (Choice(figures=(1,)), r"drawing"),
        (Choice(methods=("icarll",)), r"did you mean 'icarl'"),
        (Choice(methods=("bic",)), r"unknown method in he2021 'bic'"),
        (Choice(steps=(7,)), r"no step 7; it has 5, 10, 20, 50, 100"),
        (Choice(data=("mnist",)), r"no data set 'mnist'; it has cifar100, imagenet100, imagenet, and digits can stand"),
        (Choice(data=("digits", "cifar100")), r"digits stands in for all data"),
        (Choice(tables=(2,), labels="given"), r"no cell of he2021 matches table 2 labels given"),
        (Choice(tables=(1,), methods=("ours",)), r"no cell of he2021 matches table 1 method ours"),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_is_said(choice: Choice, message: str) -> None:
    with pytest.raises(WhorlError, match=message):
        chosen(PAPER, choice)


def test_what_stands_in() -> None:
    assert stand_in(PAPER, ("digits",)) == "digits"
    assert stand_in(PAPER, ("cifar100", "imagenet")) is None
    assert stand_in(PAPER, ()) is None


def test_jobs_are_unique_and_ordered_by_seed() -> None:
    found = prepared(Choice(data=("digits",)), {"data": {"per_class": 30}}, seeds=2)
    assert len(found.jobs) == len({job.title for job in found.jobs}) == 216
    assert [job.config.seed for job in found.jobs] == [0] * 108 + [1] * 108
    assert {job.config.data.per_class for job in found.jobs} == {30}
    assert {part: cells for part, cells, _ in found.parts} == {
        "table 1": 72, "table 2": 41, "table 3": 36, "figure 2": 24, "figure 3": 32, "figure 5": 12, "figure 6": 8,
        "figure 7": 12,
    }  # fmt: skip
    assert found.cells == 237
    # 6 nets or losses (ours, lwf, icarl, eeil, lucir, wa; ilio's head makes 7) × task 1 of 2, 4 and 5 digits.
    assert len({job.task1 for job in found.jobs if job.config.seed == 0}) == 7 * 3


def test_data_that_are_missing_leave_the_rest() -> None:
    budget: Tree = {"data": {"per_class": 3, "resize": 8}, "net": {"arch": "tiny"}}
    found = prepared(Choice(tables=(2,)), budget)
    assert {job.config.data.name for job in found.jobs} == {"cifar100", "imagenet100"}
    ((reason, needs),) = found.left_out.items()
    assert (reason, len(needs)) == ("no ImageNet here", 6)


def test_a_limit_of_tasks_binds_only_where_there_are_more() -> None:
    budget: Tree = {"data": {"per_class": 3, "resize": 8}, "net": {"arch": "tiny"}, "stream": {"tasks": 5}}
    found = prepared(Choice(tables=(2,), data=("cifar100",)), budget)
    limits = {job.config.stream.step: job.config.stream.tasks for job in found.jobs}
    assert limits == {5: 5, 10: 5, 20: None, 50: None}
    assert {len(job.passes) for job in found.jobs} == {5, 2}


def test_another_data_set_under_the_papers_name_fills_nothing() -> None:
    def few(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        return wanted, load("synthetic", None, DataOptions(8, 3, 10))

    needs, tiny = chosen(PAPER, Choice(tables=(2,), data=("cifar100",), steps=(5,))), {"net": {"arch": "tiny"}}
    found = prepare(PAPER, needs, "demo", tiny, range(1), few, NOWHERE)
    assert found.jobs == ()
    assert [reason[:63] for reason in found.left_out] == [
        "cifar100 has 100 classes in he2021, and 10 were found; set `dat"
    ]
    meant = prepare(PAPER, needs, "demo", {**tiny, "data": {"classes": 10}}, range(1), few, NOWHERE)
    assert len(meant.jobs) == 7


def test_a_quota_for_all_classes_is_a_budget_and_one_for_each_is_not() -> None:
    check_budget({"memory": {"policy": "total", "quota": 2000}, "train": {"epochs": 3}, "data": {"resize": 16}})
    for budget in ({"memory": {"quota": 7}}, {"seed": 1}, {"labels": "given"}, {"stream": {"step": 4}}):
        with pytest.raises(WhorlError, match="decides which cell a run fills"):
            check_budget(budget)


def test_runs_of_earlier_versions_keep_their_configs(tmp_path: Path) -> None:
    def folder(wanted: DataConfig) -> tuple[DataConfig, Dataset]:
        data = replace(images(wanted)[1], fingerprint="now", earlier_fingerprint="before")
        return wanted.model_copy(update={"fingerprint": "now"}), data

    needs = chosen(PAPER, Choice(tables=(2,), data=("digits",), steps=(50,)))

    def prints(seeds: int) -> list[str]:
        found = prepare(PAPER, needs, "demo", {}, range(seeds), folder, tmp_path)
        assert {job.config.seed for job in found.jobs} == set(range(seeds))
        assert {config.seed for _, config in found.fills} == {0}
        assert [job.config.data for job in found.jobs[: len(found.fills)]] == [c.data for _, c in found.fills]
        return [job.config.data.fingerprint for job in found.jobs if job.config.seed == 0]

    new = prepare(PAPER, needs, "demo", {}, range(2), folder, tmp_path).jobs
    assert prints(2) == ["now"] * len(prints(2))
    section = new[0].config.data.model_copy(update={"fingerprint": "before"})
    before = new[0].config.model_copy(update={"data": section, "seed": 1})
    (tmp_path / before.title).mkdir()
    assert prints(2) == ["before", *prints(2)[1:]]
    assert prints(2)[1:] == prints(1)[1:] == ["now"] * (len(prints(1)) - 1)
    assert prints(1)[0] == "now"  # none of these seeds is stored
    (tmp_path / new[0].title).mkdir()
    assert prints(2)[0] == "now"
