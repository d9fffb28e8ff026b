"""The command line in a separate process: output, signals, kills, and wrong input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import checks
from conftest import Call, Start
from terminal import whorl

SMALL = [
    "run", "--data", "synthetic", "--classes", "6", "--per-class", "20", "--resize", "8", "--step", "2",
    "--epochs", "2", "--set", "cluster.restarts=2",
]  # fmt: skip


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    steps = [{k: v for k, v in s.items() if k not in ("seconds", "images_per_second")} for s in document["steps"]]
    return {**document, "steps": steps}


def test_json_is_one_document_of_the_promised_form(call: Call) -> None:
    out, err = call(*SMALL, "--json")
    document = json.loads(out)
    assert list(document) == ["run", "config", "steps", "avg", "last"]
    keys = [
        "task",
        "classes",
        "acc",
        "acc_plain",
        "acc5",
        "nmi",
        "ari",
        "acc_fc",
        "acc_nme",
        "label_acc",
        "method",
        "seconds",
        "images_per_second",
    ]
    assert [list(step) for step in document["steps"]] == [keys] * 3
    assert [step["classes"] for step in document["steps"]] == [2, 4, 6]
    assert document["steps"][0]["label_acc"] is None
    assert 0.5 <= document["steps"][1]["label_acc"] <= 1
    assert document["avg"] == pytest.approx((document["steps"][1]["acc"] + document["steps"][2]["acc"]) / 2)
    assert document["last"] == document["steps"][2]["acc"] == document["steps"][2]["acc_fc"]
    assert document["config"]["method"] == {"name": "ours", "temperature": 2.0}
    assert "task 3/3  train  epoch 2/2  loss" in err
    out, err = call(*SMALL, "--json")
    assert json.loads(out) == document
    assert "epoch" not in err


def test_given_labels_and_no_memory_are_null(call: Call) -> None:
    out, err = call(*SMALL, "--json", "--quiet", "--labels", "given", "--method", "finetune")
    steps = json.loads(out)["steps"]
    assert [step["label_acc"] for step in steps] == [None] * 3
    assert [step["acc_nme"] for step in steps] == [None] * 3
    assert err == ""


def test_killed_at_any_moment_and_run_again(start: Start, tmp_path: Path) -> None:
    """SIGKILL at points spread over the run, again and again on one folder; the result is that of one quiet run."""
    long = [*SMALL, "--epochs", "30", "--set", "train.batch=16", "--json"]
    whole = json.loads(whorl(*long, "--out", "whole", cwd=tmp_path).stdout)
    # Each process counts from its own start. All together they train at most 68 of the 90 epochs, so none finishes.
    for halt in ("rename 1", "update 1", "update 20", "rename 9", "update 47", "rename 30"):
        process = start(*long, "--out", "killed", cwd=tmp_path, halt=halt)
        process.until_halted()
        assert process.send(signal.SIGKILL) == -signal.SIGKILL
    again = json.loads(whorl(*long, "--out", "killed", cwd=tmp_path).stdout)
    assert without_times({**again, "run": ""}) == without_times({**whole, "run": ""})
    assert checks.same(checks.stored(tmp_path / whole["run"]), checks.stored(tmp_path / again["run"]))
    sessions = json.loads((tmp_path / again["run"] / "scores.json").read_text())["provenance"]
    assert [task for session in sessions for task in session["tasks"]] == [1, 2, 3]
    assert len(sessions) >= 4  # those that saved an epoch: three that were killed, and the last one
    log = (tmp_path / again["run"] / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in log] == list(range(1, 31)) * 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in ImageNet's layout, which worker processes decode on demand."""
    root = tmp_path_factory.mktemp("inet")
    rng = np.random.default_rng(0)
    for part, count in (("train", 24), ("val", 4)):
        for wnid in ("n01440764", "n01443537", "n01484850", "n01491361"):
            (root / part / wnid).mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / part / wnid / f"{number}.JPEG")
    return root


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_while_workers_decode(how: signal.Signals, folders: Path, start: Start, tmp_path: Path) -> None:
    """Workers outlive a kill for a moment: they must not keep the lock. An interrupt must not get lost."""
    words = f"run --data imagenet --data-dir {folders} --resize 16 --net tiny --step 2 --epochs 300 --workers 2".split()
    words += ["--set", "train.batch=8"]
    process = start(*words, cwd=tmp_path, halt="update 2")
    process.until_halted()
    assert process.send(how) == (-9 if how == signal.SIGKILL else 130)
    start(*words, cwd=tmp_path, halt="update 2").until_halted()  # it trains, so it has the lock


def test_interrupt_says_how_to_resume(start: Start, tmp_path: Path) -> None:
    process = start(*SMALL, "--epochs", "200", cwd=tmp_path, halt="update 5")
    process.until_halted()
    assert process.send(signal.SIGINT) == 130
    assert re.search(r"whorl: stopped; to resume: whorl run --data synthetic .*--epochs 200", process.stderr)
    assert "Traceback" not in process.stderr


def test_two_processes_on_one_run(start: Start, call: Call, tmp_path: Path) -> None:
    process = start(*SMALL, cwd=tmp_path, halt="update 1")
    process.until_halted()
    _, err = call(*SMALL, code=2)
    assert f"another process (process {process.pid}) is working on" in err


