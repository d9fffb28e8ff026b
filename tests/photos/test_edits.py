"""Edits: what each one changes, and what is refused."""

from __future__ import annotations

import pytest

from whorl.errors import WhorlError
from whorl.photos import edits
from whorl.photos.catalog import Catalog, Change, Cluster
from whorl.photos.names import cleaned, near

CATS, DOGS, REST = Cluster("cat"), Cluster("dog"), Cluster()
START = Catalog({1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 3}, {1: CATS, 2: DOGS, 3: REST})


def test_merging_makes_a_new_cluster_with_the_first_name() -> None:
    after = START.changed(edits.merged(START, [3, 2, 1]))
    assert after.members == {4: (1, 2, 3, 4, 5, 6)}
    assert after.shown == {4: DOGS}
    assert after.clusters == {1: REST, 2: REST, 3: REST, 4: DOGS}
    assert after.free == 5


def test_the_largest_part_of_a_split_keeps_the_name() -> None:
    after = START.changed(edits.split(START, 2, [[5], [3, 4]]))
    assert after.members == {1: (1, 2), 3: (6,), 4: (5,), 5: (3, 4)}
    assert after.shown == {1: CATS, 3: REST, 4: REST, 5: DOGS}


def test_a_selection_goes_to_a_new_cluster_and_the_rest_stays() -> None:
    after = START.changed(edits.parted(START, 2, [4, 5]))
    assert after.members == {1: (1, 2), 2: (3,), 3: (6,), 4: (4, 5)}
    assert after.shown[2] == DOGS


def test_moving_and_junking() -> None:
    after = START.changed(edits.moved(START, 2, [5], 1))
    assert after.members[1] == (1, 2, 5)
    after = after.changed(edits.junked(after, [3]))
    assert after.shown[3] == Cluster(junk=True)
    after = after.changed(edits.junked_images(after, 1, [5, 1]))
    assert after.members[4] == (1, 5)
    assert after.shown[4] == Cluster(junk=True)


def test_a_junk_cluster_that_is_merged_with_another_one_is_no_junk() -> None:
    start = START.changed(edits.junked(START, [3]))
    assert start.changed(edits.merged(start, [1, 3])).shown[4] == CATS


@pytest.mark.parametrize(
    "change",
    [
        edits.merged(START, [1, 2]),
        edits.split(START, 2, [[3], [4, 5]]),
        edits.moved(START, 1, [1, 2], 2),
        edits.junked(START, [1, 2]),
        edits.named(START, 3, "  sea   otter "),
    ],
)
def test_a_change_its_inverse_and_its_document(change: Change) -> None:
    after = START.changed(change)
    back = after.changed(change.inverse())
    assert (back.where, back.shown) == (START.where, START.shown)
    assert Change.of(change.document()) == change
    assert change.inverse().inverse() == change


def test_names_differ_in_more_than_case_and_space() -> None:
    assert START.changed(edits.named(START, 3, " sea   otter ")).shown[3].name == "sea otter"
    assert edits.named(START, 1, "cat") == Change()
    assert START.changed(edits.named(START, 1, "CAT")).shown[1].name == "CAT"
    with pytest.raises(WhorlError, match=r"cluster 2 is called 'dog' already; merge 2 and 3, or choose another name"):
        edits.named(START, 3, "DOG ")
    otter = START.changed(edits.named(START, 3, "sea otter"))
    with pytest.raises(WhorlError, match="'sea oter' is one letter away from 'sea otter'; pass `yes`"):
        edits.named(otter, 1, "sea oter")
    assert otter.changed(edits.named(otter, 1, "sea oter", sure=True)).shown[1].name == "sea oter"


@pytest.mark.parametrize(
    ("name", "other", "typo"),
    [
        ("otter", "oter", True),
        ("otter", "ottre", True),
        ("otter", "Otten", True),
        ("otter", "otters", True),
        ("seal", "teal", True),
        ("otter", "OTTER", False),
        ("otter", "other x", False),
        ("zone 1", "zone 2", False),
        ("zone 1", "zone 12", False),
        ("cat", "bat", False),
        ("abcd", "badc", False),
    ],
)
def test_a_typo_is_one_letter_away(name: str, other: str, typo: bool) -> None:
    assert near(name, [other]) == (other if typo else None)
    assert near(other, [name]) == (name if typo else None)


@pytest.mark.parametrize("name", ["", " \t ", "a\x1bb", "x" * 201, "Unknown", "JUNK", "cluster 12"])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(WhorlError):
        cleaned(name)


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda: edits.merged(START, [1]), "at least two clusters"),
        (lambda: edits.merged(START, [1, 1]), "at least two clusters"),
        (lambda: edits.merged(START, [1, 9]), "there is no cluster 9; `whorl clusters` lists those there are"),
        (lambda: edits.moved(START, 1, [3], 2), "1 image of these are not in cluster 1"),
        (lambda: edits.moved(START, 1, [1], 1), "holds these images already"),
        (lambda: edits.moved(START, 1, [], 2), "at least one image"),
        (lambda: edits.parted(START, 1, [1, 2]), "these are all images of cluster 1"),
    ],
)
def test_refusals(edit: object, line: str) -> None:
    assert callable(edit)
    with pytest.raises(WhorlError, match=line):
        edit()


def test_an_emptied_cluster_cannot_be_edited() -> None:
    after = START.changed(edits.merged(START, [1, 2]))
    with pytest.raises(WhorlError, match="cluster 1 has been emptied"):
        edits.named(after, 1, "cow")


def test_what_can_be_undone_and_redone() -> None:
    log = [(1, "learn"), (2, "name"), (3, "merge"), (4, "undo"), (5, "learn"), (6, "undo"), (7, "redo")]
    assert edits.undoable(log) == ((7,), (4,))
    assert edits.undoable([*log, (8, "junk")]) == ((7, 8), ())


def test_a_name_that_a_delivery_took_since_comes_back_with_a_number() -> None:
    change = edits.named(START, 1, "lion")
    after = START.changed(change)
    later = Catalog({**after.where, 7: 4}, {**after.clusters, 4: Cluster("Cat"), 5: Cluster("cat 2")})
    back = later.changed(edits.taken_back(later, change))
    assert back.shown[1].name == "cat 3"
