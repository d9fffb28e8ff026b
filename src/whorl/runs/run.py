"""One run's folder: config, scores, log and checkpoints.

=====================  ===========================================================================================
config.toml            the whole config
scores.json            the scores of every finished task, whether the run is finished, and its provenance
log.jsonl              one line per epoch
task-NN.safetensors    the model after task NN, and the labels the task was learned with
memory-NN.safetensors  the exemplars and class means after the last finished task
epoch.safetensors      inside a task: the position after the last finished epoch
lock                   held by the process that is writing
=====================  ===========================================================================================

``scores.json`` is written last and decides what is valid. Files it does not mention yet are computed again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout
from torch import Tensor

from whorl.config import ExperimentConfig, checked, read_toml, write_toml
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.runs import checkpoint
from whorl.runs.checkpoint import Spent
from whorl.runs.files import START_OVER, append_line, read_tensors, truncate, write_text
from whorl.scores import FORMAT, RunScores, from_json, to_json
from whorl.state import State
from whorl.training import Halt
from whorl.types import IntArray, Labelling


class NewerFormat(WhorlError):
    """The folder was written by a newer version of whorl; not even ``fresh`` removes it."""


class RunBusy(WhorlError):
    """Another process is writing the run."""


class Run:
    """A run's folder. Call :meth:`lock` before writing."""

    def __init__(self, path: Path, config: ExperimentConfig) -> None:
        self.path: Path = path
        self.config: ExperimentConfig = config
        self._lock = FileLock(path / "lock")

    @classmethod
    def at(cls, out: Path, config: ExperimentConfig) -> Run:
        """The run of a config below the folder ``out``, whether it exists or not."""
        return cls(out / config.title, config)

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run."""
        if not (path / "config.toml").is_file():
            raise WhorlError(f"{path} is not a run: it has no config.toml; `whorl list` shows the stored runs")
        source = f"config.toml of run {path.name}"
        return cls(path, checked(ExperimentConfig, read_toml(path / "config.toml"), source=source))

    def lock(self) -> None:
        """Reserve the folder for this process until it releases it or ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            with suppress(OSError):
                owner = (self.path / "owner").read_text(encoding="utf-8").strip()
                raise RunBusy(f"another process ({owner}) is working on {self.path}; wait for it or stop it") from None
            raise RunBusy(f"another process is working on {self.path}; wait for it or stop it") from None
        except OSError as error:
            raise WhorlError(f"cannot write to {self.path}: {error.strerror}; choose another `out`") from None
        with suppress(OSError):
            (self.path / "owner").write_text(f"process {os.getpid()}\n", encoding="utf-8")

    def release(self) -> None:
        """Let other processes write."""
        if self._lock.is_locked:
            with suppress(OSError):
                (self.path / "owner").unlink(missing_ok=True)
            self._lock.release()

    def clear(self) -> None:
        """Remove everything except the lock. The scores go first, since they declare the rest valid."""
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
            elif entry.name not in ("lock", "owner"):
                entry.unlink()

    def tidy(self, done: int, finished: bool) -> None:
        """Remove files that a finished task made obsolete, or that a killed process left behind."""
        current = f"memory-{done:02}.safetensors"
        stale = [path for path in self.path.glob("memory-*.safetensors") if path.name != current]
        ended = [self.path / "epoch.safetensors"] if finished else []
        for path in [*stale, *ended, *self.path.glob("*.tmp")]:
            path.unlink(missing_ok=True)

    def begin(self) -> None:
        """Write the config, unless it is stored already."""
        path, text = self.path / "config.toml", write_toml(self.config)
        if not path.exists() or path.read_bytes() != text.encode():
            write_text(path, text)

    def scores(self) -> RunScores:
        """The stored scores; empty for a run without a finished task."""
        path = self.path / "scores.json"
        if not path.exists():
            return RunScores()
        try:
            text = path.read_text(encoding="utf-8")
            found = json.loads(text)
        except OSError as error:
            raise WhorlError(f"cannot read {path}: {error.strerror}; {START_OVER}") from None
        except ValueError as error:
            raise WhorlError(f"{path} is not a valid file of scores ({error}); {START_OVER}") from None
        version = found.get("format") if isinstance(found, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormat(f"{self.path} has format {version}, made by a newer whorl; update this one ({FORMAT})")
        if version not in range(1, FORMAT + 1) or "steps" not in found or "finished" not in found:
            raise WhorlError(f"{path} is not a valid file of scores; {START_OVER}")
        try:
            return from_json(text, str(path))
        except WhorlError as error:
            raise WhorlError(f"{error}; {START_OVER}") from None

    def log(self) -> list[dict[str, object]]:
        """One record per epoch."""
        path = self.path / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def save_epoch(self, task: int, halt: Halt, spent: Spent) -> None:
        """After an epoch: write its line in the log, then the position, which counts the line as written."""
        assert halt.record is not None
        record = {**asdict(halt.record), "images_per_second": halt.record.images_per_second}
        written = append_line(self.path / "log.jsonl", json.dumps(record))
        checkpoint.save_epoch(self.path / "epoch.safetensors", task, halt, spent, written)

    def load_epoch(self, task: int) -> tuple[Halt | None, Spent]:
        """The position inside ``task``, if an epoch of it was saved. Log lines of unsaved epochs are dropped."""
        path, log = self.path / "epoch.safetensors", self.path / "log.jsonl"
        if path.exists():
            where, halt, spent = checkpoint.load_epoch(path)
            if where.task == task and halt is not None:
                truncate(log, where.log)
                return halt, spent
        truncate(log, sum(len(line) for line in _lines_before(log, task)))
        return None, Spent()

    def save_task(self, state: State, labels: Labelling, scores: RunScores) -> None:
        """After a task: write its files, then the scores that make them valid, then remove what is obsolete."""
        done = len(scores.steps)
        checkpoint.save_task(self.path, done, state, labels)
        write_text(self.path / "scores.json", to_json(scores))
        (self.path / "epoch.safetensors").unlink(missing_ok=True)
        self.tidy(done, scores.finished)

    def load_task(self, done: int, inputs: Inputs) -> State:
        """The learner's state after task ``done``; ``inputs`` is used where an older file does not store it."""
        return checkpoint.load_task(self.path, done, inputs)

    def labels(self, tasks: int) -> list[IntArray]:
        """The labels that each of the tasks 1 to ``tasks`` was learned with."""
        paths = [self.path / f"task-{number:02}.safetensors" for number in range(1, tasks + 1)]
        found = [read_tensors(path)[0] for path in paths]
        with checkpoint.belonging(self.path):
            return [tensors["labels"].numpy() for tensors in found]

    def task1_model(self) -> dict[str, Tensor]:
        """The model after task 1."""
        return checkpoint.load_model(self.path, 1)[0]

    def has_task1(self) -> bool:
        """Whether task 1 is finished and its model can be read."""
        try:
            return bool(self.scores().steps and self.task1_model())
        except WhorlError:
            return False

    def forget_epochs(self) -> None:
        """Drop the log of an unfinished task 1 that another run's task 1 replaces."""
        truncate(self.path / "log.jsonl", 0)


def stored(out: Path) -> tuple[list[tuple[Run, RunScores]], list[str]]:
    """Every run below ``out`` with its scores, and a message for each folder that cannot be read as a run."""
    if not out.is_dir():
        raise WhorlError(f"there is no folder {out} with runs in it; `whorl run` and `whorl reproduce` create it")
    found, unreadable = list[tuple[Run, RunScores]](), list[str]()
    try:
        entries = sorted(entry for entry in out.iterdir() if entry.is_dir())
    except OSError as error:
        raise WhorlError(f"cannot read the folder {out}: {error.strerror}") from None
    for path in entries:
        try:
            run = Run.open(path)
            found.append((run, run.scores()))
        except WhorlError as error:
            unreadable.append(str(error) if str(path) in str(error) else f"{path}: {error}")
        except OSError as error:
            unreadable.append(f"cannot read {path}: {error.strerror}")
    return found, unreadable


def _lines_before(log: Path, task: int) -> Iterator[bytes]:
    """The complete log lines of tasks before ``task``, up to the first damaged line."""
    for line in log.read_bytes().splitlines(keepends=True) if log.exists() else []:
        try:
            if not line.endswith(b"\n") or json.loads(line)["task"] >= task:
                return
        except (ValueError, KeyError, TypeError):
            return
        yield line
