"""Which run fills which cell, and in which setting."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from madeup import HE, SMALL, asked, put
from whorl.config import ExperimentConfig, write_toml
from whorl.errors import WhorlError
from whorl.papers import manifest
from whorl.papers.cells import Place, Setting, cells, config_of
from whorl.papers.choose import Need
from whorl.papers.filled import Filled, fill, letters
from whorl.papers.jobs import Prepared
from whorl.papers.stored import Done, Store, read
from whorl.scores import RunScores, TaskScores
from whorl.tree import Tree

PAPER = Setting(None, "paper")


def filled(runs: Path) -> Filled:
    return fill(HE, read(runs), manifest.read(runs, "he2021"))


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


def test_a_labeler_is_a_setting(tmp_path: Path) -> None:
    """Its values do not make a run one of another row, and changes to them are named."""
    put(tmp_path, asked(), [0.9, 0.5], recipe="fast")
    put(tmp_path, asked(), [0.9, 0.6], recipe="fast", budget={"labeler": "best"})
    put(tmp_path, asked(), [0.9, 0.7], recipe="fast", budget={"labeler": "best", "pseudo": {"refine": 2}})
    found = filled(tmp_path)
    plain, best = (Setting(None, "fast", changes) for changes in ((), (("labeler", "best"),)))
    changed = Setting(None, "fast", (("labeler", "best"), ("pseudo.refine", "2")))
    assert set(found.settings) == {PAPER, plain, best, changed}
    for setting, last in ((plain, 0.5), (best, 0.6), (changed, 0.7)):
        group = found.group(asked(), setting)
        assert group is not None
        assert [run.scores.steps[-1].acc for run in group.runs.values()] == [last]
    assert str(best) == "recipe fast, labeler best"


def test_a_labeler_does_not_change_cells_with_labels() -> None:
    tree = {**asked(), "labels": "given"}
    assert config_of(HE, tree, "fast", {"labeler": "best"}) == config_of(HE, tree, "fast", {})
    assert config_of(HE, asked(), "fast", {"labeler": "best"}) != config_of(HE, asked(), "fast", {})


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


BUDGET: Tree = {"train": {"epochs": 120}}  # 120 is what `ours` has anyway
LONG = Setting(None, "paper", (("train.epochs", "120"),))


def reproduced(runs: Path, wanted: list[Tree], budget: Tree, seeds: tuple[int, ...] = (0,)) -> list[ExperimentConfig]:
    """Runs of some cells of table 1 or 2 as `whorl reproduce` leaves them: stored, and named in the manifest."""
    fills = []
    for tree in wanted:
        cell = next(cell for cell in cells(HE) if cell.asked == tree)
        fills.append((Need(cell, cell.asked), config_of(HE, cell.asked, "paper", budget)))
    made = [put(runs, tree, [0.9, 0.5], seed, budget=budget) for tree in wanted for seed in seeds]
    manifest.add(runs, "he2021", manifest.entries(HE, None, "paper", budget, Prepared((), {}, seeds, tuple(fills))))
    return made


def test_runs_of_the_manifest_share_the_setting_of_their_command(tmp_path: Path) -> None:
    """Neither `ours`, which has 120 epochs anyway, nor the online `ilio` differs from the paper by itself."""
    wanted = [asked("wa", labels="given"), asked(), asked("ilio", labels="given")]
    reproduced(tmp_path, wanted, BUDGET)
    found = filled(tmp_path)
    assert found.settings == (PAPER, LONG)
    for tree in wanted:
        assert found.group(tree, LONG) is not None
    assert found.group(asked("wa", labels="given"), PAPER) is None
    assert found.group(asked(), PAPER) is not None  # it is a run of the paper's own setting as well
    assert found.group(asked(memory={"quota": 20, "select": "herding"}), LONG) is not None


def test_without_a_manifest_each_run_is_placed_by_its_own_config(tmp_path: Path) -> None:
    reproduced(tmp_path, [asked("wa", labels="given"), asked(), asked("ilio", labels="given")], BUDGET)
    manifest.path_of(tmp_path, "he2021").unlink()
    found = filled(tmp_path)
    assert found.settings == (PAPER, LONG)
    assert found.group(asked("wa", labels="given"), LONG) is not None
    assert found.group(asked(), LONG) is None
    assert found.group(asked("ilio", labels="given"), LONG) is None


def test_later_commands_are_merged_into_the_manifest(tmp_path: Path) -> None:
    (old,) = reproduced(tmp_path, [asked()], SMALL)
    reproduced(tmp_path, [asked("wa", labels="given")], BUDGET)
    (new,) = reproduced(tmp_path, [asked()], SMALL, seeds=(1,))
    stored = manifest.read(tmp_path, "he2021")
    assert [entry.budget["stream.tasks"] for entry in stored.entries if "stream.tasks" in entry.budget] == ["3"]
    ours = next(cell for entry in stored.entries for cell in entry.cells if cell.name == "Ours")
    assert ours.runs == {0: old.title, 1: new.title}
    assert len(stored.entries) == 2


def test_a_manifest_names_only_what_is_there(tmp_path: Path) -> None:
    made = reproduced(tmp_path, [asked(), asked("wa", labels="given")], BUDGET)
    (tmp_path / made[1].title / "scores.json").unlink()  # not finished
    text = manifest.path_of(tmp_path, "he2021").read_text()
    document = {**json.loads(text.replace('"Ours"', '"Theirs"'))}  # a row the paper has not
    del document["checksum"]
    manifest.path_of(tmp_path, "he2021").write_text(json.dumps(document))
    found = filled(tmp_path)
    assert found.settings == (PAPER,)
    assert found.group(asked(), PAPER) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "paper": "he2021"}',
        '{"format": 1, "entries": [1]}',
        "[" * 100_000,
        '{"format": 1, "paper": "he2021", "entries": [], "checksum": "0123456789"}',
        f'{{"format": {"1" * 5000}}}',
    ],
)
def test_a_damaged_manifest_is_one_line_and_replaced_by_the_next_command(text: str, tmp_path: Path) -> None:
    path = manifest.path_of(tmp_path, "he2021")
    path.write_text(text)
    with pytest.raises(WhorlError, match=r"reproduce-he2021.json cannot be read \(.*\); its runs") as error:
        manifest.read(tmp_path, "he2021")
    assert "\n" not in str(error.value)
    reproduced(tmp_path, [asked()], SMALL)
    assert len(manifest.read(tmp_path, "he2021").entries) == 1


def test_a_memory_for_all_classes_does_not_reach_cells_about_the_quota(tmp_path: Path) -> None:
    quota = asked(memory={"policy": "per-class", "select": "herding", "quota": 20})
    reproduced(tmp_path, [asked(), quota], {"memory": {"policy": "total", "quota": 2000}})
    total = Setting(None, "paper", (("memory.policy", "total"), ("memory.quota", "2000")))
    found = filled(tmp_path)
    (shared,), (own,) = (list(group.runs.values()) for group in found.groups.values() if group.runs)
    assert found.settings == (PAPER, total)
    assert {run.config.memory.policy for run in (shared, own)} == {"total", "per-class"}
    assert found.group(quota, total) is None
    assert found.group(quota, PAPER) is not None


def test_a_second_run_with_the_same_seed_is_listed_not_averaged(tmp_path: Path) -> None:
    first = put(tmp_path, asked(), [0.9, 0.5])
    other = first.model_copy(update={"data": first.data.model_copy(update={"fingerprint": "abc"})})
    folder = tmp_path / other.title
    folder.mkdir()
    (folder / "config.toml").write_text(write_toml(other))
    (folder / "scores.json").write_text((tmp_path / first.title / "scores.json").read_text())
    found = filled(tmp_path)
    group = found.group(asked(), PAPER)
    assert group is not None
    assert [run.name for run in group.runs.values()] == [first.title]
    assert [(run.name, bool(why)) for run, why in found.other] == [(folder.name, True)]


def test_a_folder_whose_name_and_config_disagree_is_no_further_seed(tmp_path: Path) -> None:
    first = put(tmp_path, asked(), [0.9, 0.5])
    copy = tmp_path / f"{first.title}-copy"
    shutil.copytree(tmp_path / first.title, copy)
    (copy / "config.toml").write_text(write_toml(first.model_copy(update={"seed": 1})))
    store = read(tmp_path)
    assert [run.name for run in store.finished] == [first.title]
    (line,) = store.left_out
    assert line.startswith(f"config.toml of run {copy} belongs to ")
    assert "seed1" in line


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    good = put(tmp_path, asked(), [0.9, 0.5])
    begun = put(tmp_path, asked(), [0.9], seed=1, finished=False)
    bare = put(tmp_path, asked(), [], seed=2)
    bad: dict[str, str] = {}
    for seed, (name, text) in enumerate({
        "damaged": '{"format": 1, "fini',
        "newer": '{"format": 3, "finished": true, "steps": []}',
        "older": '{"format": 0, "finished": true, "steps": []}',
        "odd": '{"format": 1, "finished": true, "steps": [1, 2]}',
    }.items(), 3):  # fmt: skip
        bad[name] = put(tmp_path, asked(), [], seed=seed).title
        (tmp_path / bad[name] / "scores.json").write_text(text)
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
        "damaged": "is damaged", "newer": "newer whorl", "older": "not a valid file", "odd": "not a valid file",
        "keys": "unknown config key", "foreign": "no config.toml", "half": "not valid TOML",
    }  # fmt: skip
    assert len(store.left_out) == len(words)
    for name, said in words.items():
        assert any(said in line and str(tmp_path / bad.get(name, name)) in line for line in store.left_out), name


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
            runs.append(Done(Path(config.title), config, RunScores(steps=(TaskScores(task=1, classes=2, acc=0.5),))))
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
    assert (run.config.seed, why) == (0, "made from other images than most runs of its setting")


def test_scores_of_a_run_are_those_stored(tmp_path: Path) -> None:
    config = put(tmp_path, asked(), [0.9, 0.5])
    (done,) = read(tmp_path).finished
    assert done.config == config
    assert done.curve("acc") == [0.9, 0.5]
    assert [step.classes for step in done.scores.steps] == [10, 20]
    assert done.values["stream.step"] == "10"


def test_letters_of_settings() -> None:
    assert [letters(n) for n in (0, 25, 26, 27, 52, 701, 702)] == ["a", "z", "aa", "ab", "ba", "zz", "aaa"]
