"""``whorl report`` and ``whorl compare`` as a user meets them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Call
from madeup import SMALL, asked, put


@pytest.fixture
def there(tmp_path: Path) -> list[str]:
    """Three runs in ``runs`` of the current folder, and an odd folder."""
    runs = tmp_path / "runs"
    names = [
        put(runs, asked(), [0.9, 0.6, 0.4], nmi=[0.9, 0.5, 0.3]).title,
        put(runs, asked(pseudo={"features": "pca"}), [0.9, 0.2, 0.1], recipe="fast", budget=SMALL).title,
        put(runs, asked("wa"), [], finished=False).title,
    ]
    (runs / "odd").mkdir()
    return names


def test_report_says_what_it_found_and_where_it_is(there: list[str], call: Call) -> None:
    out, err = call("report")
    assert out.splitlines() == [
        "6 of 237 cells filled from 2 finished runs",
        "  5 as in the paper",  # table 2, figure 3 at q 20, figure 6, and acc and nmi of figure 7; ari is not stored
        "  1 a: recipe fast, 200 images per class, images of 16×16, 3 tasks",
        "1 run unfinished",
        "The report is in report/report.html",
    ]
    assert err.startswith("left out: runs/odd is not a run")
    assert Path("report/report.html").is_file()
    assert "cifar100-wa-pseudo" in Path("report/report.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["report.md", "table-1.csv"])
def test_files_of_the_user_are_refused_and_kept(name: str, there: list[str], call: Call) -> None:
    Path("report").mkdir()
    Path("report", name).write_text("mine")
    _, err = call("report", code=2)
    assert err == f"whorl: report/{name} was not written by whorl; move it away, or choose another --out\n"
    assert [path.name for path in Path("report").iterdir()] == [name]
    Path("report", name).unlink()
    call("report")
    Path("report", name).write_text("edited")
    assert f"report/{name} was changed after whorl wrote it" in call("report", code=2)[1]
    Path("report", name).unlink()
    Path("report", name).mkdir()
    assert f"report/{name} is a folder" in call("report", code=2)[1]
    Path("compare.png").write_text("mine")
    _, err = call("compare", *there[:2], code=2)
    assert err == "whorl: compare.png was not written by whorl; move it away, or choose another --plot\n"
    assert Path("compare.png").read_text() == "mine"


def test_a_folder_whose_name_is_no_text_is_shown_as_escapes(there: list[str], call: Call) -> None:
    Path(os.fsdecode(b"runs/caf\xe9")).mkdir()
    call("report")
    assert "caf\\udce9" in Path("report/report.html").read_text(encoding="utf-8")


def test_report_as_json(there: list[str], call: Call) -> None:
    out, _ = call("report", "--runs", "runs", "--out", "there", "--paper", "he2021", "--json")
    document = json.loads(out)
    found = {(c["row"], c["step"], c["metric"]): c for c in document["tables"] if c["mean"] is not None}
    assert found["Ours", 10, "avg"]["mean"] == 0.5
    assert found["Ours", 10, "avg"]["runs"] == [there[0]]
    assert found["PCA", 10, "last"]["difference"] == pytest.approx(0.1 - 0.061)
    assert document["settings"] == {
        "paper": "as in the paper",
        "a": "recipe fast, 200 images per class, images of 16×16, 3 tasks",
    }
    assert document["unfinished"] == [there[2]]
    assert Path("there/report.html").is_file()


def test_compare_prints_differences_scores_and_draws(there: list[str], call: Call) -> None:
    out, err = call("compare", there[0], there[1][-10:])
    words = [line.split() for line in out.splitlines()]
    assert words[:2] == [["1", there[0]], ["2", there[1]]]
    assert ["pseudo.features", "current", "pca"] in words
    assert ["data.resize", "–", "16"] in words
    assert ["2", "0.600", "0.200"] in words
    assert ["Avg", "(tasks", "2", "on)", "0.500", "0.150"] in words
    assert ["Last", "0.400", "0.100"] in words
    assert ["forgetting", "–", "–"] in words
    assert words[-1] == ["The", "curves", "are", "in", "compare.png"]
    assert Path("compare.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert err == ""


def test_compare_and_show_print_the_versions(there: list[str], call: Call) -> None:
    new = put(Path("runs"), asked(), [0.9, 0.5], seed=7, version="0.2.0").title
    out, _ = call("compare", there[0], new)
    lines = out.splitlines()
    assert lines[2:5] == ["computed by different versions of whorl:", "1  not recorded", "2  0.2.0"]
    assert "versions" not in call("compare", there[0], there[1])[0]
    out, _ = call("show", new)
    assert out.splitlines()[-1] == (
        "tasks 1, 2: 2026-01-02T03:04:05Z to 2026-01-02T03:14:05Z, "
        "whorl 0.2.0, torch 2.4.0, Python 3.11.2, cpu, 2 threads"
    )
    old = "tasks 1, 2, 3: computed by a version of whorl that did not record it"
    assert call("show", there[0])[0].splitlines()[-1] == old
    document = json.loads(call("show", new, "--json")[0])
    assert [(part["whorl"], part["tasks"]) for part in document["provenance"]] == [("0.2.0", [1, 2])]
    assert (document["avg"], document["finished"]) == (0.5, True)


def test_a_run_of_two_versions_says_so(there: list[str], call: Call) -> None:
    """Task 1 is older than provenance, task 2 was begun by one version and finished by another."""
    new = put(Path("runs"), asked(), [0.9, 0.5], seed=7, version="0.3.0").title
    path = Path("runs") / new / "scores.json"
    document = json.loads(path.read_text())
    (last,) = document["provenance"]
    begun = {**last, "whorl": "0.2.0", "commit": "abc", "threads": 1, "tasks": []}
    document["provenance"] = [begun, {**last, "tasks": [2]}]
    path.write_text(json.dumps(document))
    lines = call("show", new)[0].splitlines()[-3:]
    assert [line.split(":")[0] for line in lines] == ["task 1", "part of a task", "task 2"]
    assert lines[1].endswith("whorl 0.2.0 (abc), torch 2.4.0, Python 3.11.2, cpu, 1 thread")
    assert "2  0.2.0 (abc), 0.3.0 and not recorded" in call("compare", there[0], new)[0]


def test_compare_cuts_no_number_where_the_terminal_is_narrow(
    there: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [put(Path("runs"), asked(), [0.9, 0.5], seed).title for seed in range(1, 9)]
    monkeypatch.setattr("whorl.cli.lines.room", lambda: 40)
    out, _ = call("compare", *there[:2], *more)
    words = [line.split() for line in out.splitlines()]
    assert "…" not in out
    heads = [line[1:] for line in words if line[:1] == ["task"]]
    assert heads == [["1", "2", "3"], ["4", "5", "6"], ["7", "8", "9"], ["10"]]
    lasts = [line[1:] for line in words if line[:1] == ["Last"]]
    assert lasts == [["0.400", "0.100", "0.500"], *[["0.500"] * 3] * 2, ["0.500"]]


def test_show_and_list_cut_no_number_where_the_terminal_is_narrow(
    there: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = call("list")[0].splitlines()
    assert wide[0].split() == ["run", "method", "labels", "tasks", "avg", "last", "state"]
    monkeypatch.setattr("whorl.cli.lines.room", lambda: 80)
    narrow = call("list")[0].splitlines()
    assert narrow[0].split() == ["run", "tasks", "avg", "last", "state"]
    assert [line.split() for line in narrow[1:]] == [[*line.split()[:1], *line.split()[3:]] for line in wide[1:]]
    monkeypatch.setattr("whorl.cli.lines.room", lambda: 40)
    lines = call("list")[0].splitlines()
    assert lines[:5] == [
        "cifar100-ours-pseudo-step10-seed0-",
        "054b1abfce",
        "  method ours  labels pseudo  tasks 3",
        "  avg 0.500  last 0.400  state finished",
        "cifar100-ours-pseudo-step10-seed0-",
    ]
    monkeypatch.setattr("whorl.cli.lines.room", lambda: 20)
    shown = call("show", there[0])[0].splitlines()
    start = shown.index("task  classes    acc")
    assert [line.split() for line in shown[start : start + 12]] == [
        ["task", "classes", "acc"], ["1", "10", "0.900"], ["2", "20", "0.600"], ["3", "30", "0.400"],
        ["task", "nmi", "seconds"], ["1", "0.900", "1.5"], ["2", "0.500", "1.5"], ["3", "0.300", "1.5"],
        ["task", "images/s"], ["1", "–"], ["2", "–"], ["3", "–"],
    ]  # fmt: skip


def test_compare_as_json_and_svg(there: list[str], call: Call) -> None:
    out, _ = call("compare", there[0], there[1], "--score", "nmi", "--plot", "curves.svg", "--json")
    document = json.loads(out)
    assert document["after"] == {"1": [0.9, None], "2": [0.5, None], "3": [0.3, None]}
    assert (document["avg"], document["last"]) == ([0.4, None], [0.3, None])
    assert document["plot"] == "curves.svg"
    assert ElementTree.parse("curves.svg").getroot().tag.endswith("svg")


BAD = [
    (["report", "--runs", "nowhere"], "there is no folder nowhere"),
    (["report", "--out", "runs/odd/file"], "runs/odd/file is a file; set --out to a folder"),
    (["report", "--paper", "he2012"], "did you mean 'he2021'"),
    (["compare", "cifar100-ours-pseudo-step10-seed0"], "could be"),
    (["compare", "ONE"], "at least two runs"),
    (["compare", "ONE", "ONE"], "named twice"),
    (["compare", "ONE", "nothing"], "no run 'nothing' in runs"),
    (["compare", "ONE", "cifar100-wa"], "no finished task"),
    (["compare", "ONE", "TWO", "--plot", "curves.pdf"], "must end in .png or .svg"),
    (["compare", "ONE", "TWO", "--plot", "no/curves.png"], "there is no folder no"),
    (["compare", "ONE", "TWO", "--score", "precision"], "unknown score"),
    (["compare", "ONE", "TWO", "--score", "acc_nme"], "none of these runs has the score acc_nme"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_is_one_line_and_exit_2(words: list[str], said: str, there: list[str], call: Call) -> None:
    Path("runs/odd/file").write_text("")
    out, err = call(*({"ONE": there[0], "TWO": there[1]}.get(word, word) for word in words), code=2)
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
