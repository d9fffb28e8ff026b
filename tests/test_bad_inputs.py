"""Wrong input to every command: exit code 2, one line on stderr, and nothing on disk changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Call
from madeup import asked, put
from whorl import known
from whorl.cli.reproduce import NOT_DOWNLOADED
from whorl.errors import WhorlError
from whorl.tree import parse_override, read_toml

DIGITS = "9" * 5000
DEEP = "[" * 4000 + "]" * 4000

SET = {
    "optim.learning_rate=0.1": "did you mean 'optim.lr'?",
    "learning_rate=0.1": "did you mean 'optim.lr'?",
    "lr=0.1": "did you mean 'optim.lr'?",
    "train.batch_size=8": "did you mean 'train.batch'?",
    "batch_size=8": "did you mean 'train.batch'?",
    "epochs=8": "did you mean 'train.epochs'?",
    "train.num_epochs=8": "did you mean 'train.epochs'?",
    "random_state=8": "did you mean 'seed'?",
    "momentum=0.5": "did you mean 'optim.momentum'?",
    "cluster.n_init=8": "did you mean 'cluster.restarts'?",
    "optim.rl=1": "did you mean 'optim.lr'?",
    "train.zzz=1": "known: train.augment, train.batch, train.contrast, train.epochs",
    "zzz=1": "unknown config key 'zzz'; known: classifier",
    "train.epochs=true": "--epochs must be a number, not true",
    "train.batch=true": "train.batch must be a number, not true",
    "optim.lr=true": "optim.lr must be a number, not true",
    "seed=false": "--seed must be a number, not false",
    "method.temperature=true": "method.temperature must be a number, not true",
    "optim.milestones=[true]": "optim.milestones must be a number, not [true]\n",
    "optim.milestones=[1, 1]": "optim.milestones must name each epoch once, not [1, 1]\n",
    "optim.first_milestones=[1, 2, 2]": "optim.first_milestones must name each epoch once, not [1, 2, 2]\n",
    "optim.lr=[true, {a = false}]": "optim.lr must be a number, not [true, {a = false}]\n",
    "seed=1979-05-27": "--seed must be a whole number, not 1979-05-27\n",
    "seed=1979-05-27T07:32:00Z": "--seed must be a whole number, not 1979-05-27T07:32:00+00:00\n",
    "seed=[07:32:00]": "--seed must be a whole number, not [07:32:00]\n",
    "labels=[true]": "unknown labels value '[true]'",
    "recipe={a = true}": "--recipe must be text, not {a = true}\n",
    "optim.milestones=[3, 2]": "optim.milestones must be epochs in ascending order, not [3, 2]",
    "optim.first_milestones=[-1, 2]": "must be epochs in ascending order",
    "optim.milestones=7": "optim.milestones must be a list, not 7",
    "train.epochs=1.5": "--epochs must be a whole number, not 1.5",
    "train.epochs=-1": "--epochs must be at least 0, not -1",
    f"train.epochs={10**18}": "--epochs must be at most 1000000",
    "train.batch=0": "train.batch must be at least 2, not 0",
    f"train.batch={10**30}": "train.batch must be at most",
    f"seed={10**30}": "--seed must be at most 9223372036854775807",
    f"seed={DIGITS}": "--seed must be a whole number",
    f"seed=0x{'f' * 9000}": "--seed must be at most 9223372036854775807",
    "optim.lr=1e400": "optim.lr must be a finite number, not inf",
    "optim.lr=nan": "optim.lr must be a finite number, not nan",
    "optim.lr=-inf": "optim.lr must be a finite number, not -inf",
    "optim.lr=-0.1": "optim.lr must be above 0, not -0.1",
    "optim.lr=fast": "optim.lr must be a number, not 'fast'",
    f"optim.lr={DIGITS}": "optim.lr",
    f"optim.lr={DEEP}": "the value of optim.lr is nested too deeply",
    "a." * 5000 + "b=1": "must have the form section.key=value",
    "optim.momentum=1": "optim.momentum must be below 1, not 1",
    "optim.nesterov=maybe": "optim.nesterov must be true or false",
    "optim={lr = true}": "optim.lr must be a number",
    "optim=3": "optim is a section of the config",
    "train=3": "train is a section of the config",
    "data.resize=4": "--resize must be at least 8, not 4",
    "data.resize=100000": "--resize must be at most 16384",
    "data.resize=big": "--resize must be a whole number",
    f"data.classes={10**9}": "--classes must be at most 100000",
    "stream.step=0": "--step must be at least 1",
    "stream.order=5": "--order must be text",
    "memory.quota=-1": "--quota must be at least 0",
    "memory.policy=all": "unknown memory.policy value 'all'",
    "labels=true": "unknown labels value 'true'",
    "recipe=[1]": "--recipe must be text",
    "net.arch=": "unknown network ''",
    "train.augment=mixup": "unknown augmentation 'mixup'",
    "net.head=[bold]": "unknown head '[bold]'",
    "=3": "must have the form section.key=value",
    "seed": "must have the form section.key=value",
    "..=3": "must have the form section.key=value",
    "\x1b[2J=3": r"\x1b[2J",
}
"""Values of ``--set``, and a part of the message."""

COMMANDS: list[tuple[list[str], str]] = [
    (["nonsense"], "No such command 'nonsense'"),
    (["--nonsense"], "No such option: --nonsense"),
    (["run", "extra"], "unexpected extra argument"),
    (["run", "--step"], "requires an argument"),
    (["run", "--seed", DIGITS], "Invalid value for '--seed'"),
    (["run", "--seed", "true"], "Invalid value for '--seed'"),
    (["run", "--seed", "1.5"], "Invalid value for '--seed'"),
    (["run", "--seed", "-1"], "--seed must be at least 0, not -1"),
    (["run", "--set", "optim.lr=1e308"], "optim.lr must be at most 1e+30"),
    (["run", "--set", "optim.weight_decay=1e39"], "must be at most 1e+30"),
    (["run", "--method", "bic", "--set", "method.correction_lr=1e308"], "must be at most 1e+30"),
    (["run", "--labels", "corrupted"], "--labels corrupted and --label-acc need each other"),
    (["run", "--label-acc", "0.5"], "need each other"),
    (["run", "--labels", "corrupted", "--label-acc", "1.5"], "--label-acc"),
    (["run", "--labeler", "bset"], "best"),
    (["run", "--labeler", "best", "--labels", "given"], "about pseudo labels"),
    (["run", "--set", "train.sizes=[0.5]"], "the last of them 1"),
    (["run", "--set", "train.sizes=[1, 0.5]"], "ascending"),
    (["run", "--set", "train.sizes=[0, 1]"], "train.sizes"),
    (["run", "--set", "train.rotations=maybe"], "train.rotations"),
    (["run", "--epochs", str(10**18)], "--epochs"),
    (["run", "--epochs", "-1"], "--epochs"),
    (["run", "--workers", "100000"], "--workers"),
    (["run", "--tasks", "9"], "--tasks 9 is more than the 3 tasks that these classes make"),
    (["run", "--data", "cifar100", "--tasks", "11"], "--tasks 11 is more than the 10 tasks"),
    (["run", "--tasks", "0"], "--tasks must be at least 1, not 0"),
    (["run", "--resize", "-8"], "--resize must be at least 8"),
    (["run", "--method", ""], "unknown method ''"),
    (["run", "--method", "zzz"], "unknown method 'zzz'; known: bic"),
    (["run", "--set", "method.zzz=1"], "unknown config key 'method.zzz'; known: method.temperature\n"),
    (["run", "--method", "finetune", "--set", "method.zzz=1"], "unknown config key 'method.zzz'; known: none\n"),
    (["run", "--method", "wa", "--set", "method.nrm=1"], "did you mean 'method.norm'?"),
    (["run", "--config", "option.toml", "--method", "lwf"], "unknown config key 'method.norm'"),
    (["reproduce", "he2021", "--set", "method.temprature=1"], "did you mean 'method.temperature'?"),
    (["run", "--data", "[bold]x"], "unknown data set '[bold]x'"),
    (["run", "--cluster", "DBSCAN"], "unknown clusterer 'DBSCAN'"),
    (["run", "--device", "gpu"], "--device gpu is not available here"),
    (["run", "--device", "cpu:x"], "--device cpu:x is not a device"),
    (["run", "--device", "cpu:7"], "--device cpu:7 is not available here"),
    (["run", "--order", "folder"], "cannot read the class order folder"),
    (["run", "--config", "folder"], "cannot read the config file folder: Is a directory"),
    (["run", "--config", "missing.toml"], "cannot read the config file missing.toml: No such file"),
    (["run", "--config", "latin.toml"], "latin.toml: it is not UTF-8 text"),
    (["run", "--config", "broken.toml"], "broken.toml is not valid TOML"),
    (["run", "--config", "deep.toml"], "deep.toml is nested too deeply"),
    (["run", "--config", "dotted.toml"], "dotted.toml is nested too deeply"),
    (["run", "--config", "digits.toml"], "digits.toml is not valid TOML"),
    (["run", "--config", "true.toml"], "true.toml: train.batch must be a number, not true"),
    (["run", "--config", "twice.toml"], "twice.toml: optim.milestones must name each epoch once, not [1, 1]"),
    (["run", "--config", "key.toml"], "key.toml: unknown config key 'optim.learning_rate'; did you mean 'optim.lr'?"),
    (["run", "--config", "name.toml"], "name.toml: unknown method 'our'; did you mean 'ours'?"),
    (["run", "--data", "folder", "--step", "2", "--data-dir", "file"], "file is not a folder"),
    (["run", "--data", "vectors", "--step", "2", "--data-dir", "folder"], "folder is not a file"),
    (["run", "--data", "vectors", "--step", "2", "--data-dir", "file"], "file is not an npz file"),
    (["run", "--data", "cifar100", "--data-dir", "file"], "file"),
    (["run", "--out", "file"], "cannot write to file/"),
    (["run", "--data", "hub:"], "--step N"),
    (["list", "--out", "file"], "there is no folder file"),
    (["list", "--out", "missing"], "there is no folder missing"),
    (["list", "extra"], "unexpected extra argument"),
    (["list", "--jsn"], "No such option: --jsn"),
    (["show"], "Missing argument"),
    (["show", ""], "no run ''"),
    (["show", "nothing"], "no run 'nothing' in runs"),
    (["show", "folder"], "no run 'folder' in runs"),
    (["show", "cifar100"], "could be"),
    (["show", "x", "--out", "file"], "no run 'x' in file"),
    (["run", "--set", "optim.lr=0.1\nseed=3"], "sets several keys; pass them one by one"),
    (["show", "empty-config"], "config.toml of run runs/empty-config: recipe is missing"),
    (["show", "true-config"], "config.toml of run runs/true-config: train.batch must be a number, not true"),
    (["compare"], "Missing argument"),
    (["compare", "ONE"], "at least two runs"),
    (["compare", "ONE", "ONE"], "named twice"),
    (["compare", "ONE", "TWO", "--score", "f1"], "unknown score 'f1'"),
    (["compare", "ONE", "TWO", "--plot", "x.jpg"], "--plot x.jpg must end in .png or .svg"),
    (["compare", "ONE", "TWO", "--plot", "missing/x.png"], "there is no folder missing"),
    (["compare", "ONE", "nothing"], "no run 'nothing' in runs"),
    (["report", "--runs", "missing"], "there is no folder missing"),
    (["report", "--runs", "file"], "there is no folder file"),
    (["report", "--paper", "he2012"], "did you mean 'he2021'?"),
    (["report", "--paper", "zzz"], "unknown paper 'zzz'; known: he2021"),
    (["report", "--out", "file"], "file is a file; set --out to a folder"),
    (["reproduce"], "Missing argument"),
    (["reproduce", "zzz"], "unknown paper 'zzz'"),
    (["reproduce", "he2021", "--seeds", "1000000"], "1000"),
    (["reproduce", "he2021", "--seeds", "0"], "--seeds"),
    (["reproduce", "he2021", "--jobs", "1000000"], "--jobs"),
    (["reproduce", "he2021", "--table", "9"], "has no table 9"),
    (["reproduce", "he2021", "--data-dir", "nope=x"], "unknown data set of --data-dir 'nope'"),
    (["reproduce", "he2021", "--step", str(10**25)], "he2021 has no step"),
    (["reproduce", "he2021", "--method", "our"], "did you mean 'ours'?"),
    (["reproduce", "he2021", "--data", "mnist"], "he2021 has no data set 'mnist'"),
    (["reproduce", "he2021", "--labels", "none"], "unknown labels 'none'"),
    (["reproduce", "he2021", "--recipe", "slow"], "unknown recipe 'slow'"),
    (["reproduce", "he2021", "--set", "train.batch=true"], "train.batch must be a number, not true"),
    (["reproduce", "he2021", "--set", "optim.learning_rate=1"], "did you mean 'optim.lr'?"),
    (["reproduce", "he2021", "--data", "digits", "--tasks", "-1"], "--tasks must be at least 1"),
    (["reproduce", "he2021", "--data", "digits", "--table", "2", "--out", "file"], "file is a file; set --out"),
    (["methods", "zzz"], "unknown method 'zzz'"),
    (["methods", "our"], "did you mean 'ours'?"),
    (["methods", "ours", "wa"], "unexpected extra argument"),
    (["doctor", "extra"], "unexpected extra argument"),
    (["doctor", "--fast"], "No such option: --fast"),
    (["data"], "Missing argument"),
    (["data", "cifr100"], "did you mean 'cifar100'?"),
    (["data", "zzz"], "unknown data set 'zzz'"),
    (["data", "folder", "--data-dir", "file"], "file is not a folder"),
    (["data", "folder", "--data-dir", "missing"], "missing"),
    (["data", "digits", "--resize", "0"], "--resize"),
    (["data", "digits", "--resize", str(10**20)], "--resize"),
    (["data", "digits", "--workers", "-1"], "--workers"),
    (["demo", "--seed", "-1"], "--seed must be at least 0, not -1"),
    (["demo", "--seed", str(10**30)], "--seed must be at most"),
    (["demo", "--seed", "x"], "Invalid value for '--seed'"),
    (["demo", "extra"], "unexpected extra argument"),
]  # fmt: skip

ALL = [(["run", "--set", value], message) for value, message in SET.items()] + COMMANDS


def _id(words: list[str]) -> str:
    return ascii(" ".join(words))[1:60]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, and with files that are no configs."""
    root = tmp_path_factory.mktemp("place")
    for seed in range(2):
        put(root / "runs", asked(), [0.9, 0.6], seed)
    for name, text in (("empty-config", ""), ("true-config", "[train]\nbatch = true\n")):
        (root / "runs" / name).mkdir()
        full = (root / "runs" / _first(root) / "config.toml").read_text() if text else ""
        (root / "runs" / name / "config.toml").write_text(full.replace("batch = 128", "batch = true"))
    (root / "folder").mkdir()
    (root / "file").write_text("a file\n")
    texts = {
        "broken": "a = [", "deep": f"a = {DEEP}", "dotted": "a." * 4000 + "b = 1", "digits": f"seed = {DIGITS}",
        "true": "[train]\nbatch = true", "key": "[optim]\nlearning_rate = 1", "name": "[method]\nname = 'our'",
        "option": "[method]\nnorm = 1", "twice": "[optim]\nmilestones = [1, 1]",
    }  # fmt: skip
    for name, text in texts.items():
        (root / f"{name}.toml").write_text(text)
    (root / "latin.toml").write_bytes(b"a = '\xff'")
    return root


