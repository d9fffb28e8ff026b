"""The battery for methods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from whorl.engine import Learner
from whorl.methods import METHODS
from whorl.methods.base import Method
from whorl.reporter import Silent
from whorl.runs import checkpoint
from whorl.testing.bench import (
    INITIAL,
    KNOWN,
    MIXED,
    NEW,
    Bench,
    Lesson,
    Parcel,
    content,
    hidden,
    images,
    no_errors,
    registered,
    require,
    require_same,
    vectors,
)
from whorl.training import Halt
from whorl.tree import Tree


def check_method(method: str | type[Method], folder: Path, settings: Tree | None = None) -> None:
    """Check that a method keeps every promise the engine relies on.

    The method learns a few small deliveries with a tiny network: a labelled one, new classes with and without
    labels, new and known classes together, known classes alone, and vectors. On the way the battery checks that

    * equal seeds give equal bits, also for a learner restored from its files;
    * training that stops after any epoch and resumes ends with the same bits, also where pseudo labels are refreshed;
    * a step that is interrupted leaves the learner as it was, and no step changes the previous model;
    * hidden labels are not used;
    * scores are finite, and there is one per class;
    * the memory keeps its quota and holds samples under the labels they were learned with;
    * no samples are held after a step, unless the method declares ``needs_past``;
    * the features of a sample are extracted once per state of the network.

    Parameters
    ----------
    method : str or type of Method
        The name of a registered method, or the class itself.
    folder : Path
        An empty folder for checkpoints, such as ``tmp_path`` of pytest.
    settings : dict, optional
        Config values the method needs with so little data, for instance ``{"method": {"epochs": 2}}``. By default the
        deliveries have 28 to 40 samples, classes have 4 exemplars, and every step trains for two epochs.

    Raises
    ------
    AssertionError
        If a promise is broken. The message says which one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from whorl.testing import check_method
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_method("finetune", Path(folder))
    """
    with registered(METHODS, method, "" if isinstance(method, str) else method.name) as name:
        given = Bench.of(name, images(), folder / "labelled", settings)
        learner = given.learner()
        for parcel in (INITIAL, NEW, MIXED, KNOWN):
            check_lesson(given, learner, parcel)
        check_again(given, range(4))
        without = given.branch("unlabelled", lessons=1)
        learner = without.learner()
        for parcel in (hidden(NEW), hidden(MIXED)):
            check_lesson(without, learner, parcel)
        check_again(without, range(1, 3))
        _check_refresh(given)
        embedded = Bench.of(name, vectors(), folder / "vectors", settings)
        learner = embedded.learner()
        for parcel in (INITIAL, hidden(NEW), MIXED):
            check_lesson(embedded, learner, parcel)
        check_again(embedded, [2])


def _check_refresh(bench: Bench) -> None:
    """The same over a delivery whose pseudo labels are refreshed, where the method allows it."""
    refreshed = bench.branch("refreshed", 1, {"pseudo": {"refresh": 1}})
    learner = refreshed.learner()
    if learner.method.online or learner.method.hold_out_every or bench.config.pseudo.features != "current":
        return
    check_lesson(refreshed, learner, hidden(NEW))
    check_again(refreshed, [1])


def check_lesson(bench: Bench, learner: Learner, parcel: Parcel) -> None:
    """Learn a delivery, and check what the learner is afterwards."""
    known = learner.known
    lesson = bench.lesson(learner, parcel)
    require(learner.known == known + parcel.new, f"the learner has {learner.known} classes, not {known + parcel.new}")
    found = np.unique(lesson.labels)
    require(set(range(known, learner.known)) <= set(found.tolist()), f"new classes without samples: labels are {found}")
    require(all(map(math.isfinite, lesson.settled.values())), f"`settle` reported {lesson.settled}")
    require(
        not lesson.repeated,
        f"the features of {lesson.repeated} samples were extracted again although the network had not changed",
    )
    with no_errors(f"predicting after {parcel}"):
        scores = learner.classifier.scores(bench.material.test)
    for rule, values in scores.items():
        require(values.shape[1] == learner.known, f"{rule} gives {values.shape[1]} scores for {learner.known} classes")
        require(bool(np.isfinite(values).all()), f"some scores of {rule} are not finite")
    _check_memory(bench, learner, lesson)


def _check_memory(bench: Bench, learner: Learner, lesson: Lesson) -> None:
    memory = learner.memory
    quota = memory.per_class(learner.known)
    if not quota:
        require(not len(memory), "exemplars are stored although the quota is 0")
        return
    sizes = np.bincount(memory.labels, minlength=learner.known)
    require(bool(sizes.max() <= quota), f"a class has {sizes.max()} exemplars; its quota is {quota}")
    require(bool(sizes.min() > 0), "a class has no exemplar")
    require(len(torch.unique(memory.images.flatten(1), dim=0)) == len(memory), "an exemplar is stored more than once")
    if bench.config.memory.reading == "recluster" and lesson.parcel.hidden:
        return  # stores ids of other clusters than it learned
    delivered = bench.material.deliver(lesson.parcel).images.read(np.arange(len(lesson.labels))).flatten(1)
    for index in np.flatnonzero(memory.tasks == len(bench.lessons)):
        same = (delivered == memory.images[index].flatten()).all(dim=1).numpy()
        require(
            memory.labels[index] in lesson.labels[same], "an exemplar is stored under a label it was not learned with"
        )


def check_again(bench: Bench, lessons: range | list[int]) -> None:
    """Learn deliveries again from the stored states: after an interrupt, and from the stored positions."""
    for number in lessons:
        lesson = bench.lessons[number]
        where = f"delivery {number + 1}"
        learner = bench.learner(number)
        before = content(learner)
        if _interrupted(bench, learner, lesson.parcel):
            require_same(content(learner), before, f"{where} was interrupted, and the learner has changed")
        else:
            learner = bench.learner(number)
        require(bench.released(learner, lesson.parcel), f"{where}: the learner still holds the samples")
        kept = number + 1 if learner.method.needs_past else 0
        require(len(learner.past) == kept, f"{where}: the learner keeps {len(learner.past)} deliveries, not {kept}")
        require_same(content(learner), lesson.after, f"{where} was learned again with the same seed")
        require(learner.settled == lesson.settled, f"{where}: `settle` reported {learner.settled}, {lesson.settled}")
        for halt in _positions(lesson):
            resumed = bench.learner(number)
            bench.teach(resumed, lesson.parcel, halt)
            at = f"after epoch {halt.epoch + 1} of phase {halt.phase + 1}"
            require_same(content(resumed), lesson.after, f"{where} was stopped {at} and resumed")
            require(resumed.settled == lesson.settled, f"{where} was resumed {at}: `settle` reported other values")


def _interrupted(bench: Bench, learner: Learner, parcel: Parcel) -> bool:
    """Stop a step in the middle of its earliest epoch, and once more after it.

    False if the step cannot be stopped, because no epoch is trained; the learner has then finished it.
    """

    class Stop(Exception):
        pass

    class Stopping(Silent):
        def tick(self, images: int, loss: Tensor) -> None:
            raise Stop

    for ticker in (Stopping(), Silent()):
        started = learner.learn(bench.material.deliver(parcel), ticker)
        with no_errors(parcel), suppress(Stop):
            if next(started, None) is None:
                return False
        started.close()
    return True


def _positions(lesson: Lesson) -> Iterator[Halt]:
    """The stored positions after the earliest and the last epoch of each phase."""
    halts = [checkpoint.load_epoch(path)[1] for path in lesson.halts]
    found = [halt for halt in halts if halt is not None]
    require(len(found) == len(halts), "a stored position cannot be read")
    for _, group in groupby(found, key=lambda halt: halt.phase):
        phase = list(group)
        yield from phase if len(phase) < 2 else (phase[0], phase[-1])
