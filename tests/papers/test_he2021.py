"""The paper as data: every number as printed, every cell a config, every run in its own cell."""

from __future__ import annotations

import copy
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import SHARED
from whorl import papers
from whorl.config import ExperimentConfig
from whorl.data.stream import split_sizes
from whorl.errors import WhorlError
from whorl.experiment import check
from whorl.methods import method_class, method_of
from whorl.metrics.match import matched_accuracy
from whorl.papers import Row, Table
from whorl.papers.cells import Cell, Place, Setting, cells, config_of, figure_cells, table_cell
from whorl.sections import PseudoConfig
from whorl.tree import Tree, merge

TEX = SHARED.parent / "paper.tex"
PAPER = papers.load("he2021")
LABELS = {1: "tab:incorpor", 2: "tab:ablation:clustering", 3: "tab:drop"}
FIGURES = ["intro_diff", "result on cifar", "exp", "method", "imagenet", "part1", "part2"]
TABLES = [pytest.param(table, id=f"table{table.number}") for table in PAPER.tables]
TOTAL: Tree = {"memory": {"policy": "total", "quota": 2000}}


@pytest.fixture(scope="module")
def tex() -> str:
    """The paper's source without its comments."""
    if not TEX.is_file():
        pytest.skip(f"needs {TEX.name}, the paper's source, beside the data")
    return re.sub(r"(?<!\\)%.*", "", TEX.read_text(encoding="utf-8"))


def tabular(tex: str, label: str) -> list[list[str]]:
    """The rows of the table with that label; what spans several columns is repeated in each."""
    before = tex[: tex.index(rf"\label{{{label}}}")]
    body = before[before.rindex(r"\begin{tabular}") : before.rindex(r"\end{tabular}")]
    body = re.sub(r"^\\begin\{tabular\}\{[^}]*\}", "", body).replace(r"\hline", "").replace(r"$\Delta$", "Δ")
    body = re.sub(r"\\textbf\{([^}]*)\}", r"\1", body)
    body = re.sub(r"\\multicolumn\{(\d)\}\{[^}]*\}\{([^}]*)\}", lambda m: "&".join([m[2]] * int(m[1])), body)
    lines = [line for line in body.split(r"\\") if line.strip()]
    return [[word.strip() for word in line.split("&")] for line in lines]


def label(tex: str, kind: str) -> list[str]:
    """The labels of one kind, in the order of their numbers."""
    return re.findall(rf"\\label\{{({kind}:[^}}]*)\}}", tex)


# ------------------------------------------------------------------------------------------- 1. what the paper prints


def test_every_number_is_the_printed_one(tex: str) -> None:
    numbers, left_out = 0, 0
    for table in PAPER.tables:
        rows = {line[0]: line[1:] for line in tabular(tex, LABELS[table.number])}
        groups, steps, metrics = (rows.pop(name, None) for name in ("Datasets", "Step size", "ACC"))
        assert groups is not None
        assert steps is not None
        metrics = metrics or ["Avg"] * len(steps)  # Table 3 has no such line; its caption says Avg
        assert [row.name for row in table.rows] == list(rows)
        kinds = list(dict.fromkeys(metrics))
        assert [kind.lower() for kind in kinds] == list(table.metrics)
        assert metrics == kinds * len(table.columns)  # Avg and Last take turns
        columns = [PAPER.columns[name] for name in table.columns for _ in kinds]
        assert [column.group for column in columns] == groups
        assert [str(column.step) for column in columns] == steps
        for row in table.rows:
            printed = [row.printed(metric)[i] for i in range(len(table.columns)) for metric in table.metrics]
            assert len(printed) == len(rows[row.name]) == len(columns)
            for value, text in zip(printed, rows[row.name], strict=True):
                assert (value if value == "/" else f"{value:.3f}") == text, (table.number, row.name)
                numbers, left_out = numbers + (text != "/"), left_out + (text == "/")
    assert (numbers, left_out) == (12 * 12 + (7 * 12 - 2) + 6 * 6, 2)


def test_tables_and_figures_have_the_papers_numbers(tex: str) -> None:
    assert label(tex, "tab") == list(LABELS.values())
    assert [table.number for table in PAPER.tables] == list(LABELS)
    assert label(tex, "fig") == [f"fig:{name}" for name in FIGURES]
    assert sorted([*PAPER.drawings, *(figure.number for figure in PAPER.figures)]) == [1, 2, 3, 4, 5, 6, 7]
    assert [FIGURES[number - 1] for number in PAPER.drawings] == ["intro_diff", "method"]