def test_list_and_show(call: Call, tmp_path: Path) -> None:
    document = json.loads(call(*SMALL, "--json")[0])
    (tmp_path / "runs" / "foreign").mkdir()
    listed, left_out = call("list")
    name = Path(document["run"]).name
    assert f"{name}  ours    pseudo      3  {document['avg']:.3f}  {document['last']:.3f}  finished" in listed
    assert "left out: runs/foreign is not a run" in left_out
    assert f"Last {document['last']:.3f}" in call("show", name[-10:])[0]
    full = json.loads(call("show", document["run"], "--json")[0])
    assert full["steps"][2]["acc"] == document["last"]
    assert {"forgetting", "avg_with_first", "last_plain"} <= set(full)


def test_a_config_file_flags_and_set(call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('labels = "given"\n[optim]\nlr = 0.03\n[train]\nbatch = 8\n')
    words = "--tasks 1 --config c.toml --labels pseudo --set train.batch=10 --json"
    document = json.loads(call(*SMALL, *words.split())[0])
    config = document["config"]
    assert (config["optim"]["lr"], config["labels"], config["train"]["batch"]) == (0.03, "pseudo", 10)
    assert document["avg"] is None


BAD = [
    (["nonsense"], "No such command 'nonsense'"),
    (["run", "--stp", "3"], "No such option: --stp"),
    (["run", "--step", "three"], "Invalid value for '--step'"),
    (["run", "--data", "cifr100"], "unknown data set 'cifr100'; did you mean 'cifar100'?"),
    (["run", "--method", "our"], "unknown method 'our'; did you mean 'ours'?"),
    (["run", "--labels", "psudo"], "unknown labels value 'psudo'; did you mean 'pseudo'?"),
    (["run", "--recipe", "pap"], "unknown recipe 'pap'; did you mean 'paper'?"),
    (["run", "--net", "resnet3"], "unknown network 'resnet3'; did you mean 'resnet32'?"),
    (["run", "--select", "hering"], "unknown selector 'hering'; did you mean 'herding'?"),
    (["run", "--cluster", "kmean"], "unknown clusterer 'kmean'; did you mean 'kmeans'?"),
    (["run", "--set", "optim.rl=1"], "unknown config key 'optim.rl'; did you mean 'optim.lr'?"),
    (["run", "--set", "optin.lr=1"], "unknown config key 'optin'; did you mean 'optim'?"),
    (["run", "--set", "optim.lr=fast"], "optim.lr must be a number, not 'fast'"),
    (["run", "--set", "method=ours"], "method is a section of the config; set one of its keys"),
    (["run", "--set", "optim.momentum=0"], "config optim: nesterov needs a momentum above 0"),
    (["run", "--set", "train.batch=1"], "train.batch must be at least 2, not 1"),
    (
        ["run", "--method", "wa", "--set", "net.final_relu=false"],
        "pass --set net.final_relu=true, or --set method.clip",
    ),
    (["run", "--classifier", "nme", "--quota", "0"], "set --quota"),
    (["run", "--labels", "given", "--refresh", "2"], "--features and --refresh are about pseudo labels"),
    (["run", "--refresh", "2", "--features", "pca"], "cannot be combined with --features pca"),
    (["run", "--data", "vectors", "--step", "2"], "set --data-dir to its path"),
    (
        ["run", "--workers", "-1", "--data", "synthetic"],
        "Invalid value for '--workers'",
    ),
    (["run", "--subset", "S2"], "--subset is for imagenet100, not digits"),
    (["run", "--config", "missing.toml"], "cannot read the config file missing.toml"),
    (["run", "--step", "3"], "--step 3 does not divide the 10 classes; steps that do: 1, 2, 5, 10"),
    (["run", "--first", "4", "--step", "4"], "does not divide the 6 classes after the first task of 4"),
    (["run", "--tasks", "9"], "--tasks 9 is more than the 3 tasks that these classes make"),
    (["run", "--order", "C"], "unknown class order"),
    (["run", "--per-class", "1", "--step", "5", "--data", "digits", "--classes", "9"], "does not divide"),
    (["run", "--memory", "total", "--quota", "5"], "has no room for 10 classes; raise --quota"),
    (["run", "--method", "joint", "--classifier", "nme"], "--classifier nme needs exemplars"),
    (["run", "--device", "cuda:7"], "--device cuda:7 is not available here"),
    (["run", "--data", "cifar100", "--data-dir", "nowhere"], "nowhere"),
    (["run", "--data", "folder", "--data-dir", "nowhere", "--step", "2"], "nowhere"),
    (["run", "--data", "folder"], "--step N"),
    (["show", "nothing"], "no run 'nothing' in runs"),
    (["list"], "there is no folder runs"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_two(words: list[str], message: str, call: Call, tmp_path: Path) -> None:
    out, err = call(*words, code=2)
    assert out == ""
    assert message in err
    assert err.startswith("whorl: ")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _, err = call(*SMALL, "--out", "file/runs", code=2)
    assert err.startswith("whorl: cannot write to file/runs/")
    assert err.endswith("choose another --out\n")
    assert len(err.splitlines()) == 1


def test_version_and_help_are_quick_to_load(tmp_path: Path) -> None:
    assert whorl("--version", cwd=tmp_path).stdout.startswith("whorl 0.")
    code = "import sys, whorl.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_show_names_the_settings_that_were_changed(call: Call, tmp_path: Path) -> None:
    words = ["run", "--data", "digits", "--method", "finetune", "--epochs", "1", "--out", str(tmp_path)]
    call(*words, "--per-class", "5", "--quiet")
    out, _ = call("show", "digits", "--out", str(tmp_path))
    assert "changed: train.first_epochs 1, train.epochs 1, data.per_class 5" in out
