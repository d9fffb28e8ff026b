"""The tables of flags: every flag sets its value, ``--help`` lists it, and messages of the library name it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Call
from whorl.cli.flags import Flags, ReproduceFlags, RunFlags
from whorl.config import ExperimentConfig
from whorl.errors import WhorlError
from whorl.papers.cells import config_of
from whorl.recipes import resolve
from whorl.tree import Tree, flat

KEYS = {
    "--data": ("digits", {"data.name": "digits"}),
    "--method": ("lwf", {"method.name": "lwf"}),
    "--labels": ("given", {"labels": "given"}),
    "--recipe": ("paper", {"recipe": "paper"}),
    "--seed": ("3", {"seed": "3"}),
    "--step": ("5", {"stream.step": "5"}),
    "--first": ("4", {"stream.first": "4"}),
    "--tasks": ("2", {"stream.tasks": "2"}),
    "--order": ("A", {"stream.order": "A"}),
    "--resize": ("16", {"data.resize": "16"}),
    "--per-class": ("12", {"data.per_class": "12"}),
    "--classes": ("6", {"data.classes": "6"}),
    "--subset": ("S2", {"data.subset": "S2"}),
    "--net": ("resnet18", {"net.arch": "resnet18"}),
    "--tune": ("last", {"net.tune": "last"}),
    "--classifier": ("nme", {"classifier": "nme"}),
    "--memory": ("total", {"memory.policy": "total"}),
    "--quota": ("7", {"memory.quota": "7"}),
    "--select": ("random", {"memory.select": "random"}),
    "--reading": ("reuse", {"memory.reading": "reuse"}),
    "--features": ("pca", {"pseudo.features": "pca"}),
    "--refresh": ("2", {"pseudo.refresh": "2"}),
    "--cluster": ("gmm", {"cluster.name": "gmm"}),
    "--epochs": ("3", {"train.epochs": "3", "train.first_epochs": "3"}),
    "--precision": ("bf16", {"precision": "bf16"}),
    "--labeler": ("best", {"labeler": "best", "pseudo.transform": "root", "pseudo.networks": "2"}),
    "--label-acc": ("0.7", {"label_acc": "0.7"}),
    "--set": ("optim.lr=0.125", {"optim.lr": "0.125"}),
}
"""The flags of ``whorl run`` that set config values: an argument, and the values of the resolved config."""

REST = {
    "--config", "--data-dir", "--strict", "--workers", "--out", "--fresh", "--device", "--channels-last", "--compile",
    "--json", "--quiet", "--weights",
}  # fmt: skip
"""The other flags of ``whorl run``."""

BUDGET = {
    "--resize": ("16", {"data.resize": "16"}),
    "--per-class": ("12", {"data.per_class": "12"}),
    "--tasks": ("2", {"stream.tasks": "2"}),
    "--recipe": ("fast", {"recipe": "fast"}),
    "--precision": ("bf16", {"precision": "bf16"}),
    "--labeler": ("best", {"labeler": "best", "pseudo.transform": "root"}),
    "--set": ("optim.lr=0.125", {"optim.lr": "0.125"}),
}
"""The flags of ``whorl reproduce`` that set config values of all runs."""

FILTERS = {"--table", "--figure", "--data", "--method", "--step", "--labels", "--seeds"}
OTHERS = {"--data-dir", "--jobs", "--out", "--report", "--dry-run", "--device", "--compile", "--quiet"}


class Asked:
    """Stands in for the functions of a command that load data and train; keeps their arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared: tuple[Any, ...] = ()
        self.ran: tuple[Any, ...] = ()
        monkeypatch.setattr(sys.modules["whorl.cli.run"], "prepare", self._prepare)
        monkeypatch.setattr("whorl.experiment.run", self._run)
        monkeypatch.setattr("whorl.runs.changed.stored_as", lambda out, config, data: config)
        monkeypatch.setattr("whorl.runs.changed.other_data", lambda out, config, data: None)
        monkeypatch.setattr("whorl.papers.jobs.prepare", self._plan)
        monkeypatch.setattr(sys.modules["whorl.cli.reproduce"], "_loader", lambda folders, _: folders)

    def _prepare(self, asked: Tree, *rest: Any) -> tuple[ExperimentConfig, None]:
        self.prepared = (resolve(asked), *rest)
        return self.prepared[0], None

    def _run(self, *arguments: Any, backbone: object) -> None:
        self.ran = arguments
        raise WhorlError("stopped here")

    def _plan(self, *arguments: Any) -> None:
        self.prepared = arguments
        raise WhorlError("stopped here")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_the_tables_are_complete() -> None:
    assert set(RunFlags.flag_of().values()) == {*KEYS, *REST}
    assert set(ReproduceFlags.flag_of().values()) == {*BUDGET, *FILTERS, *OTHERS}


@pytest.mark.parametrize("flag", KEYS)
def test_a_flag_of_run_sets_its_key(flag: str, asked: Asked, call: Call) -> None:
    usual = ["run", "--data", "synthetic", "--step", "2"]
    call(*usual, code=2)
    before = flat(asked.ran[0].tree())
    value, expected = KEYS[flag]
    call(*usual, flag, value, code=2)
    after = flat(asked.ran[0].tree())
    assert {key: after[key] for key in expected} == expected
    assert all(before.get(key) != text for key, text in expected.items())