def test_what_the_text_says_is_what_the_data_say(tex: str) -> None:
    assert "ranges from $[0.015, 0.295]$ with an average of $0.114$" in tex
    assert "q \\in \\{10, 20, 50, 100\\}" in tex
    over = PAPER.figure(3).over
    assert over is not None
    assert (over.key, over.values) == ("memory.quota", (10, 20, 50, 100))
    assert "We ran five times for each experiment" in tex
    assert PAPER.seeds == 5
    assert "We train 120 epochs for each incremental step" in tex
    assert PAPER.epochs == 120
    assert "(starting from task 2)" in tex
    assert [figure.number for figure in PAPER.figures if figure.from_task == 2] == [7]


def test_columns_run_what_they_are_called() -> None:
    """Step sizes and the score by section 5.1: top-1 on CIFAR-100, top-5 on ImageNet."""
    assert {
        name: (column.data, column.step, column.set["stream"]["step"], column.score)
        for name, column in PAPER.columns.items()
    } == {
        "cifar-5": ("cifar100", 5, 5, "acc"),
        "cifar-10": ("cifar100", 10, 10, "acc"),
        "cifar-20": ("cifar100", 20, 20, "acc"),
        "cifar-50": ("cifar100", 50, 50, "acc"),
        "imagenet100-10": ("imagenet100", 10, 10, "acc5"),
        "imagenet-100": ("imagenet", 100, 100, "acc5"),
    }
    assert PAPER.data == ("cifar100", "imagenet100", "imagenet")
    assert {(figure.number, figure.panels) for figure in PAPER.figures} == {
        *((number, tuple(PAPER.columns)[:4]) for number in (2, 3, 6, 7)),
        (5, tuple(PAPER.columns)[4:]),
    }


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_whole_and_set_nothing_that_columns_set(table: Table) -> None:
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert all(len(row.printed(metric)) == len(table.columns) for metric in table.metrics)
        assert (row.last is None) == ("last" not in table.metrics)
        for column in table.columns:
            for place in (PAPER.place(column, None), PAPER.place(column, "digits")):
                assert not {*row.set} & {*place}


# -------------------------------------------------------------------------------------------------------- 2. signs


def differences(table: Table) -> list[Row]:
    return [row for row in table.rows if row.minus is not None]


def numbers(values: tuple[float | str, ...]) -> list[float]:
    return [value for value in values if isinstance(value, float)]


def test_rows_without_labels_are_negative_and_taken_from_those_with() -> None:
    first, drop = PAPER.table(1), PAPER.table(3)
    assert [row.name for row in differences(first)] == [row.name for row in first.rows if "w/o" in row.name]
    assert len(differences(first)) == len(differences(drop)) == len(drop.rows) == 6
    for table in (first, drop):
        for row in differences(table):
            base = PAPER.base(table, row)
            assert base is not None
            name = row.set["method"]["name"]
            assert base.name == f"{name.upper()} (w/)"
            assert (base.set, row.set) == tuple({"method": {"name": name}, "labels": x} for x in ("given", "pseudo"))
            for metric in table.metrics:
                assert max(numbers(row.printed(metric))) < 0  # w/o − w/ (A17)
                assert min(numbers(base.printed(metric))) > 0
    assert differences(PAPER.table(2)) == []


def test_with_two_tasks_avg_is_last() -> None:
    """So Avg leaves out task 1 (A16)."""
    seen = 0
    for table in (PAPER.table(1), PAPER.table(2)):
        index = table.columns.index("cifar-50")
        for row in table.rows:
            assert row.printed("avg")[index] == row.printed("last")[index]
            seen += 1
    assert seen == 19


def by_chance(ids: int) -> float:
    """The matched accuracy of random guesses among ``ids`` ids, on 100 test images of each of 100 classes."""
    draws, truth, found = np.random.default_rng(0), np.repeat(np.arange(100), 100), list[float]()
    for _ in range(5):
        found.append(matched_accuracy(draws.integers(0, ids, len(truth)), truth, ids, 100))
    return round(statistics.fmean(found), 3)


