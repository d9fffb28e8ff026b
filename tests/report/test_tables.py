"""The numbers of a table, each computed by hand here."""

from __future__ import annotations

from pathlib import Path

import pytest

from madeup import HE, SMALL, asked, put
from whorl.papers import Metric
from whorl.papers.cells import Setting
from whorl.papers.filled import fill
from whorl.papers.stored import read
from whorl.report.tables import Entry, FilledTable, chain, filled_table

PAPER = Setting(None, "paper")


def table(runs: Path, number: int, setting: int = 0) -> FilledTable:
    filled = fill(HE, read(runs))
    return filled_table(filled, HE.table(number), filled.settings[setting])


def entry(found: FilledTable, row: str, column: str = "cifar-10", metric: Metric = "avg") -> Entry:
    return found.entries[row, column, metric]


def test_mean_deviation_and_difference_to_print(tmp_path: Path) -> None:
    for seed, accs in enumerate(([0.9, 0.6, 0.4], [0.9, 0.5, 0.3], [0.9, 0.7, 0.5])):  # Avg 0.5, 0.4, 0.6
        put(tmp_path, asked(), accs, seed=seed)
    found = table(tmp_path, 2)
    avg, last = entry(found, "Ours"), entry(found, "Ours", metric="last")
    assert avg.value.mean == pytest.approx(0.5)
    assert avg.value.sd == pytest.approx(0.1)  # squares 0, 0.01, 0.01 over 3 - 1
    assert avg.value.seeds == (0, 1, 2)
    assert avg.difference == pytest.approx(0.5 - 0.482)
    assert last.value.mean == pytest.approx(0.4)
    assert last.difference == pytest.approx(0.4 - 0.368)
    assert entry(found, "Ours", "cifar-20").value.missing == "not run"
    assert entry(found, "PCA").value.missing == "not run"
    assert entry(found, "PCA", "imagenet-100").printed == "/"


def test_one_seed_has_no_deviation_and_one_task_no_avg(tmp_path: Path) -> None:
    put(tmp_path, asked(), [0.9])
    found = table(tmp_path, 2)
    assert entry(found, "Ours").value.missing == "one task"
    last = entry(found, "Ours", metric="last").value
    assert (last.mean, last.sd) == (0.9, None)
    assert any(line.startswith("one task: ") for line in found.legend)


def test_with_labels_the_plain_accuracy_counts_and_differences_pair_by_seed(tmp_path: Path) -> None:
    for seed, (plain, without) in {0: (0.6, 0.5), 1: (0.8, 0.6), 2: (0.9, None)}.items():
        put(tmp_path, asked("lwf", labels="given"), [0.9, 0.99], seed=seed, acc_plain=[0.9, plain])
        if without is not None:
            put(tmp_path, asked("lwf", labels="pseudo"), [0.9, without], seed=seed, acc_plain=[0.1, 0.1])
    put(tmp_path, asked("lwf", labels="pseudo"), [0.9, 0.1], seed=7)  # has no partner
    found = table(tmp_path, 1)
    assert entry(found, "LWF (w/)").value.mean == pytest.approx((0.6 + 0.8 + 0.9) / 3)
    drop = entry(found, "LWF+Ours (w/o, Δ)")
    assert drop.value.mean == pytest.approx((-0.1 - 0.2) / 2)  # without minus with
    assert drop.value.sd == pytest.approx(0.1 / 2**0.5)  # of -0.1 and -0.2
    assert drop.value.seeds == (0, 1)
    assert drop.difference == pytest.approx(-0.15 + 0.091)
    assert len(drop.runs) == 4
    third = entry(table(tmp_path, 3), "LWF")
    assert third.value == drop.value


def test_a_difference_without_its_partner_is_not_paired(tmp_path: Path) -> None:
    put(tmp_path, asked("wa", labels="pseudo"), [0.9, 0.5])
    put(tmp_path, asked("eeil", labels="pseudo"), [0.9, 0.5], seed=1)
    put(tmp_path, asked("eeil", labels="given"), [0.9, 0.5], seed=2, acc_plain=[0.9, 0.5])
    found = table(tmp_path, 1)
    assert entry(found, "WA+Ours (w/o, Δ)").value.missing == "not paired"
    assert entry(found, "EEIL+Ours (w/o, Δ)").value.missing == "not paired"
    assert entry(found, "WA (w/)").value.missing == "not run"
    assert any(line.startswith("not paired: ") for line in found.legend)


