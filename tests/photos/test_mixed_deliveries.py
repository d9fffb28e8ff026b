"""Deliveries of photos of known classes, of new ones, and of none."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from albums import SETTINGS, digit_of, digits
from whorl.cli.learn import print_report
from whorl.errors import WhorlError
from whorl.photos.asked import Settings
from whorl.photos.outcome import Mixed, Report, mixed_of
from whorl.photos.words import told
from whorl.photos.zoo import Zoo
from whorl.types import Found


class Album(NamedTuple):
    """A model folder that has learned a mixed delivery."""

    home: Path
    report: Report
    lines: list[str]

    @property
    def zoo(self) -> Path:
        return self.home / "zoo"


@pytest.fixture(scope="module")
def album(learned: Path, tmp_path_factory: pytest.TempPathFactory) -> Album:
    """The digits 0 to 3 are known; the delivery has 0 and 2, the new 4 to 6, and a picture of noise."""
    home = tmp_path_factory.mktemp("album")
    shutil.copytree(learned / "start", home / "zoo")
    digits(home / "june", range(4, 7), 0, 30)
    digits(home / "june", [0, 2], 50, 15)
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(home / "june" / "noise-9.png")
    lines = list[str]()
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        return Album(home, zoo.learn(home / "june", notify=lines.append), lines)


def _rows(album: Album, query: str) -> list[tuple[Any, ...]]:
    raw = sqlite3.connect(album.zoo / "model.sqlite")
    try:
        return raw.execute(query).fetchall()
    finally:
        raw.close()


def test_known_and_new_photos_are_told_apart(album: Album) -> None:
    rows = _rows(album, "SELECT path, cluster FROM image WHERE delivery = 2 AND class IS NOT NULL")
    known = [cluster <= 4 for path, cluster in rows]
    truth = [digit_of(path) < 4 for path, _ in rows]
    hits = [np.mean([k == t for k, t in zip(known, truth, strict=True) if t == side]) for side in (True, False)]
    assert np.mean(hits) > 0.7
    right = [cluster == digit_of(path) + 1 for path, cluster in rows if cluster <= 4 and digit_of(path) < 4]
    assert np.mean(right) > 0.9


def test_the_report_says_what_the_database_holds(album: Album) -> None:
    report, mixed = album.report, album.report.mixed
    assert mixed is not None
    sizes = dict(_rows(album, "SELECT cluster, count(*) FROM image WHERE delivery = 2 AND class NOT NULL GROUP BY 1"))
    assert report.joined == {id: count for id, count in sizes.items() if id <= 4}
    assert list(report.made) == [id for id in sizes if id > 4]
    assert mixed.known == sum(report.joined.values())
    assert mixed.new == sum(sizes[id] for id in report.made)
    assert report.images == mixed.known + mixed.new
    assert mixed.low <= mixed.clusters == len(report.made) <= mixed.high
    assert all(a in range(1, 5 + mixed.clusters) and b in report.made and 0.36 <= s <= 1 for a, b, s in mixed.merges)
    with Zoo.open(album.zoo, verbose=0) as zoo:
        event = zoo.history()[-1]
    assert event.about["mixed"] == {
        **asdict(mixed),
        "reasons": list(mixed.reasons),
        "merges": [*map(list, mixed.merges)],
    }
    assert event.about["images"] == report.images
    assert told(event, {}).endswith(f", more of {len(report.joined)} clusters, junk in cluster {report.junk}")


def test_junk_is_stored_but_not_learned(album: Album) -> None:
    report = album.report
    assert report.found["junk"] == ["noise-9.png"]
    assert f"1 photo fit no class, put into cluster {report.junk} as junk: noise-9.png" in album.lines
    rows = _rows(album, "SELECT path, class, sure, cluster FROM image WHERE class IS NULL")
    assert rows == [(str(album.home / "june" / "noise-9.png"), None, None, report.junk)]
    with Zoo.open(album.zoo, verbose=0) as zoo:
        (junk,) = [one for one in zoo.clusters() if one.junk]
        assert (junk.id, junk.images, junk.sure) == (report.junk, 1, None)
        again = zoo.learn(album.home / "june")
        assert (again.delivery, again.corrected) == (None, 0)
        assert "noise-9.png" in again.found["known"]


def test_a_photo_is_moved_out_of_junk_and_learned(album: Album, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(album.zoo, tmp_path / "zoo"))
    assert album.report.junk is not None
    with Zoo.open(folder, verbose=0) as zoo:
        zoo.move(album.report.junk, ["noise-9.png"], to=2)
        assert zoo.learn().corrected >= len(zoo.images(2))
        ((label,),) = zoo._store.rows("SELECT class FROM image WHERE path LIKE '%noise-9.png'")
        assert label == zoo._store.rows("SELECT class FROM image WHERE cluster = 2 AND delivery = 1 LIMIT 1")[0][0]
        assert zoo.learn().corrected == 0


def test_a_delivery_that_is_all_new(learned: Path, tmp_path: Path) -> None:
    """The paper's assumption: no photo goes to a known class, and none is junk."""
    digits(tmp_path / "june", [0, 5], 50, 10)
    shutil.copytree(learned / "start", tmp_path / "zoo")
    with Zoo.open(tmp_path / "zoo", verbose=0) as zoo:
        report = zoo.learn(tmp_path / "june", new=2, all_new=True)
    assert (report.mixed, report.junk, report.joined, list(report.made)) == (None, None, {}, [5, 6])
    assert report.images == 20