def test_flags_are_where_the_paper_contradicts_itself() -> None:
    """A drop printed twice, a last step above the mean of a falling curve, a run printed twice, less than chance."""
    first, drop = PAPER.table(1), PAPER.table(3)
    found: dict[tuple[int, str, str, str], list[float]] = {}
    for row, same in zip(differences(first), drop.rows, strict=True):
        base = PAPER.base(first, row)
        assert base is not None
        for i, column in enumerate(first.columns):
            one, other = float(row.avg[i]), float(same.avg[i])
            if one != other:
                found[1, row.name, column, "avg"] = [one, other]
                found[3, same.name, column, "avg"] = [other, one]
            avg = float(base.avg[i]) + one
            last = float(base.printed("last")[i]) + float(row.printed("last")[i])
            if last > avg and column != "cifar-50":
                found[1, row.name, column, "last"] = [round(last, 3), round(avg, 3)]
    second = PAPER.table(2)
    rows = {row.name: row for row in second.rows}
    for name, same_run in (("FFE", "Ours"), ("Ours", "FFE")):
        for metric in second.metrics:
            values = [rows[each].printed(metric)[second.columns.index("cifar-50")] for each in (name, same_run)]
            found[2, name, "cifar-50", metric] = [float(value) for value in values]
    assert float(rows["Scratch"].printed("last")[second.columns.index("cifar-10")]) < by_chance(10)
    found[2, "Scratch", "cifar-10", "last"] = [by_chance(10), by_chance(100)]
    assert found == {(f.table, f.row, f.column, f.metric): list(f.values) for f in PAPER.flags}
    for flag in PAPER.flags:
        assert PAPER.flag(flag.table, flag.row, flag.column, flag.metric) == flag
        assert all(f"{value:.3f}" in flag.why for value in flag.values)
    assert PAPER.flag(1, "ICARL+Ours (w/o, Δ)", "cifar-10", "last") is None


def test_drops_are_those_of_the_text() -> None:
    drops = [-value for row in PAPER.table(3).rows for value in numbers(row.avg)]
    assert len(drops) == 36
    assert (min(drops), max(drops)) == (0.015, 0.295)
    assert statistics.fmean(drops) == pytest.approx(0.1135, abs=5e-5)
    assert f"{statistics.fmean(drops):.3f}" == "0.114"


# ------------------------------------------------------------------------------------------------------ 3. configs


def fields(one: ExperimentConfig, other: ExperimentConfig) -> set[str]:
    """The dotted names of what differs."""
    a, b = one.model_dump(), other.model_dump()
    out: set[str] = set()
    for key in a:
        if isinstance(a[key], dict):
            out |= {f"{key}.{k}" for k in {*a[key], *b[key]} if a[key].get(k, ...) != b[key].get(k, ...)}
        elif a[key] != b[key]:
            out.add(key)
    return out


def table_config(
    number: int, row: str, column: str, recipe: str = "paper", budget: Tree | None = None
) -> ExperimentConfig:
    table = PAPER.table(number)
    cell = table_cell(PAPER, table, table.row(row), column)
    return config_of(PAPER, cell.asked, recipe, budget or {})


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_every_cell_can_be_run(recipe: str) -> None:
    parts: dict[str, int] = {}
    for cell in cells(PAPER):
        config = config_of(PAPER, cell.asked, recipe, {}, seed=4)
        check(config)
        assert (config.recipe, config.seed) == (recipe, 4)
        assert config.net.arch == ("resnet32" if config.data.name == "cifar100" else "resnet18")
        assert (config.stream.order, config.memory.policy) == ("A", "per-class")
        if cell.base is not None:
            with_labels = config_of(PAPER, cell.base, recipe, {}, seed=4)
            check(with_labels)
            assert fields(config, with_labels) == {"labels"}
        parts[cell.part] = parts.get(cell.part, 0) + 1
    assert parts == {
        "table 1": 12 * 6, "table 2": 7 * 6 - 1, "table 3": 6 * 6,
        "figure 2": 6 * 4, "figure 3": 2 * 4 * 4, "figure 5": 6 * 2, "figure 6": 2 * 4, "figure 7": 3 * 4,
    }  # fmt: skip