def test_the_other_flags_of_run(asked: Asked, call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("seed = 9\n")
    words = ["run", "--config", "c.toml", "--data-dir", "there", "--strict", "--workers", "5", "--out", "here"]
    words += ["--fresh", "--device", "cpu", "--no-channels-last", "--compile", "--json", "--quiet"]
    out, err = call(*words, code=2)
    config, data_dir, strict, workers = asked.prepared
    assert (config.seed, data_dir, strict, workers) == (9, Path("there"), True, 5)
    _, _, out_dir, runtime, _, fresh = asked.ran
    assert (out_dir, fresh) == (Path("here"), True)
    assert (runtime.device, runtime.channels_last, runtime.compile, runtime.workers) == ("cpu", False, True, 5)
    assert (out, err) == ("", "whorl: stopped here\n")


def test_flags_win_over_the_file_and_set_wins_over_flags(asked: Asked, call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("seed = 1\n[memory]\nquota = 5\nselect = 'random'\n")
    call("run", "--config", "c.toml", "--seed", "2", "--quota", "6", "--set", "memory.quota=7", code=2)
    config = asked.ran[0]
    assert (config.seed, config.memory.quota, config.memory.select) == (2, 7, "random")


@pytest.mark.parametrize("flag", BUDGET)
def test_a_flag_of_reproduce_sets_its_key_in_all_runs(flag: str, asked: Asked, call: Call) -> None:
    value, expected = BUDGET[flag]
    found = []
    for words in ([], [flag, value]):
        call("reproduce", "he2021", "--table", "2", "--step", "10", *words, code=2)
        paper, needs, recipe, budget, *_ = asked.prepared
        found.append([flat(config_of(paper, need.asked, recipe, budget).tree()) for need in needs])
    before, after = found
    assert len(after) == 14  # seven rows, on two data sets
    assert all({key: config[key] for key in expected} == expected for config in after)
    assert all(config.get(key) != text for config in before for key, text in expected.items())


def test_the_filters_of_reproduce(asked: Asked, call: Call) -> None:
    words = ["--table", "1", "--data", "cifar100", "--method", "wa", "--method", "icarl", "--step", "5", "--step", "10"]
    call("reproduce", "he2021", *words, "--labels", "given", "--seeds", "3", "--data-dir", "there", code=2)
    _, needs, _, _, seeds, folders, _, _ = asked.prepared
    found = {(n.cell.part, n.asked["method"]["name"], n.cell.column, n.asked["labels"]) for n in needs}
    assert found == {
        ("table 1", method, column, "given") for method in ("wa", "icarl") for column in ("cifar-5", "cifar-10")
    }
    assert (seeds, folders) == (range(3), {"cifar100": str(Path("there").resolve())})
    call("reproduce", "he2021", "--figure", "6", code=2)
    assert {need.cell.part for need in asked.prepared[1]} == {"figure 6"}
    assert asked.prepared[4] == range(5)


@pytest.mark.parametrize(
    ("command", "flags", "more"),
    [("run", RunFlags, {"--no-channels-last"}), ("reproduce", ReproduceFlags, set())],
)
def test_help_lists_every_flag(command: str, flags: type[Flags], more: set[str], call: Call) -> None:
    out, _ = call(command, "--help")
    listed = {flag for line in out.splitlines() for flag in re.findall(r"^  +(?:-h, )?(--[a-z-]+)", line)}
    listed |= {flag for line in out.splitlines() for flag in re.findall(r"^  +--[a-z-]+ / (--[a-z-]+)", line)}
    assert listed == {*flags.flag_of().values(), "--help", *more}


@pytest.mark.parametrize(
    ("message", "run", "reproduce"),
    [
        ("raise `memory.quota` to 30", "raise --quota to 30", "raise --set memory.quota=… to 30"),
        ("`stream.step=3` is odd", "--step 3 is odd", "--set stream.step=3 is odd"),
        ("set `data.per_class=9`", "set --per-class 9", "set --per-class 9"),
        ("set `optim.lr=0.1` or `labels=given`", "pass --set optim.lr=0.1 or --labels given", None),
        ("set `optim.lr`", "pass --set optim.lr=…", None),
        ("set `precision=fp32`", "set --precision fp32", None),
        ("the `net.head` of `method.name`", "the net.head of --method", "the net.head of method.name"),
        ("leave `classifier` out", "leave --classifier out", "leave classifier out"),
        ("start over with `fresh`", "start over with --fresh", "start over with --fresh of `whorl run`"),
        ("set `strict` to stop", "pass --strict to stop", "pass --strict of `whorl run` to stop"),
        ("check `data_dir` and `out`", "check --data-dir and --out", None),
        ("`whorl list` and `dim` of `3`", "`whorl list` and `dim` of `3`", None),
    ],
)
def test_messages_name_the_flags_of_their_command(message: str, run: str, reproduce: str | None) -> None:
    assert RunFlags.translate(message) == run
    assert ReproduceFlags.translate(message) == (reproduce or run)


def test_notices_name_flags_too(capsys: pytest.CaptureFixture[str]) -> None:
    RunFlags.notify("skipped 2 broken images; set `strict` to stop at the first one instead")
    ReproduceFlags.notify("`data.per_class=9` leaves 9 images; set `memory.quota=5`")
    assert capsys.readouterr().err.splitlines() == [
        "skipped 2 broken images; pass --strict to stop at the first one instead",
        "--per-class 9 leaves 9 images; pass --set memory.quota=5",
    ]
