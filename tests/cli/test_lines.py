"""What is printed: narrow terminals, characters that a terminal would obey, and streams that cannot be written."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Call
from madeup import asked, put
from terminal import ENV, in_terminal, python_path, whorl
from whorl.cli import lines
from whorl.errors import WhorlError, printable

CLI = Path(lines.__file__).parent
ODD = "[bold]a[/]\x1b[31m\u202eb\n\udcff"
ODD_SHOWN = r"[bold]a[/]\x1b[31m\u202eb\n\udcff"


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A terminal whose width the test sets."""
    found = [80]
    monkeypatch.setattr(lines, "room", lambda: found[0])
    return found


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_lines_break_between_words_and_long_words_after_hyphens(
    width: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    width[0] = 24
    lines.say("  Avg 0.500   Last 0.123   forgetting 0.250")
    lines.say("runs/digits-ours-pseudo-step2-seed0-0123456789")
    assert printed(capsys) == [
        "  Avg 0.500   Last 0.123",
        "  forgetting 0.250",
        "runs/digits-ours-pseudo-",
        "step2-seed0-0123456789",
    ]


def test_tables_drop_then_fold_then_become_blocks(width: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    def show(columns: int) -> list[str]:
        width[0] = columns
        lines.table(("run", "way", "one", "two"), [("abcd", "x", "0.1", "0.25")], left=("run",), drop=("way",))
        return printed(capsys)

    assert show(20) == ["run   way  one   two", "abcd    x  0.1  0.25"]
    assert show(19) == ["run   one   two", "abcd  0.1  0.25"]
    assert show(14) == ["run   way  one", "abcd    x  0.1", "run    two", "abcd  0.25"]
    assert show(7) == ["abcd", "  way x", "  one", "  0.1", "  two", "  0.25"]


def test_wide_characters_take_two_columns(width: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    lines.table(("name", "n"), [("日本", "1"), ("ab", "22")], left=("name",))
    assert printed(capsys) == ["name   n", "日本   1", "ab    22"]


def test_control_characters_and_markup_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(ODD) == ODD_SHOWN
    assert printable("Größe 日本 – ok") == "Größe 日本 – ok"
    lines.say(ODD)
    lines.tell(ODD)
    lines.table(("name",), [(ODD,)], left=("name",))
    out, err = capsys.readouterr()
    assert out.splitlines() == [ODD_SHOWN, "name", ODD_SHOWN]
    assert err == f"{ODD_SHOWN}\n"
    assert str(WhorlError("a\x1b[0m\r\u202eb")) == r"a\x1b[0m\r\u202eb"


def test_names_of_folders_and_runs_are_escaped_everywhere(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "[red]odd\x1b[2J"
    folder.mkdir(parents=True)
    for words in (["list"], ["show", "[red]odd"], ["report"]):
        out, err = call(*words, code=0 if words != ["show", "[red]odd"] else 2)
        assert "\x1b" not in out + err
        assert r"[red]odd\x1b[2J" in err
    for words in (["show", "\x1b[1m[b]"], ["run", "--config", "\x1b[b].toml"], ["run", "--method", "[b]\x1b\u202e"]):
        _, err = call(*words, code=2)
        assert r"\x1b" in err
        assert err.count("\n") == 1
        assert not {"\x1b", "\u202e"} & set(err)


def test_commands_print_through_one_module() -> None:
    """``print`` would obey escape characters in names, and cut lines anywhere."""
    for file in CLI.glob("*.py"):
        calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        printing = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]
        assert not printing or file.name == "lines.py", file.name


@pytest.mark.parametrize("columns", [80, 40])
def test_a_real_terminal(columns: int, tmp_path: Path) -> None:
    config = put(tmp_path / "runs", asked(), [0.9, 0.6, 0.4], nmi=[0.9, 0.5, 0.3], ari=[0.8, 0.4, 0.2], version="0.3.0")
    for words in (["list"], ["show", config.hash], ["methods", "wa"], ["compare", "cifar", "cifar"]):
        shown = in_terminal(*words, cwd=tmp_path, columns=columns)
        if words[0] != "compare":
            assert max(map(len, shown)) <= columns
        assert "…" not in "".join(shown)
    listed = in_terminal("list", cwd=tmp_path, columns=columns)
    assert any(config.hash in line for line in listed)
    assert any("0.500" in line for line in listed)


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="Linux only")
@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"], ["--help"], ["--version"]])
def test_a_full_stdout_is_one_line(words: list[str], tmp_path: Path) -> None:
    with open(FULL, "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "whorl", *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "whorl: cannot write the results: No space left on device\n")


@pytest.mark.parametrize(
    "words", [["methods"], ["methods", "--json"], ["--help"], ["--version"], ["list"]], ids=" ".join
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_ended_ends_the_command_quietly(words: list[str], unbuffered: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    reader, writer = os.pipe()
    os.close(reader)
    command, env = [sys.executable, "-m", "whorl", *words], {**ENV, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, env=env)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_closed_streams(tmp_path: Path) -> None:
    run = f'"{sys.executable}" -m whorl'
    done = subprocess.run(f"{run} run >&-", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "whorl: stdout is closed; use >/dev/null to print no results\n")
    done = subprocess.run(f"{run} --version <&- 2>&-", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout[:8]) == (0, "whorl 0.")
    done = subprocess.run(f"{run} nonsense 2>&-", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert not list(tmp_path.iterdir())


def test_bare_whorl_prints_its_help(call: Call) -> None:
    out, err = call()
    assert out.startswith("Usage: ")
    assert "reproduce" in out
    assert err == ""


@pytest.mark.parametrize("command", ["list", "methods", "doctor", "report", "demo", "reproduce", "run", "data", "show"])
def test_ctrl_c_says_stopped_in_every_command(command: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("runs.run.stored", "methods.method_names", "speed.measure", "papers.load", "known.check_asked"):
        monkeypatch.setattr(f"whorl.{name}", interrupted)
    monkeypatch.setattr("whorl.data.load", interrupted)
    monkeypatch.setattr("whorl.cli.runs.folders", interrupted)
    monkeypatch.setattr("whorl.cli.doctor.say", interrupted)
    Path("runs").mkdir()
    argument = {"reproduce": ["he2021"], "data": ["digits"], "show": ["x"]}
    out, err = call(command, *argument.get(command, []), code=130)
    assert (out, err) == ("", "whorl: stopped; repeat the command to resume\n")


@pytest.mark.parametrize("module", ["typer", "pydantic", "torch"])
def test_ctrl_c_during_imports_shows_no_traceback(module: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    env = {**ENV, "PYTHONPATH": python_path(site)}
    command = [sys.executable, "-m", "whorl", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 130
    assert done.stderr.startswith("whorl: stopped")
    assert done.stderr.count("\n") == 1


def test_code_in_the_current_folder_is_not_executed(tmp_path: Path) -> None:
    for name in ("random", "torch", "numpy", "pydantic", "json"):
        (tmp_path / f"{name}.py").write_text(f"open('{name}-was-executed', 'w')\n")
    words = ["reproduce", "he2021", "--data", "digits", "--table", "2", "--step", "50", "--seeds", "1", "--per-class"]
    words += ["12", "--set", "train.first_epochs=1", "--set", "train.epochs=1", "--jobs", "1"]
    assert "finished  " in whorl(*words, cwd=tmp_path).stdout
    assert not list(tmp_path.glob("*-was-executed"))


def test_out_of_memory_is_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("whorl.data.configured.load", fail)
        _, err = call("run", code=2)
        assert err == "whorl: there is not enough memory; use fewer or smaller images, or a smaller batch\n"


def test_the_variable_columns_sets_the_width_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines.room() is None
    monkeypatch.setenv("COLUMNS", "40")
    lines.say("word " * 20)
    assert all(len(line) <= 40 for line in printed(capsys))
