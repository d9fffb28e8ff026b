"""One run's folder.

=====================  ===========================================================================================
config.toml            the whole config
scores.json            the format, the scores of every finished task, and whether the run is finished
log.jsonl              one line an epoch
task-NN.safetensors    the model after task NN, and the labels the task was learned with
memory-NN.safetensors  the exemplars after the last finished task
epoch.safetensors      inside a task: where the last finished epoch left everything
lock                   held by the process that is writing
=====================  ===========================================================================================

``scores.json`` is written last and says what is valid: a file it does not know of yet is simply made again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from whorl.config import Config, checked, read_toml, write_toml
from whorl.engine import Halt, State
from whorl.errors import WhorlError
from whorl.reporter import Record
from whorl.runs.files import (
    append_line,
    nest,
    read_tensors,
    truncate,
    unnest,
    write_tensors,
    write_text,
)
from whorl.scores import RunScores, from_json, to_json
from whorl.types import IntArray

FORMAT = 2

# Worker processes are forked while a lock is held, and would keep it if this process were killed: they let go of it.
_HELD: set[IO[str]] = set()
os.register_at_fork(after_in_child=lambda: [file.close() for file in _HELD])


class NewerFormat(WhorlError):
    """The folder was written by a newer whorl; not even ``--fresh`` touches it."""


class Busy(WhorlError):
    """Another process is writing the run."""


@dataclass(frozen=True)
class Spent:
    """What a task has cost so far, over all sittings."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    images: int = 0


class Run:
    """A run's folder, opened for reading; :meth:`lock` before writing."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._lock: IO[str] | None = None

    @classmethod
    def at(cls, out: Path, config: Config) -> Run:
        """The run of this config under ``out``, there or not."""
        return cls(out / config.title, config)

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run that is there."""
        if not (path / "config.toml").is_file():
            raise WhorlError(f"{path} is not a run: it has no config.toml; `whorl list` shows the runs there are")
        return cls(path, checked(Config, read_toml(path / "config.toml")))

    def lock(self) -> None:
        """Make the folder this process's own until it ends, however it ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = open(self.path / "lock", "a+")  # noqa: SIM115
        except OSError as error:
            raise WhorlError(f"cannot write to {self.path}: {error.strerror}; choose another --out") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise Busy(f"another process ({owner}) is working on {self.path}; wait for it or stop it") from None
        self._lock = file
        _HELD.add(file)
        with suppress(OSError):  # who holds it is only a courtesy, and a full disk is told of when it matters
            file.truncate(0)
            file.write(f"process {os.getpid()}\n")
            file.flush()

    def release(self) -> None:
        """Let others write."""
        if self._lock is not None:
            _HELD.discard(self._lock)
            with suppress(OSError):
                self._lock.close()
            self._lock = None

    def clear(self) -> None:
        """Remove everything but the lock, to start over; what says that the rest is valid goes first."""
        try:
            self.scores()
        except NewerFormat:
            raise
        except WhorlError:
            pass  # damaged: all the more reason
        (self.path / "scores.json").unlink(missing_ok=True)
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "lock":
                entry.unlink()

    def tidy(self, done: int, finished: bool) -> None:
        """Remove what a finished task has made useless, or a kill has left behind."""
        current = f"memory-{done:02}.safetensors"
        stale = [path for path in self.path.glob("memory-*.safetensors") if path.name != current]
        ended = [self.path / "epoch.safetensors"] if finished else []
        for path in [*stale, *ended, *self.path.glob("*.tmp")]:
            path.unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the config, unless it is there already."""
        path, text = self.path / "config.toml", write_toml(self.config)
        if not path.exists() or path.read_bytes() != text.encode():
            write_text(path, text)

    def scores(self) -> RunScores:
        """What ``scores.json`` holds; for a run that has no finished task yet, an empty one."""
        path = self.path / "scores.json"
        if not path.exists():
            return RunScores()
        scores = from_json(path.read_text(encoding="utf-8"), str(path))
        if scores.format > FORMAT:
            raise NewerFormat(f"{self.path} has format {scores.format}, made by a newer whorl; update this one")
        if scores.format < 1:
            raise WhorlError(f"{path} is not a valid file of scores")
        return scores

    def labels(self, tasks: int) -> list[IntArray]:
        """The labels each of the first ``tasks`` tasks was learned with."""
        return [labels.numpy() for labels in self.load_task(tasks).labels]

    def has_task1(self) -> bool:
        """Whether task 1 is finished and can be read."""
        try:
            self.load_first()
            return bool(self.scores().steps)
        except WhorlError:
            return False

    def log(self) -> list[Record]:
        """One record for each epoch."""
        path = self.path / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def save_epoch(self, task: int, halt: Halt, spent: Spent) -> None:
        """After an epoch: first its line in the log, then the state that counts the line as written."""
        written = append_line(self.path / "log.jsonl", json.dumps(halt.record))
        tensors = {"labels": torch.from_numpy(halt.labels)} | nest("model", halt.model) | nest("momentum", halt.momenta)
        for number, start in enumerate(halt.starts, 1):
            tensors |= nest(f"start.{number}", start)
        where = {"task": task, "phase": halt.phase, "epoch": halt.epoch, "starts": len(halt.starts)}
        about = {**where, "log": written, **vars(spent)}
        write_tensors(self.path / "epoch.safetensors", tensors, about)

    def load_epoch(self, task: int) -> tuple[Halt | None, Spent]:
        """Where to go on inside ``task``, if an epoch of it was saved. Log lines of unsaved epochs are dropped."""
        path = self.path / "epoch.safetensors"
        tensors, about = read_tensors(path) if path.exists() else ({}, {})
        log = self.path / "log.jsonl"
        if about.get("task") != task:
            truncate(log, sum(len(line) for line in _lines_before(log, task)))
            return None, Spent()
        truncate(log, about["log"])
        if about["phase"] > about["starts"]:
            raise WhorlError(
                f"{path} does not belong to this run (no start of its phase); "
                "start over with --fresh, or remove the folder"
            )
        with _belonging(path):
            halt = Halt(
                about["phase"],
                about["epoch"],
                tensors["labels"].numpy(),
                unnest("model", tensors),
                unnest("momentum", tensors),
                tuple(unnest(f"start.{number}", tensors) for number in range(1, about["starts"] + 1)),
            )
            return halt, Spent(about["seconds"], about["training_seconds"], about["images"])

    def save_task(self, state: State, scores: RunScores) -> None:
        """After a task: its files, then the scores that make them count, then away with what is no longer needed."""
        done = len(scores.steps)
        tensors = nest("model", state.model) | {"labels": state.labels[-1]}
        write_tensors(self.path / f"task-{done:02}.safetensors", tensors)
        write_tensors(self.path / f"memory-{done:02}.safetensors", state.memory)
        write_text(self.path / "scores.json", to_json(scores))
        (self.path / "epoch.safetensors").unlink(missing_ok=True)
        self.tidy(done, scores.finished)

    def load_first(self) -> dict[str, Tensor]:
        """The model after task 1."""
        path = self.path / "task-01.safetensors"
        tensors, _ = read_tensors(path)
        with _belonging(path):
            model = unnest("model", tensors)
            model["head.weight"]
            return model

    def forget_epochs(self) -> None:
        """Drop what was logged of a first task that another run's takes the place of."""
        truncate(self.path / "log.jsonl", 0)

    def load_task(self, done: int) -> State:
        """The state after task ``done``."""
        paths = [self.path / f"task-{number:02}.safetensors" for number in range(1, done + 1)]
        files = [read_tensors(path)[0] for path in paths]
        memory, _ = read_tensors(self.path / f"memory-{done:02}.safetensors")
        with _belonging(self.path):
            model = unnest("model", files[-1])
            model["head.weight"], memory["images"]
            return State(model, [tensors["labels"] for tensors in files], memory, unnest("model", files[0]))