def test_top_5_columns_and_runs_that_do_not_have_it(tmp_path: Path) -> None:
    tree = asked("icarl", "imagenet100-10", labels="given")
    put(tmp_path, tree, [0.9, 0.5], acc_plain=[0.9, 0.5], acc5=[1.0, 0.9])
    found = table(tmp_path, 1)
    old = entry(found, "ICARL (w/)", "imagenet100-10")
    assert old.value.missing == "not stored"
    assert any(line.startswith("not stored: ") for line in found.legend)
    put(tmp_path, tree, [0.9, 0.5], seed=1, acc_plain=[0.9, 0.5], acc5=[1.0, 0.9], acc5_plain=[1.0, 0.8])
    new = entry(table(tmp_path, 1), "ICARL (w/)", "imagenet100-10")
    assert new.value.mean == 0.8
    assert new.value.seeds == (1,)
    put(tmp_path, asked("ours", "imagenet100-10"), [0.9, 0.5], acc5=[1.0, 0.7])
    assert entry(table(tmp_path, 2), "Ours", "imagenet100-10").value.mean == 0.7


def test_a_score_that_is_missing_is_not_counted(tmp_path: Path) -> None:
    put(tmp_path, asked(), [0.9, None, 0.4])
    put(tmp_path, asked(), [None, 0.5, 0.4], seed=1)  # task 1 does not count in Avg
    found = table(tmp_path, 2)
    assert entry(found, "Ours").value.mean == pytest.approx(0.45)
    assert entry(found, "Ours").value.seeds == (1,)
    assert entry(found, "Ours", metric="last").value.seeds == (0, 1)


def test_contradictory_prints_show_both_and_why(tmp_path: Path) -> None:
    tmp_path.joinpath("runs").mkdir()
    found = table(tmp_path / "runs", 1)
    flagged = entry(found, "ICARL+Ours (w/o, Δ)")
    assert (flagged.printed, flagged.printed_other) == (-0.135, -0.132)
    implied = entry(found, "ICARL+Ours (w/o, Δ)", "imagenet-100", "last")
    assert implied.printed == -0.015
    assert implied.printed_other is None  # nothing else is printed for it; what is odd follows from other cells
    assert sum(line.startswith("† ") for line in found.legend) == 2


def test_orders_measured_and_printed(tmp_path: Path) -> None:
    # Printed in this column: Scratch 0.095 < PCA 0.143 < FFE 0.399 < Ours 0.482.
    for features, avg in {"scratch": 0.3, "pca": 0.2, "first": 0.4, "current": 0.4}.items():
        put(tmp_path, asked(pseudo={"features": features}), [0.9, avg])
    orders = [order for order in table(tmp_path, 2).orders if order.column.endswith("Avg")]
    assert len(orders) == 1
    assert orders[0].column == "CIFAR-100 step 10, Avg"
    assert orders[0].measured == "PCA < Scratch < FFE = Ours"
    assert orders[0].printed == "Scratch < PCA < FFE < Ours"
    assert (orders[0].agreeing, orders[0].pairs) == (4, 6)  # not Scratch-PCA, and FFE-Ours is a tie


def test_a_tie_in_print_orders_nothing_and_differences_are_ordered_among_themselves(tmp_path: Path) -> None:
    # At step 5, EEIL and WA with labels both print 0.643, ICARL 0.606.
    for method, plain in {"icarl": 0.5, "eeil": 0.6, "wa": 0.7}.items():
        put(tmp_path, asked(method, "cifar-5", labels="given"), [0.9, plain], acc_plain=[0.9, plain])
    found = [order for order in table(tmp_path, 1).orders if order.column.endswith("Avg")]
    assert [(order.printed, order.agreeing, order.pairs) for order in found] == [
        ("ICARL (w/) < EEIL (w/) = WA (w/)", 2, 2)
    ]
    put(tmp_path, asked("wa", "cifar-5", labels="pseudo"), [0.9, 0.6])
    put(tmp_path, asked("icarl", "cifar-5", labels="pseudo"), [0.9, 0.45])
    found = [order for order in table(tmp_path, 1).orders if order.column.endswith("Avg")]
    assert found[1].measured == "WA+Ours (w/o, Δ) < ICARL+Ours (w/o, Δ)"
    assert (found[1].agreeing, found[1].pairs) == (0, 1)  # print: ICARL -0.084 < WA -0.034
    assert chain({"a": 1.0}) == "a"


def test_the_legend_says_the_setting_what_stands_in_and_how_k_was_scaled(tmp_path: Path) -> None:
    for every in (10, 20, 30):
        put(tmp_path, asked(pseudo={"refresh": every}), [0.9, 0.5], recipe="fast", budget=SMALL)
    put(tmp_path, asked(stand_in="digits"), [0.9, 0.5], recipe="demo")
    legend = table(tmp_path, 2, 1).legend
    assert legend[0] == "a: recipe fast, 200 images per class, images of 16×16, 3 tasks."
    assert "36 in place of 120: UPL-10 every 3, UPL-20 every 6 and UPL-30 every 9 epochs" in legend[1]
    assert "CIFAR-100 step 5: 2 classes, then 2 at a time" in table(tmp_path, 2, 2).legend[1]
    assert not any("UPL" in line for line in table(tmp_path, 2, 0).legend)
