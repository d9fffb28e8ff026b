"""Learning into a model folder: what is learned, what is not, and what people have corrected."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from albums import SETTINGS, digit_of, digits
from whorl.data.source import Concat
from whorl.errors import WhorlError
from whorl.estimator import Whorl
from whorl.photos.catalog import Cluster
from whorl.photos.files import FILES, KEPT, LEARNING
from whorl.photos.store import Store, replayed
from whorl.photos.zoo import Zoo
from whorl.runs.checkpoint import save_epoch


def _true(zoo: Zoo) -> dict[int, int]:
    """The most frequent digit of each cluster that has images."""
    found = {one.id: Counter(digit_of(path) for _, path, _ in zoo.images(one.id)) for one in zoo.clusters()}
    return {id: counter.most_common(1)[0][0] for id, counter in found.items() if counter}


def _model_file(folder: Path) -> Path:
    """The file that the database names."""
    raw = sqlite3.connect(folder / "model.sqlite")
    ((name,),) = raw.execute("SELECT name FROM file WHERE kind = 'model'").fetchall()
    raw.close()
    return folder / FILES / str(name)


def _model(folder: Path) -> Whorl:
    return Whorl.load(_model_file(folder), verbose=0)


def _accuracy(zoo: Zoo, photos: Path) -> float:
    """The share of photos whose answer is a cluster of their digit."""
    true = _true(zoo)
    return float(np.mean([one.cluster is not None and true[one.cluster] == digit_of(one.file) for one in
                          zoo.predict(photos, threshold=0)]))  # fmt: skip


def test_what_the_database_holds(learned: Path) -> None:
    raw = sqlite3.connect(learned / "zoo" / "model.sqlite")
    images = raw.execute("SELECT path, class, cluster, delivery, sure FROM image ORDER BY id").fetchall()
    assert len(images) == 4 * 30 + 3 * 30
    assert all(cluster == digit_of(path) + 1 for path, _, cluster, delivery, _ in images if delivery == 1)
    assert {cluster for _, _, cluster, delivery, _ in images if delivery == 2} == {5, 6, 7, 8, 9}
    assert raw.execute("SELECT id, name FROM cluster ORDER BY id").fetchall() == [
        (1, "0"), (2, "1"), (3, "2"), (4, "3"), *((id, None) for id in range(5, 10))
    ]  # fmt: skip
    model = _model(learned / "zoo")
    assert model.classes_.tolist() == list(range(1, 10))
    assert [label for _, label, _, delivery, _ in images if delivery == 2] == model.labels_.tolist()
    names = {name for (name,) in raw.execute("SELECT name FROM file")}
    there = {path.name for path in (learned / "zoo" / FILES).iterdir()}
    assert names < there
    assert len(there - names) == 1  # the model before, which a reader may still be reading
    assert Counter(name.partition("-")[0] for name in names) == {"features": 2, "model": 1}
    raw.close()


def test_the_probabilities_stored_are_those_of_the_model(learned: Path) -> None:
    with Zoo.open(learned / "zoo", verbose=0) as zoo:
        sure = {path: value for one in zoo.clusters() for _, path, value in zoo.images(one.id)}
        answers = zoo.predict(learned / "may")
    model = _model(learned / "zoo")
    expected = model.predict_proba(learned / "may")
    assert np.allclose([one.confidence for one in answers], expected.max(axis=1), atol=1e-5)
    stored = [sure[one.file] or 0.0 for one in answers]
    assert np.allclose(stored, expected[np.arange(90), model.labels_ - 1], atol=1e-5)


def test_only_new_photos_are_learned(home: Path) -> None:
    new = digits(home / "june", [5], 40, 4)[0]
    known = sorted((home / "may").iterdir())[:3]
    shutil.copy(known[0], home / "june" / "another name.png")
    shutil.copy(known[1], home / "june" / known[1].name)
    shutil.copy(new, home / "june" / "twice.png")
    (home / "june" / "broken.png").write_bytes(b"no image")
    Image.new("RGB", (300, 1), "red").save(home / "june" / "thin.png")
    pixels = np.asarray(Image.open(new)).copy()
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).save(home / "june" / "z near.png")
    lines: list[str] = []
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        report = zoo.learn(home / "june", new=1, all_new=True, notify=lines.append)
    assert report.images == 5
    assert report.made == {10: None}
    assert {kind: sorted(names) for kind, names in report.found.items()} == {
        "known": sorted(["another name.png", known[1].name]),
        "repeated": ["twice.png"],
        "near": ["z near.png"],
        "broken": ["broken.png"],
        "tiny": ["thin.png"],
        "huge": [],
        "junk": [],
    }
    assert [line for line in lines if "learned already" in line] == [
        f"2 photos learned already, not learned again: {known[1].name}, another name.png"
    ]
    assert "1 photo too small, left out: thin.png" in lines
    assert any(line.startswith("skipped: broken.png: cannot be read as an image") for line in lines)


def test_a_folder_without_anything_new(home: Path) -> None:
    before = (home / "zoo" / "model.sqlite").read_bytes()
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        report = zoo.learn(home / "may", new=3)
    assert (report.delivery, report.images, len(report.found["known"])) == (None, 0, 90)
    assert (home / "zoo" / "model.sqlite").read_bytes() == before


def test_photos_that_have_moved_are_found_again(home: Path) -> None:
    moved = home / "elsewhere"
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        store = Store(home / "zoo")
        with store.writing():
            store.many("UPDATE image SET path = replace(path, ?, ?)", [("/may/", "/gone/")])
        (home / "may").rename(moved)
        zoo.learn(moved, new=3)
        paths = [path for one in zoo.clusters() for _, path, _ in zoo.images(one.id) if one.delivery == 2]
    assert sorted(paths) == sorted(map(str, moved.iterdir()))


def test_labels_join_the_clusters_with_their_names(home: Path) -> None:
    digits(home / "more", [2, 7], 60, 20, labelled=True)
    (home / "more" / "2").rename(home / "more" / "Sea Gull")
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.name(3, "sea gull")
        report = zoo.learn(home / "more", "folders")
        assert report.made == {10: "7"}
        assert report.joined == {3: 20}
        assert len(zoo.images(3)) == 50
        assert zoo.catalog.shown[3] == Cluster("sea gull")
        shutil.rmtree(home / "more")
        digits(home / "more" / "sea gul", [2], 100, 3)
        digits(home / "more", [8], 100, 3, labelled=True)
        with pytest.raises(WhorlError, match="the label 'sea gul' is one letter away from 'sea gull'"):
            zoo.learn(home / "more", "folders")
        assert len(zoo.history()) == 4


def test_five_corrections_raise_the_accuracy(home: Path) -> None:
    digits(home / "test", range(7), 100, 30)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        before, edits = _accuracy(zoo, home / "test"), 0
        for digit in (4, 5, 6):
            same = [id for id, true in _true(zoo).items() if true == digit]
            if len(same) > 1:
                zoo.merge(same)
                edits += 1
        at_home = {digit: id for id, digit in _true(zoo).items()}
        wrong = [
            (id, digit, [image for image, path, _ in zoo.images(id) if digit_of(path) == digit])
            for id, true in _true(zoo).items()
            for digit in (4, 5, 6)
            if digit != true
        ]
        for id, digit, images in sorted(wrong, key=lambda one: -len(one[2]))[: 5 - edits]:
            if images:
                zoo.move(id, images, to=at_home[digit])
                edits += 1
        assert edits <= 5
        assert zoo.learn().corrected > 0
        after = _accuracy(zoo, home / "test")
        assert after > before + 0.05
        assert zoo.learn().corrected == 0
        assert replayed(zoo.history()) == zoo.catalog


def test_a_merge_counts_at_once_and_is_undone_across_learning(home: Path) -> None:
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        apart = {one.file: one for one in zoo.predict(home / "may", threshold=0)}
        shown = zoo.catalog.shown
        zoo.merge([5, 6])
        joined = zoo.predict(home / "may", threshold=0)
        assert all(one.cluster == 10 for one in joined if apart[one.file].cluster in (5, 6))
        assert {one.cluster for one in joined} <= {1, 2, 3, 4, 7, 8, 9, 10}
        zoo.learn()
        model = _model(home / "zoo")
        assert len(model.classes_) == 8
        zoo.undo()
        assert zoo.catalog.shown == shown
        zoo.learn()
        model = _model(home / "zoo")
        assert len(model.classes_) == 9
        assert {5, 6} <= {one.cluster for one in zoo.predict(home / "may", threshold=0)}


def test_junk_is_dropped_and_comes_back_when_undone(home: Path) -> None:
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.junk(5)
        assert "junk" in {one.answer for one in zoo.predict(home / "may", threshold=0)}
        zoo.learn()
        assert "junk" not in {one.answer for one in zoo.predict(home / "may", threshold=0)}
        store = Store(home / "zoo")
        assert store.rows("SELECT DISTINCT class FROM image WHERE cluster = 5") == [(None,)]
        zoo.undo()
        zoo.learn()
        assert 5 in {one.cluster for one in zoo.predict(home / "may", threshold=0)}


def test_corrections_are_learned_from_exemplars_if_the_photos_are_gone(home: Path) -> None:
    store = Store(home / "zoo")
    with store.writing():
        store.many("UPDATE image SET path = '/gone/' || id WHERE delivery = ?", [(2,)])
    model = _model(home / "zoo")
    exemplars = len(model.memory_)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.merge([5, 6])
        assert zoo.learn().corrected == exemplars
        images = [image for image, _, _ in zoo.images(10)]
        zoo.split(10, into=2)
        assert sorted(image for id in (11, 12) for image, _, _ in zoo.images(id)) == sorted(images)


def test_photos_are_kept_if_asked_for(home: Path) -> None:
    digits(home / "june", [7], 0, 8)
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.learn(home / "june", new=1, all_new=True, keep_photos=True)
        kept = {path.read_bytes() for path in (home / "zoo" / KEPT).iterdir()}
        assert kept == {path.read_bytes() for path in (home / "june").iterdir()}
        shutil.rmtree(home / "june")
        zoo.merge([10, 9])
        others = int(np.sum(_model(home / "zoo").classes_[_model(home / "zoo").memory_.labels] < 9))
        assert zoo.learn().corrected == len(zoo.images(11)) + others


class Stop(Exception):
    """Stands for a kill after some epochs."""


def test_a_stopped_delivery_is_resumed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found in it, and the model, are those of a delivery that was not stopped."""
    from whorl.photos import progress

    digits(home / "june", [1, 7], 50, 20)
    whole = Path(shutil.copytree(home / "zoo", home / "whole"))
    with Zoo.open(whole, verbose=0) as zoo:
        uninterrupted = zoo.learn(home / "june")
    assert uninterrupted.mixed is not None
    saved: list[int] = []

    def stop_after_five(*values: object) -> None:
        save_epoch(*values)  # type: ignore[arg-type]
        saved.append(1)
        if len(saved) == 5:
            raise Stop

    monkeypatch.setattr(progress, "save_epoch", stop_after_five)
    with Zoo.open(home / "zoo", verbose=0) as zoo, pytest.raises(Stop):
        zoo.learn(home / "june")
    assert len(list((home / "zoo" / LEARNING).iterdir())) == 1
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        assert len(zoo.history()) == 2
        assert zoo.learn(home / "june") == uninterrupted
    assert len(saved) == 12
    assert not (home / "zoo" / LEARNING).exists()
    assert _model_file(home / "zoo").name == _model_file(whole).name
    assert _model(home / "zoo").found_ == _model(whole).found_


