from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import top_k_accuracy_score

from whorl.errors import WhorlError
from whorl.metrics.match import contingency
from whorl.metrics.scores import ari, label_quality, nmi, score, top_ids
from whorl.types import FloatArray, IntArray


def sample(seed: int, n: int = 300, classes: int = 6, signal: float = 1.5) -> tuple[FloatArray, IntArray]:
    """Logits that depend on the truth, with the ids permuted as after clustering."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    logits = rng.normal(size=(n, classes)) + signal * np.eye(classes)[truth]
    return logits[:, rng.permutation(classes)].astype(np.float32), truth


@pytest.mark.parametrize("seed", range(5))
def test_score_against_references(seed: int) -> None:
    logits, truth = sample(seed)
    predicted = logits.argmax(axis=1)
    best = max(permutations(range(6)), key=lambda p: int(np.sum(np.array(p)[predicted] == truth)))
    got = score(logits, truth, [2, 2, 2])
    assert got.acc == pytest.approx(np.mean(np.array(best)[predicted] == truth), abs=1e-12)
    assert got.acc_plain == pytest.approx(np.mean(predicted == truth), abs=1e-12)
    assert got.acc >= got.acc_plain
    table = contingency(predicted, truth, 6, 6)
    assert got.nmi == pytest.approx(nmi_by_hand(table), abs=1e-12)
    assert got.ari == pytest.approx(ari_by_hand(table), abs=1e-12)
    # With the columns permuted by the mapping, the plain Top-5 accuracy is the matched one.
    inverse = np.argsort(got.mapping)
    assert got.acc5 == pytest.approx(top_k_accuracy_score(truth, logits[:, inverse], k=5), abs=1e-12)
    mapped = np.array(got.mapping)[predicted]
    for task in range(3):
        inside = truth // 2 == task
        assert got.per_task[task] == pytest.approx(np.mean(mapped[inside] == truth[inside]), abs=1e-12)
    assert got.acc_trainmap is None


@pytest.mark.parametrize("seed", range(5))
def test_anchored_is_the_best_mapping_within_tasks(seed: int) -> None:
    logits, truth = sample(seed)
    predicted = logits.argmax(axis=1)
    allowed = [
        [0, 1, *(2 + np.array(p)), *(4 + np.array(q))] for p in permutations(range(2)) for q in permutations(range(2))
    ]
    best = max(float(np.mean(np.array(p)[predicted] == truth)) for p in allowed)
    got = score(logits, truth, [2, 2, 2])
    assert got.acc_anchored == pytest.approx(best, abs=1e-12)
    assert got.acc_plain <= got.acc_anchored <= got.acc


def test_anchored_by_hand() -> None:
    # Ids 0 and 1 are swapped, which only the free matching corrects. Ids 2 and 3 of task 2 may be swapped.
    truth = np.array([0, 1, 2, 3])
    got = score(np.eye(4)[[1, 0, 3, 2]], truth, [2, 2])
    assert (got.acc, got.acc_plain, got.acc_anchored) == (1.0, 0.0, 0.5)
    assert got.mapping == (1, 0, 3, 2)
    # Ids 1 and 2 belong to different tasks: no mapping within tasks corrects the swap.
    assert score(np.eye(4)[[0, 2, 1, 3]], truth, [2, 2]).acc_anchored == 0.5


def test_trainmap_is_taken_as_given() -> None:
    logits, truth = np.eye(3)[[0, 1, 2, 2]], np.array([0, 2, 1, 2])
    assert score(logits, truth, [1, 2], np.array([0, 2, 1])).acc_trainmap == 0.75
    assert score(logits, truth, [1, 2], np.array([0, 2, -1])).acc_trainmap == 0.5
    with pytest.raises(ValueError, match="trainmap"):
        score(logits, truth, [1, 2], np.array([0, 2]))


def test_top5_goes_through_the_top1_matching() -> None:
    # Seven ids in reverse order. The id of the last sample is ranked sixth: a miss. Its Top-1 is that of class 0.
    truth = np.array([0, 1, 2, 3, 4, 5, 6, 0, 6, 6])
    order = [[6 - c] for c in truth[:7]] + [[6], [5, 4, 3, 2, 0, 6, 1], [5, 4, 3, 2, 1, 0, 6]]
    logits = np.zeros((10, 7))
    for row, ids in enumerate(order):
        logits[row, ids] = np.arange(10, 10 - len(ids), -1)
    got = score(logits, truth, [7])
    assert got.mapping == (6, 5, 4, 3, 2, 1, 0)
    assert got.acc == 0.8
    assert got.acc5 == 0.9


def test_fewer_than_five_ids_make_every_sample_a_hit() -> None:
    logits, truth = sample(0, classes=3, signal=0.0)
    assert score(logits, truth, [3]).acc5 == 1.0


def test_ties_go_to_the_lowest_id() -> None:
    logits = np.array([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0], [-np.inf, 1.0, -np.inf, 0.0, -np.inf]])
    assert top_ids(logits, 4).tolist() == [[1, 2, 4, 3], [0, 1, 2, 3], [1, 3, 0, 2]]


def test_ranking_does_not_depend_on_the_blocks() -> None:
    logits = np.random.default_rng(0).integers(0, 4, (9000, 7)).astype(np.float32)
    assert np.array_equal(top_ids(logits, 5), np.argsort(-logits, axis=1, kind="stable")[:, :5])


@pytest.mark.parametrize(
    ("a", "b", "expected_nmi", "expected_ari"),
    [
        ([0, 0, 0], [0, 0, 0], 1.0, 1.0),  # one group on both sides
        ([0, 0, 0, 0], [0, 0, 1, 2], 0.0, 0.0),  # one group on one side
        ([0, 1, 2, 2], [0, 0, 0, 0], 0.0, 0.0),
        ([0, 1, 2], [2, 0, 1], 1.0, 1.0),  # all singletons
        ([0], [1], 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.0, -0.5),  # independent; ARI is below the value for random labels
    ],
)
def test_degenerate_partitions(a: list[int], b: list[int], expected_nmi: float, expected_ari: float) -> None:
    one, other = np.array(a), np.array(b)
    assert nmi(one, other) == pytest.approx(expected_nmi, abs=1e-12)
    assert ari(one, other) == pytest.approx(expected_ari, abs=1e-12)


@pytest.mark.parametrize(("n", "groups"), [(2, 2), (30, 7), (1000, 999), (5000, 1000)])
def test_one_group_on_one_side_is_exactly_zero(n: int, groups: int) -> None:
    many, single = np.arange(n) % groups, np.full(n, 3)
    assert nmi(many, single) == nmi(single, many) == 0.0
    assert ari(many, single) == ari(single, many) == 0.0
    assert nmi(single, single) == ari(single, single) == 1.0
    assert nmi(many, groups - many) == pytest.approx(1.0, abs=1e-12)
    assert nmi(many, groups - many) <= 1.0
    assert ari(many, groups - many) == 1.0


def entropy(shares: npt.NDArray[np.float64]) -> float:
    positive = shares[shares > 0]
    return float(-np.sum(positive * np.log(positive)))


def nmi_by_hand(table: IntArray) -> float:
    """I(A, B) / sqrt(H(A) H(B)) of a contingency table, with more than one group on both sides."""
    joint = table / table.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    seen = joint > 0
    information = float(np.sum(joint[seen] * np.log(joint[seen] / np.outer(rows, columns)[seen])))
    return information / float(np.sqrt(entropy(rows) * entropy(columns)))


def ari_by_hand(table: IntArray) -> float:
    """(index - expected) / (maximum - expected) of a contingency table, in exact integers until the division."""
    counts = (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    together, rows, columns, total = (int(np.sum(c * (c - 1))) // 2 for c in counts)
    return 2 * (together * total - rows * columns) / ((rows + columns) * total - 2 * rows * columns)


@pytest.mark.parametrize(("n", "ids", "classes"), [(20, 2, 2), (60, 5, 3), (400, 7, 20), (3000, 100, 100)])
@pytest.mark.parametrize("signal", [0.0, 0.3, 0.9])
def test_nmi_and_ari_by_hand(n: int, ids: int, classes: int, signal: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, classes, n)
        predicted = np.where(rng.random(n) < signal, truth % ids, rng.integers(0, ids, n))
        table = contingency(predicted, truth, ids, classes)
        assert nmi(predicted, truth) == pytest.approx(max(nmi_by_hand(table), 0.0), abs=1e-12)
        assert ari(predicted, truth) == pytest.approx(ari_by_hand(table), abs=1e-12)
        assert nmi(truth, predicted) == pytest.approx(nmi(predicted, truth), abs=1e-12)


def test_nmi_is_geometric_not_arithmetic() -> None:
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])
    # H(a) = log 2, H(b) = log 4, I = log 2, hence log 2 / sqrt(log 2 · log 4); the arithmetic mean gives 2/3.
    assert nmi(a, b) == pytest.approx(2**-0.5, abs=1e-12)


def test_label_quality_rectangular() -> None:
    pseudo, truth = np.array([0, 0, 0, 2, 2, 3]), np.array([1, 1, 0, 0, 0, 0])
    got = label_quality(pseudo, truth, 4, 2)
    assert got.acc == 4 / 6
    assert got.sizes == (3, 0, 2, 1)
    table = contingency(pseudo, truth, 4, 2)
    assert got.nmi == pytest.approx(nmi_by_hand(table), abs=1e-12)
    assert got.ari == pytest.approx(ari_by_hand(table), abs=1e-12)


def test_clear_errors() -> None:
    with pytest.raises(WhorlError, match="there are no test samples"):
        score(np.empty((0, 2)), np.empty(0, dtype=np.int64), [2])
    with pytest.raises(WhorlError, match="diverged"):
        score(np.array([[np.nan, 0.0]]), np.array([0]), [2])
    with pytest.raises(WhorlError, match="task 2 has no test samples"):
        score(np.eye(3), np.array([0, 1, 1]), [2, 1])
    with pytest.raises(ValueError, match="4 classes"):
        score(np.eye(3), np.array([0, 1, 2]), [2, 2])