def test_ours_has_the_constants_of_the_appendix() -> None:
    for column in PAPER.columns:
        config = table_config(2, "Ours", column)
        assert (config.train.first_epochs, config.train.epochs, config.train.batch) == (120, 120, 128)
        optim = config.optim
        assert (optim.lr, optim.weight_decay, optim.gamma, optim.milestones) == (0.1, 1e-5, 0.1, (30, 60, 90))
        assert (config.memory.quota, config.memory.select, config.cluster.name) == (20, "herding", "kmeans")
        assert (config.method.name, config.labels, config.pseudo) == ("ours", "pseudo", PseudoConfig())


@pytest.mark.parametrize("recipe", ["paper", "fast"])
@pytest.mark.parametrize("column", list(PAPER.columns))
def test_table_2_varies_where_pseudo_labels_come_from(column: str, recipe: str) -> None:
    ours = table_config(2, "Ours", column, recipe)
    epochs = 120 if recipe == "paper" else 36
    pseudo = {
        "Scratch": PseudoConfig(features="scratch"),
        "PCA": PseudoConfig(features="pca"),
        "FFE": PseudoConfig(features="first"),
        "UPL-10": PseudoConfig(refresh=10 * epochs // 120),
        "UPL-20": PseudoConfig(refresh=20 * epochs // 120),
        "UPL-30": PseudoConfig(refresh=30 * epochs // 120),
        "Ours": PseudoConfig(),
    }
    for row in PAPER.table(2).rows:
        config = table_config(2, row.name, column, recipe)
        assert config == ours.model_copy(update={"pseudo": pseudo.pop(row.name)})
    assert not pseudo


@pytest.mark.parametrize("recipe", ["paper", "fast"])
@pytest.mark.parametrize("column", PAPER.figure(3).panels)
def test_figure_3_varies_the_exemplars(column: str, recipe: str) -> None:
    ours, figure = table_config(2, "Ours", column, recipe), PAPER.figure(3)
    for curve, select in zip(figure.curves, ("herding", "random"), strict=True):
        found = figure_cells(PAPER, figure, curve, column)
        assert list(found) == [10, 20, 50, 100]
        for quota, cell in found.items():
            config = config_of(PAPER, cell.asked, recipe, {})
            assert (config.memory.quota, config.memory.select) == (quota, select)
            varied = {"memory.quota"} if quota != 20 else set()
            assert fields(config, ours) == (varied | {"memory.select"} if select == "random" else varied)


@pytest.mark.parametrize("recipe", ["paper", "fast"])
@pytest.mark.parametrize("column", PAPER.figure(6).panels)
def test_figure_6_varies_the_clustering(column: str, recipe: str) -> None:
    ours, figure = table_config(2, "Ours", column, recipe), PAPER.figure(6)
    for curve, name in zip(figure.curves, ("kmeans", "gmm"), strict=True):
        cell = figure_cells(PAPER, figure, curve, column)[None]
        config = config_of(PAPER, cell.asked, recipe, {})
        check(config)
        assert config.cluster.name == name
        assert fields(config, ours) == ({"cluster.name"} if name == "gmm" else set())


def test_other_figures_show_runs_of_the_tables() -> None:
    for number, names in ((2, "LWF ICARL EEIL LUCIR WA ILIO"), (5, "LWF ICARL EEIL LUCIR WA ILIO"), (7, "")):
        figure = PAPER.figure(number)
        assert [curve.name.removesuffix("+Ours") for curve in figure.curves] == (names.split() or ["ACC", "NMI", "ARI"])
        for curve in figure.curves:
            for column in figure.panels:
                cell = figure_cells(PAPER, figure, curve, column)[None]
                table, row = (1, f"{curve.name} (w/o, Δ)") if names else (2, "Ours")
                assert config_of(PAPER, cell.asked, "paper", {}) == table_config(table, row, column)
    assert [curve.score for curve in PAPER.figure(7).curves] == [None, "nmi", "ari"]


@pytest.mark.parametrize(
    ("recipe", "epochs", "every"),
    [
        ("paper", None, (10, 20, 30)),
        ("fast", None, (3, 6, 9)),
        ("demo", None, (1, 2, 3)),
        ("paper", 60, (5, 10, 15)),
        ("fast", 60, (5, 10, 15)),
        ("fast", 120, (10, 20, 30)),
        ("fast", 240, (20, 40, 60)),
        ("paper", 16, (1, 3, 4)),
        ("fast", 4, (1, 1, 1)),
        ("fast", 1, (1, 1, 1)),
    ],
)
def test_upl_clusters_after_the_same_share_of_a_step(
    recipe: str, epochs: int | None, every: tuple[int, int, int]
) -> None:
    budget: Tree = {} if epochs is None else {"train": {"epochs": epochs, "first_epochs": 7}}
    for column in PAPER.columns:
        got = [table_config(2, f"UPL-{k}", column, recipe, budget).pseudo.refresh for k in (10, 20, 30)]
        assert tuple(got) == every
        assert table_config(2, "Ours", column, recipe, budget).pseudo.refresh == 0


def test_a_budget_reaches_every_cell_and_stays_what_it_is() -> None:
    budget: Tree = {"train": {"epochs": 5, "first_epochs": 6}, "data": {"per_class": 40}, "seed": 9, "recipe": "demo"}
    before = copy.deepcopy(budget)
    for cell in cells(PAPER):
        config = config_of(PAPER, cell.asked, "fast", budget, seed=2)
        assert budget == before
        online = method_class(config.method.name).online
        assert online == (config.method.name == "ilio")
        assert (config.train.first_epochs, config.train.epochs) == (6, 1 if online else 5)
        assert (config.data.per_class, config.seed, config.recipe) == (40, 2, "fast")
        check(config)


@pytest.mark.parametrize("recipe", ["paper", "fast", "demo"])
def test_digits_stand_in_for_every_column(recipe: str) -> None:
    assert set(PAPER.stand_ins) == {"digits"}
    assert set(PAPER.stand_ins["digits"].columns) == set(PAPER.columns)
    seen: dict[str, set[tuple[int, ...]]] = {}
    for cell in cells(PAPER, "digits"):
        config = config_of(PAPER, cell.asked, recipe, {})
        check(config)
        first, step = config.stream.first, config.stream.step
        assert first is not None
        assert (10 - first) % step == 0
        sizes = (first, *[step] * ((10 - first) // step))
        assert sizes == split_sizes(10, step, first)
        assert min(sizes) >= 2  # one class would leave nothing to cluster
        assert len(sizes) >= 2
        method_of(config).check(config, sizes, config.labels == "given")
        if config.method.name == "lucir":
            assert config.method.options["negatives"] == 2 <= min(sizes)
        assert (config.data.name, config.net.arch, config.labels) == (
            "digits",
            "tiny",
            cell.asked.get("labels", "pseudo"),
        )
        seen.setdefault(cell.column, set()).add(sizes)
    assert seen == {
        "cifar-5": {(2, 2, 2, 2, 2)},
        "cifar-10": {(4, 2, 2, 2)},
        "cifar-20": {(4, 3, 3)},
        "cifar-50": {(5, 5)},
        "imagenet100-10": {(4, 2, 2, 2)},
        "imagenet-100": {(4, 2, 2, 2)},
    }


# ------------------------------------------------------------------------------------- 4. the cell that a run fills


def place(cell: Cell, stand_in: str | None = None) -> Place:
    return Place(PAPER, cell.asked, stand_in)


def ours(column: str = "cifar-10", stand_in: str | None = None) -> Cell:
    table = PAPER.table(2)
    return table_cell(PAPER, table, table.row("Ours"), column, stand_in)


def changed(config: ExperimentConfig, tree: Tree) -> ExperimentConfig:
    """The config with some values set, as a run of them would be stored."""
    return ExperimentConfig.model_validate(merge(config.tree(), tree))


def test_a_run_of_the_papers_config_is_faithful() -> None:
    for cell in cells(PAPER):
        run = config_of(PAPER, cell.asked, "paper", {}, seed=3)
        setting = place(cell).setting(changed(run, {"data": {"fingerprint": "of the very files"}}))
        assert setting == Setting(None, "paper")
        assert setting is not None
        assert setting.faithful
        assert setting.words == ()
        assert str(setting) == "as in the paper"


ORDER = list(range(99, -1, -1))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"data": {"resize": 16}}, ["images of 16×16"]),
        ({"data": {"per_class": 50}}, ["50 images per class"]),
        ({"data": {"classes": 40}}, ["40 classes"]),
        ({"stream": {"tasks": 3}}, ["3 tasks"]),
        ({"train": {"epochs": 5}}, ["5 epochs per later task"]),
        ({"train": {"first_epochs": 6}}, ["6 epochs in task 1"]),
        ({"stream": {"order": "B"}}, ["class order B"]),
        ({"stream": {"order": ORDER}}, ["class order [99, 98, 97, 96, 95, 94, 93, 92, 91, …"]),
        ({"net": {"arch": "tiny"}}, ["net tiny"]),
        ({"optim": {"lr": 0.5}}, ["optim.lr 0.5"]),
        ({"method": {"temperature": 4.0}}, ["method.temperature 4.0"]),
        ({"precision": "bf16"}, ["precision bf16"]),
        ({"memory": {"reading": "reuse"}}, ["memory.reading reuse"]),
        ({"train": {"epochs": 5}, "data": {"resize": 16}}, ["images of 16×16", "5 epochs per later task"]),
    ],
)
@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_a_difference_is_said_in_words(tree: Tree, words: list[str], recipe: str) -> None:
    cell = ours()
    run = changed(config_of(PAPER, cell.asked, recipe, {}), tree)
    setting = place(cell).setting(run)
    assert setting is not None
    assert not setting.faithful
    words = words if recipe == "paper" else ["recipe fast", *words]
    assert list(setting.words) == words
    assert str(setting) == ", ".join(words)


def test_data_that_stand_in_are_said_first() -> None:
    cell = ours("cifar-20", "digits")
    setting = place(cell, "digits").setting(config_of(PAPER, cell.asked, "demo", {"data": {"per_class": 9}}))
    assert setting is not None
    assert str(setting) == "data digits, recipe demo, 9 images per class"
    assert not setting.faithful
    as_paper = place(cell, "digits").setting(config_of(PAPER, cell.asked, "paper", {}))
    assert as_paper == Setting("digits", "paper")
    assert as_paper is not None
    assert not as_paper.faithful
    assert place(ours("cifar-20")).setting(config_of(PAPER, cell.asked, "demo", {})) is None


@pytest.mark.parametrize(
    "tree",
    [
        {"method": {"name": "finetune"}},
        {"labels": "given"},
        {"pseudo": {"features": "first"}},
        {"pseudo": {"features": "pca"}},
        {"pseudo": {"refresh": 10}},
        {"pseudo": {"refresh": 10, "ids": "reset"}},
        {"memory": {"quota": 10}},
        {"memory": {"select": "random"}},
        {"cluster": {"name": "gmm"}},
        {"cluster": {"l2": True}},
        {"stream": {"step": 20}},
        {"stream": {"first": 50}},
        {"data": {"name": "imagenet100"}},
        {"recipe": "of another day"},
    ],
    ids=str,
)
def test_a_run_of_something_else_fills_another_cell(tree: Tree) -> None:
    cell = ours()
    run = config_of(PAPER, cell.asked, "paper", {})
    assert place(cell).setting(run) is not None
    assert place(cell).setting(changed(run, tree)) is None


def test_each_method_has_its_own_row() -> None:
    table = PAPER.table(1)
    runs = {row.name: table_config(1, row.name, "cifar-10") for row in table.rows}
    for row in table.rows:
        here = place(table_cell(PAPER, table, row, "cifar-10"))
        assert [name for name, run in runs.items() if here.setting(run) is not None] == [row.name]


def test_a_memory_for_all_classes_is_a_setting() -> None:
    """It is the same for every row of the tables; figure 3, which is about q for each class, does not take it."""
    expected = Setting(None, "fast", (("memory.policy", "total"), ("memory.quota", "2000")))
    for cell in cells(PAPER):
        run = config_of(PAPER, cell.asked, "fast", TOTAL)
        if cell.part == "figure 3":
            assert run == config_of(PAPER, cell.asked, "fast", {})
            assert place(cell).setting(run) == Setting(None, "fast")
            for quota in (run.memory.quota, 2000):
                shared = changed(run, {"memory": {"policy": "total", "quota": quota}})
                assert place(cell).setting(shared) is None
        else:
            assert place(cell).setting(run) == expected
    assert expected.words == ("recipe fast", "memory.policy total", "memory.quota 2000")


def others(cell: Cell, stand_in: str | None) -> Iterator[Cell]:
    """The other rows of the same column, and those that are taken off."""
    table = next(table for table in PAPER.tables if cell.part == f"table {table.number}")
    return (table_cell(PAPER, table, row, cell.column, stand_in) for row in table.rows if row.name != cell.name)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({}, ()),
        ({"data": {"resize": 16}, "stream": {"tasks": 5}}, (("data.resize", "16"), ("stream.tasks", "5"))),
        (
            {"data": {"per_class": 50}, "train": {"first_epochs": 8}},
            (("data.per_class", "50"), ("train.first_epochs", "8")),
        ),
    ],
    ids=["nothing", "size-tasks", "images-first"],
)
@pytest.mark.parametrize("stand_in", [None, "digits"])
def test_every_run_is_found_in_its_own_cell_and_no_other(
    stand_in: str | None, budget: Tree, said: tuple[tuple[str, str], ...]
) -> None:
    """With one setting for all methods, ilio too."""
    recipe, checked = "fast", 0
    for cell in cells(PAPER, stand_in):
        run = config_of(PAPER, cell.asked, recipe, budget, seed=1)
        assert place(cell, stand_in).setting(run) == Setting(stand_in, recipe, said), cell
        if cell.base is not None:
            with_labels = config_of(PAPER, cell.base, recipe, budget, seed=1)
            assert Place(PAPER, cell.base, stand_in).setting(with_labels) == Setting(stand_in, recipe, said)
            assert place(cell, stand_in).setting(with_labels) is None
            assert Place(PAPER, cell.base, stand_in).setting(run) is None
        if cell.part.startswith("table"):
            for other in others(cell, stand_in):
                assert place(other, stand_in).setting(run) is None, (cell, other)
                checked += 1
    assert checked == 6 * (12 * 11 + 6 * 5) + 5 * 7 * 6 + 6 * 6