def stored(out: Path) -> tuple[list[tuple[Run, RunScores]], list[str]]:
    """Every run under ``out`` with its scores, and a line on each folder that cannot be read as one."""
    if not out.is_dir():
        raise WhorlError(f"there is no folder {out} with runs in it; `whorl run` and `whorl reproduce` make it")
    found, left_out = list[tuple[Run, RunScores]](), list[str]()
    try:
        entries = sorted(entry for entry in out.iterdir() if entry.is_dir())
    except OSError as error:
        raise WhorlError(f"cannot read the folder {out}: {error.strerror}") from None
    for path in entries:
        try:
            run = Run.open(path)
            found.append((run, run.scores()))
        except WhorlError as error:
            left_out.append(str(error) if str(path) in str(error) else f"{path}: {error}")
        except OSError as error:
            left_out.append(f"cannot read {path}: {error.strerror}")
    return found, left_out


@contextmanager
def _belonging(path: Path) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise WhorlError(
            f"{path} does not belong to this run (no {error}); start over with --fresh, or remove the folder"
        ) from None


def _lines_before(log: Path, task: int) -> Iterator[bytes]:
    """The log's whole lines of tasks before ``task``; it is a diary, so a damaged line ends it and no more."""
    for line in log.read_bytes().splitlines(keepends=True) if log.exists() else []:
        try:
            if not line.endswith(b"\n") or json.loads(line)["task"] >= task:
                return
        except (ValueError, KeyError, TypeError):
            return
        yield line
