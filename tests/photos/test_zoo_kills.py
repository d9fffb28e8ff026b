"""Random SIGKILLs over learning, merging and undoing: the model folder is as it was, or as the command leaves it."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import checks
from albums import digits
from whorl.photos.catalog import Catalog
from whorl.photos.store import Store, replayed
from whorl.photos.zoo import Zoo

KILLS = 30
CHANGES = "open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "sqlite3.connect", "shutil.rmtree"
COMMANDS = ("learn", "merge", "undo", "correct")


def _act(command: str, home: Path) -> None:
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        if command == "learn":
            zoo.learn(home / "june", keep_photos=True)
        elif command == "merge":
            zoo.merge([5, 6])
        elif command == "undo":
            zoo.undo()
        else:
            zoo.learn()


def _until_killed(command: str, home: Path, event: int) -> None:
    """Run a command; the process kills itself at a change of a file, a transaction or an update of the weights."""
    torch.set_num_threads(1)
    count = checks.killer(event)

    def audit(name: str, values: tuple[Any, ...]) -> None:
        if name in CHANGES and str(values[0]).startswith(str(home / "zoo")):
            count()

    sys.addaudithook(audit)
    register_optimizer_step_post_hook(count)
    append = Store.append

    def counted(self: Store, *values: Any) -> int:
        found = append(self, *values)
        count()  # within the transaction, before it is committed
        return found

    Store.append = counted  # type: ignore[method-assign, assignment]
    _act(command, home)


def _whole(home: Path) -> Catalog:
    """The catalog, after a check of everything: database, log, and the files that it names."""
    with Zoo.open(home / "zoo", verbose=0) as zoo:
        assert replayed(zoo.history()) == zoo.catalog
        assert len(zoo.predict(sorted((home / "may").iterdir())[:2])) == 2
        return zoo.catalog


@pytest.mark.slow
def test_random_kills(learned: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["whorl.photos.learning", "whorl.photos.predicting", "sklearn.cluster"])
    draws, killed, round_ = np.random.default_rng(0), dict.fromkeys(COMMANDS, 0), 0
    while sum(killed.values()) < KILLS:
        home, round_ = tmp_path / str(round_), round_ + 1
        shutil.copytree(learned, home)
        digits(home / "june", [7, 8], 0, 10)
        for command in COMMANDS:
            if command == "correct":
                _act("merge", home)
            before, ended = _whole(home), False
            for _ in range(4):
                most = 60 if command in ("learn", "correct") else 5
                process = context.Process(target=_until_killed, args=(command, home, int(draws.integers(1, most))))
                process.start()
                process.join()
                assert process.exitcode in (0, -signal.SIGKILL)
                after, ended = _whole(home), process.exitcode == 0
                assert ended or after == before
                killed[command] += not ended
                if ended:
                    break
            if not ended:
                _act(command, home)
        assert not list((home / "zoo").rglob(".new-*")) or _swept(home)
        shutil.rmtree(home)
    assert min(killed.values()) > KILLS // 20


def _swept(home: Path) -> bool:
    """Whether the next command removes what the killed ones have left."""
    _act("correct", home)
    return not list((home / "zoo").rglob(".new-*"))