@pytest.mark.parametrize("number", [3, 6])
def test_every_run_of_a_figure_has_one_place_in_a_panel(number: int) -> None:
    figure = PAPER.figure(number)
    for column in figure.panels:
        found = [c for curve in figure.curves for c in figure_cells(PAPER, figure, curve, column).values()]
        for cell in found:
            run = config_of(PAPER, cell.asked, "fast", {"data": {"resize": 16}})
            assert [other for other in found if place(other).setting(run) is not None] == [cell]


def test_an_online_method_says_nothing_of_the_epochs_of_others() -> None:
    """Each image comes once, so the very same run belongs beside those of 5 epochs and beside those of 12."""
    budget: Tree = {"train": {"epochs": 5, "first_epochs": 6}, "data": {"resize": 16}}
    both = (("train.epochs", "5"), ("train.first_epochs", "6"))
    for cell in cells(PAPER):
        run = config_of(PAPER, cell.asked, "fast", budget)
        setting = place(cell).setting(run)
        epochs = both[1:] if run.method.name == "ilio" else both
        assert setting == Setting(None, "fast", (("data.resize", "16"), *epochs))
        if run.method.name == "ilio":
            longer = merge(budget, {"train": {"epochs": 12}})
            assert config_of(PAPER, cell.asked, "fast", longer) == run