def _first(root: Path) -> str:
    return sorted(path.name for path in (root / "runs").glob("cifar100*"))[0]


def _snapshot(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be trained, timed or downloaded."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("work was started for a wrong command")

    for name in ("engine.Learner.learn", "cli.gridplan.measure", "data.download.fetch", "grid.pool.Pool.start"):
        monkeypatch.setattr(f"whorl.{name}", refuse)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(("words", "message"), ALL, ids=[_id(words) for words, _ in ALL])
def test_wrong_input(words: list[str], message: str, call: Call, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    runs = sorted(path.name for path in (place / "runs").glob("cifar100*"))
    names = {"ONE": runs[0], "TWO": runs[1]}
    if words[:1] == ["reproduce"] and "--out" in words:
        monkeypatch.setattr("whorl.cli.gridplan.measure", lambda *_: (1e6, 1e6))  # printed with the plan
    before = _snapshot(place)
    _, err = call(*(names.get(word, word) for word in words), code=2)
    assert err.startswith("whorl: ")
    assert err.count("\n") == 1
    assert message in err
    assert len(err) < 1000
    assert "\x1b" not in err
    assert _snapshot(place) == before


def test_the_battery_is_large_and_covers_all_commands() -> None:
    assert len(ALL) >= 100
    commands = {"run", "list", "show", "compare", "report", "reproduce", "methods", "doctor", "data", "demo"}
    assert commands <= {words[0] for words, _ in ALL}


HEAVY = ("torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "PIL")
TYPOS = [
    ["nonsense"], ["--nonsense"], ["run", "--stp", "3"], ["run", "--step", "x"], ["run", "--method", "our"],
    ["run", "--data", "cifr100"], ["run", "--cluster", "kmean"], ["run", "--net", "resnet3"],
    ["run", "--recipe", "pap"], ["run", "--select", "hering"], ["run", "--features", "pcs"], ["run", "--order", "C"],
    ["run", "--labels", "psudo"], ["run", "--set", "optim.learning_rate=1"], ["run", "--set", "train.epochs=true"],
    ["run", "--set", "method.zzz=1"], ["reproduce", "he2021", "--set", "method.zzz=1"],
    ["run", "--set", "net.head=x"], ["run", "--config", "missing.toml"], ["list", "--out", "missing"],
    ["show", "nothing"], ["compare", "a", "b"], ["compare", "a", "b", "--score", "f1"], ["compare", "--plot", "a.jpg"],
    ["report", "--paper", "he2012"], ["methods", "our"], ["data", "cifr100"], ["demo", "--seed", "-1"], ["doctor", "x"],
    ["reproduce", "he2012"], ["reproduce", "he2021", "--set", "optim.rl=1"], ["reproduce", "he2021", "--method", "our"],
    ["reproduce", "he2021", "--table", "9"], ["reproduce", "he2021", "--seeds", "1000000"],
]  # fmt: skip
PROBE = f"""
import json, sys
from whorl.__main__ import main
found = []
for words in json.loads(sys.stdin.read()):
    sys.argv = ["whorl", *words]
    try:
        main()
    except SystemExit as end:
        found.append([end.code, [name for name in {HEAVY!r} if name in sys.modules]])
print(json.dumps(found))
"""


def test_a_typo_is_refused_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, cwd=tmp_path, input=json.dumps(TYPOS), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[2, []]] * len(TYPOS)
    assert len(done.stderr.splitlines()) == len(TYPOS)


def test_the_light_lists_name_what_is_registered() -> None:
    from whorl.cluster import CLUSTERERS
    from whorl.data import LOADERS
    from whorl.data.inputs import VIEWS
    from whorl.data.order import NAMED
    from whorl.labels.extractors import EXTRACTORS
    from whorl.memory.select import SELECTORS
    from whorl.methods import METHODS
    from whorl.nets.backbone import BACKBONES
    from whorl.nets.heads import HEADS
    from whorl.recipes import LABELERS, RECIPES
    from whorl.scores import NAMES

    registered: dict[str, Iterable[str]] = {
        "method.name": METHODS, "data.name": LOADERS, "cluster.name": CLUSTERERS, "net.arch": BACKBONES,
        "net.head": HEADS, "train.augment": ["auto", *VIEWS], "pseudo.features": EXTRACTORS,
        "memory.select": SELECTORS, "recipe": RECIPES, "labeler": LABELERS, "pseudo.arch": ["auto", *BACKBONES],
    }  # fmt: skip
    assert {key: set(one.names) for key, one in known.KNOWN.items()} == {k: set(v) for k, v in registered.items()}
    assert {name: tuple(method.model_fields) for name, method in METHODS.items()} == known.OPTIONS
    assert set(known.SCORES) == set(NAMES)
    assert set(known.ORDERS) == set(NAMED)


def test_a_dry_run_downloads_nothing(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a download was started")

    for name in ("cifar.fetch", "download.fetch"):
        monkeypatch.setattr(f"whorl.data.{name}", refuse)
    monkeypatch.setattr("whorl.data.download.cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("whorl.cli.gridplan.measure", lambda *_: (1e6, 1e6))
    out, err = call("reproduce", "he2021", "--data", "cifar100", "--table", "2", "--dry-run")
    assert "data      cifar100 (32×32)\n" in out
    assert err == f"{NOT_DOWNLOADED}\n"
    assert not list(tmp_path.iterdir())


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert read_toml(tmp_path / "c.toml") == {"seed": 3}


KEYS = [
    "seed", "optim.lr", "optim.milestones", "train.epochs", "data.resize", "stream.order", "method.temperature",
    "memory.policy", "net", "labels",
]  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.recursive(st.sampled_from(["1", "true", "'x'", "nan"]), lambda s: st.lists(s).map(lambda v: f"[{','.join(v)}]")),
)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(key=st.one_of(st.sampled_from(KEYS), st.text(max_size=20)), value=VALUES)
def test_any_value_of_set_is_accepted_or_refused_in_one_line(key: str, value: str) -> None:
    message = "accepted"
    try:
        known.check_asked(parse_override(f"{key}={value}"))
    except WhorlError as error:
        message = str(error)
    assert message
    assert message.isprintable()