def test_a_model_without_exemplars_cannot_tell_known_from_new(tmp_path: Path) -> None:
    digits(tmp_path / "labelled", range(2), 0, 5, labelled=True)
    digits(tmp_path / "june", [5], 0, 5)
    options = {**SETTINGS.options, "memory.quota": 0, "train.first_epochs": 1}
    with Zoo.new(tmp_path / "zoo", verbose=0) as zoo:
        zoo.learn(tmp_path / "labelled", settings=Settings("finetune", "tiny", "demo", 8, options))
        with pytest.raises(WhorlError, match=r"recognised by their exemplars, and this model has none; .* `all_new`"):
            zoo.learn(tmp_path / "june")


def _mixed(merges: tuple[tuple[int, int, float], ...]) -> Mixed:
    return Mixed(3, 7, 2, 2, 4, ("a", "b"), merges)


def test_suggested_merges_are_about_clusters() -> None:
    merges: tuple[tuple[int | str, int | str, float], ...] = ((1, 4, 0.91234), (3, 4, 0.5), (1, 2, 0.4))
    found = Found(2, 2, 4, ("a", "b"), 3, 7, (), (), merges)
    places = {1: 10, 2: 10, 3: 30, 4: 40}
    assert mixed_of(found, places) == _mixed(merges=((10, 40, 0.912), (30, 40, 0.5)))


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = {"junk": ["x.jpg", "y.jpg"]}
    mixed = _mixed(merges=tuple((n, 9, 0.9) for n in range(1, 8)))
    print_report(Report(4, 10, {8: None, 9: None}, {1: 2, 3: 1}, 0, found, mixed, 10), "my zoo")
    assert capsys.readouterr().out.splitlines() == [
        "delivery 4: learned 10 photos",
        "known: 3 photos of clusters 1, 3",
        "new: 7 photos of clusters 8, 9",
        "junk: 2 photos, not learned, in cluster 10",
        "2 new classes (2 to 4): a; b",
        "these clusters may be one; look at them, and merge them if so:",
        *(f"  whorl merge 'my zoo' {n} 9  (likeness 0.90)" for n in range(1, 6)),
        "  … (2 more; --json and `whorl history --json` list all)",
    ]


def test_clusters_of_the_digits(album: Album) -> None:
    """Most photos of a new cluster are of one digit."""
    with Zoo.open(album.zoo, verbose=0) as zoo:
        members = [Counter(digit_of(path) for _, path, _ in zoo.images(id)) for id in album.report.made]
    assert sum(max(each.values()) for each in members) / sum(each.total() for each in members) > 0.6