# --------------------------------------------------------------------------------------- 5. what is not there


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: papers.load("he2022"), "unknown paper 'he2022'; did you mean 'he2021'?"),
        (lambda: papers.load("resnet"), "unknown paper 'resnet'; known: he2021"),
        (lambda: papers.load("../he2021.toml"), "unknown paper '../he2021.toml'; did you mean 'he2021'?"),
        (lambda: PAPER.table(4), "he2021 has no table 4 that can be run; it has 1, 2, 3"),
        (lambda: PAPER.figure(8), "he2021 has no figure 8 that can be run; it has 2, 3, 5, 6, 7"),
        (
            lambda: PAPER.figure(1),
            "figure 1 of he2021 is a drawing without measurements; the figures that can be run are 2, 3, 5, 6, 7",
        ),
        (
            lambda: PAPER.figure(4),
            "figure 4 of he2021 is a drawing without measurements; the figures that can be run are 2, 3, 5, 6, 7",
        ),
    ],
    ids=["near", "far", "path", "table", "figure", "drawing-1", "drawing-4"],
)
def test_errors_name_what_there_is(ask: Any, line: str) -> None:
    with pytest.raises(WhorlError) as error:
        ask()
    assert str(error.value) == line


def test_papers_are_packaged() -> None:
    folder = Path(papers.__file__).parent
    assert papers.names() == sorted(file.stem for file in folder.glob("*.toml")) == ["he2021"]
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "papers/*.toml" in project["tool"]["setuptools"]["package-data"]["whorl"]
    assert papers.load("he2021") == PAPER