def test_what_is_left_of_an_interrupted_command_is_removed(home: Path) -> None:
    for name in ("model-0.safetensors", ".new-1"):
        (home / "zoo" / FILES / name).write_bytes(b"left")
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        zoo.learn()
    assert {path.name for path in (home / "zoo" / FILES).iterdir()} == {
        name for (name,) in Store(home / "zoo").rows("SELECT name FROM file")
    }


def test_a_model_folder_of_another_method(tmp_path: Path) -> None:
    """Nearest-mean answers have probabilities as well, on a scale fitted to the exemplars."""
    digits(tmp_path / "labelled", range(3), 0, 20, labelled=True)
    digits(tmp_path / "test", range(3), 60, 20)
    settings = replace(SETTINGS, method="icarl")
    with Zoo.new(tmp_path / "zoo", verbose=0) as zoo:
        zoo.learn(tmp_path / "labelled", settings=settings)
        answers = zoo.predict(tmp_path / "test")
        assert np.mean([one.answer == str(digit_of(one.file)) for one in answers]) > 0.8
        assert zoo._store.rows("SELECT scale FROM model")[0][0] > 1
        with pytest.raises(WhorlError, match="`net` cannot change after the first delivery"):
            zoo.learn(tmp_path / "test", new=2, settings=replace(settings, net="resnet32"))


def test_samples_of_an_estimator_can_be_joined(learned: Path) -> None:
    """Corrections come from files and from exemplars at once."""
    model = _model(learned / "zoo")
    both = Concat([model.memory_.source, model.memory_.source])
    assert np.array_equal(model.predict(both)[: len(model.memory_)], model.predict(model.memory_.source))
