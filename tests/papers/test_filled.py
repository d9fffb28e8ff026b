"""Which run fills which cell, and in which setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from madeup import HE, SMALL, asked, put
from whorl.config import write_toml
from whorl.papers.cells import Cell, Place, Setting, cells, config_of
from whorl.papers.stored import Done, Store, read
from whorl.papers.filled import Filled, fill

PAPER = Setting(None, "paper")


def filled(runs: Path) -> Filled:
    return fill(HE, read(runs))


def test_a_run_fills_its_cell_in_its_setting_and_no_other(tmp_path: Path) -> None:
    put(tmp_path, asked(), [0.9, 0.5], seed=3)
    put(tmp_path, asked(pseudo={"features": "pca"}), [0.9, 0.4], recipe="fast", budget=SMALL)
    found = filled(tmp_path)
    small = Setting(None, "fast", (("data.per_class", "200"), ("data.resize", "16"), ("stream.tasks", "3")))
    assert found.settings == (PAPER, small)
    assert [found.mark(setting) for setting in found.settings] == ["", "a"]
    ours = found.group(asked(), PAPER)
    assert ours is not None
    assert list(ours.runs) == [3]
    assert found.group(asked(), small) is None
    assert found.group(asked(column="cifar-20"), PAPER) is None
    assert found.group(asked(pseudo={"features": "pca"}), PAPER) is None
    assert found.group(asked(pseudo={"features": "pca"}), small) is not None
    assert found.other == []


def test_cells_that_ask_for_the_same_share_their_runs(tmp_path: Path) -> None:
    put(tmp_path, asked(), [0.9, 0.5])
    found = filled(tmp_path)
    same = [found.group(tree, PAPER) for tree in (asked(), asked(cluster={"name": "kmeans"}))]
    assert same[0] is same[1]
    assert found.group(asked(memory={"quota": 20, "select": "herding"}), PAPER) is not None


def test_the_letters_go_to_the_settings_with_most_cells_first_and_stand_ins_last(tmp_path: Path) -> None:
    put(tmp_path, asked(stand_in="digits"), [0.9, 0.5], recipe="demo")
    put(tmp_path, asked(), [0.9, 0.5], budget={"net": {"arch": "resnet18"}})
    put(tmp_path, asked(), [0.9, 0.5], recipe="fast")
    put(tmp_path, asked(pseudo={"features": "pca"}), [0.9, 0.5], recipe="fast")
    found = filled(tmp_path)
    assert [str(setting) for setting in found.settings] == [
        "as in the paper", "recipe fast", "net resnet18", "data digits, recipe demo",
    ]  # fmt: skip
    assert "".join(map(found.mark, found.settings)) == "abc"


def test_a_method_that_has_no_epochs_stands_beside_those_whose_epochs_were_set(tmp_path: Path) -> None:
    budget = {"train": {"epochs": 5}}
    put(tmp_path, asked("wa", labels="given"), [0.9, 0.5], budget=budget)
    put(tmp_path, asked("ilio", labels="given"), [0.9, 0.5], budget=budget)
    found = filled(tmp_path)
    five = Setting(None, "paper", (("train.epochs", "5"),))
    assert set(found.settings) == {PAPER, five}
    assert found.group(asked("ilio", labels="given"), five) is not None
    assert found.group(asked("ilio", labels="given"), PAPER) is not None  # it is the paper's own as well


def test_a_value_that_a_recipe_has_anyway_is_no_reason_to_stand_apart(tmp_path: Path) -> None:
    budget = {"train": {"epochs": 120}}  # 120 is what `ours` has
    put(tmp_path, asked("wa", labels="given"), [0.9, 0.5], recipe="fast", budget={"train": {"epochs": 12, "batch": 32}})
    put(tmp_path, asked("wa", labels="pseudo"), [0.9, 0.5], budget=budget)
    put(tmp_path, asked(), [0.9, 0.5], budget=budget)
    found = filled(tmp_path)
    long = Setting(None, "paper", (("train.epochs", "120"),))
    assert found.group(asked(), long) is not None
    assert found.group(asked(), PAPER) is not None
    assert found.group(asked("wa", labels="pseudo"), PAPER) is None
    assert not found.shows(cells_of("table 2"), long)  # nothing in it that the paper's own does not show


def cells_of(part: str) -> list[Cell]:
    return [cell for cell in cells(HE) if cell.part == part]


def test_a_second_run_with_the_same_seed_is_listed_not_averaged(tmp_path: Path) -> None:
    first = put(tmp_path, asked(), [0.9, 0.5])
    other = first.model_copy(update={"data": first.data.model_copy(update={"fingerprint": "abc"})})
    (tmp_path / "zz").mkdir()
    (tmp_path / "zz" / "config.toml").write_text(write_toml(other))
    (tmp_path / "zz" / "scores.json").write_text((tmp_path / first.title / "scores.json").read_text())
    found = filled(tmp_path)
    group = found.group(asked(), PAPER)
    assert group is not None
    assert [run.name for run in group.runs.values()] == [first.title]
    assert [(run.name, bool(why)) for run, why in found.other] == [("zz", True)]


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    good = put(tmp_path, asked(), [0.9, 0.5])
    begun = put(tmp_path, asked(), [0.9], seed=1, finished=False)
    bare = put(tmp_path, asked(), [], seed=2)
    for name, text in {
        "damaged": '{"format": 1, "fini',
        "newer": '{"format": 2, "finished": true, "steps": []}',
        "older": '{"format": 0, "finished": true, "steps": []}',
        "odd": '{"format": 1, "finished": true, "steps": [1, 2]}',
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(write_toml(good))
        (tmp_path / name / "scores.json").write_text(text)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "config.toml").write_text(write_toml(good) + "[new]\nkey = 1\n")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.toml").write_text("seed = ")
    (tmp_path / "notes.txt").write_text("hello")
    store = read(tmp_path)
    assert [run.name for run in store.finished] == [good.title]
    assert sorted(run.name for run in store.unfinished) == sorted([begun.title, bare.title])
    words = {
        "damaged": "cannot read", "newer": "newer whorl", "older": "not a file of scores", "odd": "not records",
        "keys": "unknown config key", "foreign": "no config.toml", "half": "not valid TOML",
    }  # fmt: skip
    assert len(store.left_out) == len(words)
    for name, said in words.items():
        assert any(said in line and str(tmp_path / name) in line for line in store.left_out), name


def test_a_run_is_compared_with_few_cells_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]
    real = Place.setting

    def counted(self: Place, run: object) -> object:
        calls[0] += 1
        return real(self, run)  # type: ignore[arg-type]

    monkeypatch.setattr(Place, "setting", counted)
    runs = []
    for seed in range(5):
        for cell in cells(HE):
            config = config_of(HE, cell.asked, "fast", {}, seed)
            runs.append(Done(Path(config.title), config, [{"acc": 0.5}]))
    found = fill(HE, Store(runs, [], []))
    assert len(runs) > 1000
    assert calls[0] < 20 * len(runs)
    assert len(found.settings) == 2


def test_runs_from_other_images_are_not_averaged_with_the_rest(tmp_path: Path) -> None:
    tree = asked(column="imagenet100-10")
    for seed, images in enumerate(("aa", "bb", "bb")):
        put(tmp_path, tree, [0.9, 0.5], seed, budget={"data": {"fingerprint": images}})
    found = filled(tmp_path)
    group = found.group(tree, PAPER)
    assert group is not None
    assert list(group.runs) == [1, 2]
    ((run, why),) = found.other
    assert (run.config.seed, why) == (0, "was made from other images than most runs of its setting")


def test_scores_of_a_run_are_those_stored(tmp_path: Path) -> None:
    config = put(tmp_path, asked(), [0.9, 0.5])
    (done,) = read(tmp_path).finished
    assert done.config == config
    assert done.steps == json.loads((tmp_path / config.title / "scores.json").read_text())["steps"]
    assert done.values["stream.step"] == "10"
