from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, top_k_accuracy_score

from whorl.errors import WhorlError
from whorl.metrics.match import contingency
from whorl.metrics.scores import ari, label_quality, nmi, score, top_ids
from whorl.types import FloatArray, IntArray


def sample(seed: int, n: int = 300, classes: int = 6, signal: float = 1.5) -> tuple[FloatArray, IntArray]:
    """Logits that know something of the truth, with ids of tasks 2 and 3 renamed as clustering would."""
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
    assert got.nmi == pytest.approx(
        normalized_mutual_info_score(truth, predicted, average_method="geometric"), abs=1e-12
    )
    assert got.ari == pytest.approx(adjusted_rand_score(truth, predicted), abs=1e-12)
    # Columns put where the mapping sends them: then plain Top-5 is the matched Top-5.
    inverse = np.argsort(got.mapping)
    assert got.acc5 == pytest.approx(top_k_accuracy_score(truth, logits[:, inverse], k=5), abs=1e-12)
    mapped = np.array(got.mapping)[predicted]
    for task in range(3):
        inside = truth // 2 == task
        assert got.per_task[task] == pytest.approx(np.mean(mapped[inside] == truth[inside]), abs=1e-12)
    assert got.acc_trainmap is None


@pytest.mark.parametrize("seed", range(5))
def test_anchored_is_the_best_mapping_that_keeps_to_tasks(seed: int) -> None:
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
    # Ids 0 and 1 are swapped: a free matching forgives that, an anchored one does not. Ids 2 and 3 may swap.
    truth = np.array([0, 1, 2, 3])
    got = score(np.eye(4)[[1, 0, 3, 2]], truth, [2, 2])
    assert (got.acc, got.acc_plain, got.acc_anchored) == (1.0, 0.0, 0.5)
    assert got.mapping == (1, 0, 3, 2)
    # Across tasks: ids 1 and 2 are swapped, and no mapping inside the tasks mends it.
    assert score(np.eye(4)[[0, 2, 1, 3]], truth, [2, 2]).acc_anchored == 0.5


def test_trainmap_is_taken_as_given() -> None:
    logits, truth = np.eye(3)[[0, 1, 2, 2]], np.array([0, 2, 1, 2])
    assert score(logits, truth, [1, 2], np.array([0, 2, 1])).acc_trainmap == 0.75
    assert score(logits, truth, [1, 2], np.array([0, 2, -1])).acc_trainmap == 0.5
    with pytest.raises(ValueError, match="trainmap"):
        score(logits, truth, [1, 2], np.array([0, 2]))


def test_top5_goes_through_the_top1_matching() -> None:
    # Seven ids named in reverse. The last sample has its id sixth: a miss. Its Top-1 is that of class 0.
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


def test_blocks_do_not_show() -> None:
    logits = np.random.default_rng(0).integers(0, 4, (9000, 7)).astype(np.float32)
    assert np.array_equal(top_ids(logits, 5), np.argsort(-logits, axis=1, kind="stable")[:, :5])


@pytest.mark.parametrize(
    ("a", "b", "expected_nmi", "expected_ari"),
    [
        ([0, 0, 0], [0, 0, 0], 1.0, 1.0),  # one group on both sides: they agree
        ([0, 0, 0, 0], [0, 0, 1, 2], 0.0, 0.0),  # one group on one side: nothing is shared
        ([0, 1, 2, 2], [0, 0, 0, 0], 0.0, 0.0),
        ([0, 1, 2], [2, 0, 1], 1.0, 1.0),  # all singletons
        ([0], [1], 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.0, -0.5),  # independent: worse than chance for ARI
    ],
)
def test_degenerate_partitions(a: list[int], b: list[int], expected_nmi: float, expected_ari: float) -> None:
    table = contingency(np.array(a), np.array(b), 3, 3)
    assert nmi(table) == pytest.approx(expected_nmi, abs=1e-12)
    assert ari(table) == pytest.approx(expected_ari, abs=1e-12)
    assert nmi(table) == pytest.approx(normalized_mutual_info_score(a, b, average_method="geometric"), abs=1e-9)
    assert ari(table) == pytest.approx(adjusted_rand_score(a, b), abs=1e-12)


def test_nmi_is_geometric_not_arithmetic() -> None:
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])
    # H(a) = log 2, H(b) = log 4, I = log 2, hence log 2 / sqrt(log 2 · log 4); the arithmetic mean gives 2/3.
    assert nmi(contingency(a, b, 4, 4)) == pytest.approx(2**-0.5, abs=1e-12)


def test_label_quality_rectangular() -> None:
    pseudo, truth = np.array([0, 0, 0, 2, 2, 3]), np.array([1, 1, 0, 0, 0, 0])
    got = label_quality(pseudo, truth, 4, 2)
    assert got.acc == 4 / 6
    assert got.sizes == (3, 0, 2, 1)
    assert got.nmi == pytest.approx(normalized_mutual_info_score(truth, pseudo, average_method="geometric"), abs=1e-12)
    assert got.ari == pytest.approx(adjusted_rand_score(truth, pseudo), abs=1e-12)


def test_clear_errors() -> None:
    with pytest.raises(WhorlError, match="no test images"):
        score(np.empty((0, 2)), np.empty(0, dtype=np.int64), [2])
    with pytest.raises(WhorlError, match="diverged"):
        score(np.array([[np.nan, 0.0]]), np.array([0]), [2])
    with pytest.raises(WhorlError, match="task 2"):
        score(np.eye(3), np.array([0, 1, 1]), [2, 1])
    with pytest.raises(ValueError, match="4 classes"):
        score(np.eye(3), np.array([0, 1, 2]), [2, 2])
