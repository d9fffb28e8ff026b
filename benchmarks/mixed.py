"""Ways to split a delivery into known and new classes, on features of CIFAR-100.

    python benchmarks/mixed.py FEATURES.npz [--only WAY]... [--draws 4] [--first 0] [--labelled 50]
    python benchmarks/mixed.py FEATURES.npz --count 1 3 5 10 20 [--pure]

FEATURES.npz holds ``features`` [n, d] and ``labels`` [n], at least 100 samples a class, by any frozen network. Each
draw picks known classes with some labelled samples each, and a delivery of 10 new classes with 100 samples each and 500
samples of the known classes. Printed are, for 10, 20 and 50 known classes, the mean over the draws and the standard
deviation of: the balanced accuracy of known against new; the end ACC, for which a sample of a known class must get this
class, and new classes are matched one to one with the true ones; and the same if ids are matched freely, known ones
too. ``--count`` prints the estimate of the number of new classes, its range and reasons, and the end ACC with the
estimated and with the given number instead, with 10 known classes; ``--pure`` leaves their samples out of the delivery.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.mixture import GaussianMixture

from whorl.cluster import KMeans
from whorl.cluster.base import unit_rows
from whorl.labels.mixed import split
from whorl.metrics.match import contingency, match, matched_accuracy
from whorl.types import FloatArray, IntArray

KNOWN, NEW, EACH, OF_KNOWN = 10, 10, 100, 500
Draw = tuple[FloatArray, IntArray, FloatArray, IntArray]
Way = Callable[[FloatArray, IntArray, FloatArray, int], IntArray]


def drawn(features: FloatArray, labels: IntArray, known: int, new: int, labelled: int, draw: int) -> Draw:
    """Labelled samples with their classes 0 to known - 1, and a delivery with its true classes."""
    draws = np.random.default_rng(1000 * known + draw)
    rows, taught = list[IntArray](), list[IntArray]()
    for number, name in enumerate(draws.permutation(np.unique(labels))[: known + new]):
        mine = draws.permutation(np.flatnonzero(labels == name))
        if number < known:
            taught.append(mine[:labelled])
        rows.append(mine[labelled : labelled + OF_KNOWN // known] if number < known else mine[:EACH])
    ids = [np.repeat(np.arange(len(part)), [len(one) for one in part]) for part in (taught, rows)]
    return features[np.concatenate(taught)], ids[0], features[np.concatenate(rows)], ids[1]


def means(points: FloatArray, ids: IntArray) -> FloatArray:
    """The mean of each class."""
    return np.stack([points[ids == j].mean(axis=0) for j in range(ids.max() + 1)])


def two_parts(score: FloatArray, nearest: IntArray, points: FloatArray, known: int) -> IntArray:
    """The samples of the upper of two Gaussians fitted to ``score`` are new, and clustered."""
    mixture = GaussianMixture(2, n_init=3, random_state=0).fit(score[:, None])
    is_new = mixture.predict(score[:, None]) == mixture.means_.argmax()
    ids = nearest.copy()
    ids[is_new] = known + KMeans().fit_predict(points[is_new], NEW, 0).labels
    return ids


def cosine(taught: FloatArray, ids: IntArray, points: FloatArray, known: int) -> IntArray:
    """A mixture of two on the cosine to the nearest class mean."""
    near = unit_rows(points) @ unit_rows(means(unit_rows(taught), ids)).T
    return two_parts(-near.max(axis=1), near.argmax(axis=1), unit_rows(points).astype(np.float32), known)


def gaussian(taught: FloatArray, ids: IntArray, points: FloatArray, known: int) -> IntArray:
    """A mixture of two on the distance to the nearest class by a shrunk common covariance."""
    taught, points = unit_rows(taught), unit_rows(points)
    centres = means(taught, ids)
    precision = LedoitWolf(assume_centered=True).fit(taught - centres[ids]).precision_
    far = np.stack([np.einsum("nd,nd->n", (points - c) @ precision, points - c) for c in centres], axis=1)
    return two_parts(np.log(far.min(axis=1)), far.argmin(axis=1), points.astype(np.float32), known)


def anchored(taught: FloatArray, ids: IntArray, points: FloatArray, known: int) -> IntArray:
    """k-means in which labelled samples keep their classes (as in generalised category discovery)."""
    taught, points = unit_rows(taught), unit_rows(points)
    fixed = np.stack([taught[ids == j].sum(axis=0) for j in range(known)])
    counts = np.append(np.bincount(ids), np.zeros(NEW))
    centres = np.concatenate([means(taught, ids), KMeans().fit_predict(points, NEW, 0).centres])
    for _ in range(100):
        labels = (np.square(centres).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        ones = np.eye(known + NEW)[labels]
        sums = ones.T @ points
        sums[:known] += fixed
        centres = sums / np.maximum(counts + ones.sum(axis=0), 1)[:, None]
    return labels.astype(np.int64)


def finer(taught: FloatArray, ids: IntArray, points: FloatArray, known: int) -> IntArray:
    """k-means of all into twice the classes; a cluster is known if a quarter of it or more is labelled."""
    points = unit_rows(np.concatenate([taught, points])).astype(np.float32)
    groups = 2 * (known + NEW)
    labels = KMeans(3).fit_predict(points, groups, 0).labels
    votes = contingency(labels[: len(ids)], ids, groups, known)
    is_known = votes.sum(axis=1) >= 0.25 * np.bincount(labels, minlength=groups)
    found = np.where(is_known, votes.argmax(axis=1), known)[labels[len(ids) :]]
    is_new = found >= known
    found[is_new] = known + KMeans().fit_predict(points[len(ids) :][is_new], NEW, 0).labels
    return found


def whorls(new: int | None) -> Way:
    """The way of whorl, with the number of new classes given or estimated."""
    return lambda taught, ids, points, known: split(taught, points, ids, known, new, KMeans(), 0).ids


WAYS: dict[str, Way] = {
    "cosine": cosine,
    "gaussian": gaussian,
    "anchored": anchored,
    "finer": finer,
    "whorl": whorls(NEW),
    "whorl-estimated": whorls(None),
}


def scores(found: IntArray, truth: IntArray, known: int) -> tuple[float, float, float, int]:
    """Balanced accuracy of known against new, end ACC, ACC with ids matched freely, and the number of new classes."""
    new, said, classes = truth >= known, found >= known, int(truth.max()) + 1
    ids = max(int(found.max()) + 1, classes)
    table = contingency(found, truth, ids, classes)
    inner = table[known:, known:]
    columns = match(inner)
    right = np.trace(table[:known, :known]) + sum(inner[i, j] for i, j in enumerate(columns) if j >= 0)
    balanced = (said[new].mean() + 1 - said[~new].mean()) / 2 if not new.all() else said.mean()
    ends = right / len(truth), matched_accuracy(found, truth, ids, classes)
    return float(balanced), float(ends[0]), ends[1], len(np.unique(found[said]))


def counted(data: tuple[FloatArray, IntArray], new: int, draws: range, labelled: int, pure: bool) -> None:
    """Print the estimate of each draw with ``new`` classes, and its end ACC beside that with the number given."""
    for draw in draws:
        taught, ids, points, truth = drawn(*data, KNOWN, new, labelled, draw)
        if pure:
            points, truth = points[truth >= KNOWN], truth[truth >= KNOWN]
        said, told = (split(taught, points, ids, KNOWN, number, KMeans(), 0) for number in (None, new))
        found, ends = said.found, [scores(each.ids, truth, KNOWN)[1] for each in (said, told)]
        assert found is not None
        line = f"{new} new, draw {draw}: {found.new} ({found.low} to {found.high})"
        print(f"{line} ACC {ends[0]:.3f}, given {ends[1]:.3f}; {found.reasons}", flush=True)


def main() -> None:
    """Print one line for each way, or for each number of new classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--only", action="append", choices=WAYS)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--labelled", type=int, default=50)
    parser.add_argument("--count", type=int, nargs="+")
    parser.add_argument("--pure", action="store_true")
    flags = parser.parse_args()
    with np.load(flags.file) as stored:
        data = stored["features"], stored["labels"].astype(np.int64)
    draws = range(flags.first, flags.first + flags.draws)
    for new in flags.count or ():
        counted(data, new, draws, flags.labelled, flags.pure)
    for way in () if flags.count else flags.only or WAYS:
        parts = list[str]()
        for known in (10, 20, 50):
            each = list[tuple[float, float, float, int]]()
            for draw in draws:
                taught, ids, points, truth = drawn(*data, known, NEW, flags.labelled, draw)
                each.append(scores(WAYS[way](taught, ids, points, known), truth, known))
            mean, spread = np.mean(each, axis=0)[:3], np.std(each, axis=0)[:3]
            said = " ".join(f"{a:.3f}±{b:.3f}" for a, b in zip(mean, spread, strict=True))
            parts.append(f"{known}: {said} new {[one[3] for one in each]}")
            print(f"{way:16} {parts[-1]}", flush=True)


if __name__ == "__main__":
    main()
