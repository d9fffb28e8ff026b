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

``scores.json`` is written last and decides what is valid. Files it does not mention yet are computed again. Other
files in the folder belong to the user and are never touched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter
from torch import Tensor

from whorl.config import ExperimentConfig, checked, write_toml
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.explain import reason
from whorl.reporter import EpochRecord
from whorl.runs import checkpoint
from whorl.runs.checkpoint import Spent
from whorl.runs.files import (
    START_OVER,
    TEMPORARY,
    append_line,
    kind,
    opened,
    read_bytes,
    read_json,
    sealed,
    truncate,
    write_json,
    write_text,
)
from whorl.scores import FORMAT, RunScores, Summary, from_json, to_json
from whorl.state import State
from whorl.training import Halt
from whorl.tree import read_toml
from whorl.types import IntArray, Labelling

_OWN = re.compile(
    r"(?:config\.toml|scores\.json|log\.jsonl|epoch\.safetensors|(?:task|memory)-(\d{2,})\.safetensors|error\.txt)"
    rf"(?:(?:\.[0-9a-f]{{8}})?{re.escape(TEMPORARY)})?"
)
"""The files of a run, and their names before they are complete."""


_RECORD = TypeAdapter(EpochRecord)
_RECORD_KEYS = {*(field.name for field in fields(EpochRecord)), "images_per_second"}
REPAIR = "repeat the command that made the run to write it again"
"""What to do about a damaged config."""
REPAIR_LOG = "put back a copy of the file; the scores do not depend on it"
"""What to do about a damaged log."""


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
        """An existing run. Raises if its config is damaged or belongs to a folder of another name."""
        file = path / "config.toml"
        if not os.path.lexists(file):
            raise WhorlError(f"{path} is not a run: it has no config.toml; `whorl list` shows the stored runs")
        try:
            read_bytes(file)
            config = checked(ExperimentConfig, read_toml(file))
            titles = config.title, config.earlier_title
        except OSError as error:
            raise WhorlError(f"cannot read {file}: {reason(error)}; {REPAIR}") from None
        except (WhorlError, ValueError, RecursionError) as error:
            why = reason(error).replace("`", "")  # keys of the file, not flags
            raise WhorlError(f"config.toml of run {path}: {why}; {REPAIR}") from None
        if not {path.name, path.resolve().name} & {*titles}:  # a folder elsewhere may be linked under its name
            raise WhorlError(
                f"config.toml of run {path} belongs to {titles[0]}: the file was changed, or the folder was renamed or "
                f"copied; {REPAIR}, or give the folder that name"
            )
        return cls(path, config)

    def lock(self) -> None:
        """Reserve the folder for this process until it releases it or ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("lock", "owner"):
                self._require_file(self.path / name)
            self._lock.acquire(timeout=0)
        except Timeout:
            with suppress(OSError, ValueError):
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

    def require_files(self, tasks: int) -> None:
        """Raise if a folder or a pipe has the name of one of the run's files, or if the log is a link."""
        for entry in self._own(tasks):
            if entry.is_symlink() and entry.name == "log.jsonl":
                raise WhorlError(f"{entry} is a link, and whorl would write to its target; remove the link")
            self._require_file(entry, links=True)

    @staticmethod
    def _require_file(path: Path, links: bool = False) -> None:
        """Raise if ``path`` exists and is no file; ``links`` allows a link, which is replaced and not written to."""
        other = kind(path)
        if other and not (links and path.is_symlink()):
            raise WhorlError(f"{path} is {other}, and whorl writes a file of that name; move it away")

    def require_scores(self, tasks: int) -> None:
        """Raise if the scores are missing although a task was finished, so that nothing is learned again unasked."""
        path = self.path / "scores.json"
        if os.path.lexists(path):
            return
        later = any(os.path.lexists(checkpoint.task_file(self.path, number)) for number in range(2, tasks + 1))
        with suppress(WhorlError):
            later = later or any(isinstance(task := record["task"], int) and task > 1 for record in self.log())
        if later:
            raise WhorlError(f"{path} is missing, although a task was finished; {START_OVER}")

    def clear(self, tasks: int) -> None:
        """Remove the files of the run and of its ``tasks`` tasks, but no others.

        The scores go first, since they declare the rest valid.
        """
        try:
            self.scores()
        except NewerFormat:
            raise
        except WhorlError:
            pass  # damaged: all the more reason
        for entry in sorted(self._own(tasks), key=lambda path: path.name != "scores.json"):
            _remove(entry)

    def tidy(self, done: int, finished: bool) -> None:
        """Remove files that a finished task made obsolete, or that a killed process left behind."""
        for path in self._obsolete(done, finished):
            _remove(path)

    def tidy_finished(self, done: int) -> None:
        """Remove what a kill left behind in a finished run, if the folder can be written."""
        if list(self._obsolete(done, True)) or (self.path / "owner").exists():
            with suppress(WhorlError):
                self.lock()
                try:
                    self.tidy(done, True)
                finally:
                    self.release()

    def _obsolete(self, done: int, finished: bool) -> Iterator[Path]:
        for path in self._own(done if finished else done + 1):
            stale = path.name.startswith("memory-") and path.name != f"memory-{done:02}.safetensors"
            ended = finished and path.name == "epoch.safetensors"
            if stale or ended or path.name.endswith(TEMPORARY):
                yield path

    def _own(self, tasks: int) -> list[Path]:
        """The files of the run. Those of tasks after ``tasks`` belong to the user."""
        numbers = {None, *(f"{number:02}" for number in range(1, tasks + 1))}
        try:
            names = {entry: _OWN.fullmatch(entry.name) for entry in self.path.iterdir()}
            return [entry for entry, found in names.items() if found and found[1] in numbers]
        except OSError as error:
            raise WhorlError(f"cannot read the folder {self.path}: {reason(error)}") from None

    def begin(self) -> str:
        """Write the config, unless it is stored already. Returns a message if it replaces a damaged or missing one."""
        path, text = self.path / "config.toml", write_toml(self.config)
        if path.is_file() and path.read_bytes() == text.encode():
            return ""
        lost = (self.path / "scores.json").exists() and not os.path.lexists(path)
        damaged = os.path.lexists(path) and not self._opens()
        write_text(path, text)
        return f"{path} was {'missing' if lost else 'damaged'} and has been written again" if lost or damaged else ""

    def _opens(self) -> bool:
        try:
            return bool(Run.open(self.path))
        except WhorlError:
            return False

    def finished(self) -> RunScores | None:
        """The scores of a run that is finished and undamaged, else None. Needs no lock and writes nothing."""
        try:
            found = Run.open(self.path).scores()
        except WhorlError:
            return None
        return found if found.finished else None

    def scores(self) -> RunScores:
        """The stored scores; empty for a run without a finished task."""
        path = self.path / "scores.json"
        if not os.path.lexists(path):
            return RunScores()
        found = read_json(path)
        version = found.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormat(f"{self.path} has format {version}, made by a newer whorl; update this one ({FORMAT})")
        owner = found.pop("run", "")
        known = {*RunScores.model_fields, *Summary.model_fields}
        valid = version in range(1, FORMAT + 1) and isinstance(owner, str)
        if not valid or not {"steps", "finished"} <= found.keys() <= known:
            raise WhorlError(f"{path} is not a valid file of scores; {START_OVER}")
        checkpoint.require_run(path, owner, self.config.hash)
        try:
            return from_json(json.dumps(found), str(path))
        except WhorlError as error:
            raise WhorlError(f"{error}; {START_OVER}") from None

    def log(self) -> list[dict[str, object]]:
        """One record per epoch."""
        path = self.path / "log.jsonl"
        try:
            lines = read_bytes(path).splitlines() if os.path.lexists(path) else []
        except OSError as error:
            raise WhorlError(f"cannot read {path}: {reason(error)}") from None
        found = list[dict[str, object]]()
        for number, line in enumerate(lines, 1):
            try:
                record = opened(line)
                _RECORD.validate_json(json.dumps(record), strict=True)
                if not record.keys() <= _RECORD_KEYS:
                    raise ValueError("unknown key")
                found.append(record)
            except (ValueError, RecursionError) as error:
                raise WhorlError(f"{path} is damaged in line {number} ({reason(error)}); {REPAIR_LOG}") from None
        return found

    def save_epoch(self, task: int, halt: Halt, spent: Spent) -> None:
        """After an epoch: write its line in the log, then the position, which counts the line as written."""
        assert halt.record is not None
        record = {**asdict(halt.record), "images_per_second": halt.record.images_per_second}
        written = append_line(self.path / "log.jsonl", json.dumps(sealed(record)))
        checkpoint.save_epoch(self.path / "epoch.safetensors", task, halt, spent, written, self.config.hash)

    def load_epoch(self, task: int) -> tuple[Halt | None, Spent, int]:
        """The position inside ``task``, if an epoch of it was saved, and the length of the log at that position."""
        path = self.path / "epoch.safetensors"
        if os.path.lexists(path):
            where, halt, spent = checkpoint.load_epoch(path, self.config.hash)
            if where.task == task and halt is not None:
                return halt, spent, where.log
        return None, Spent(), self.log_before(task)

    def log_before(self, task: int) -> int:
        """The length of the log without the lines of ``task``."""
        return sum(len(line) for line in _lines_before(self.path / "log.jsonl", task))

    def cut_log(self, length: int) -> None:
        """Drop the log lines of epochs that were not saved."""
        truncate(self.path / "log.jsonl", length)

    def save_task(self, state: State, labels: Labelling, scores: RunScores) -> None:
        """After a task: write its files, then the scores that make them valid, then remove what is obsolete."""
        done = len(scores.steps)
        checkpoint.save_task(self.path, done, state, labels, self.config.hash)
        write_json(self.path / "scores.json", {"run": self.config.hash, **json.loads(to_json(scores))})
        (self.path / "epoch.safetensors").unlink(missing_ok=True)
        self.tidy(done, scores.finished)

    def load_task(self, done: int, inputs: Inputs) -> State:
        """The learner's state after task ``done``; ``inputs`` is used where an older file does not store it."""
        return checkpoint.load_task(self.path, done, inputs, self.config.hash)

    def labels(self, tasks: int) -> list[IntArray]:
        """The labels that each of the tasks 1 to ``tasks`` was learned with."""
        return [checkpoint.load_labels(self.path, number, self.config.hash) for number in range(1, tasks + 1)]

    def task1_networks(self) -> tuple[dict[str, Tensor], tuple[dict[str, Tensor], ...]]:
        """The model after task 1, and the networks beside it."""
        return checkpoint.load_networks(self.path, self.config.hash)

    def has_task1(self) -> bool:
        """Whether task 1 is finished and its model can be read."""
        try:
            return bool(self.scores().steps and self.task1_networks())
        except WhorlError:
            return False


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
    kept = _once(found)
    for run, _ in found:
        if (other := kept[run.config.hash][0]) is not run:
            unreadable.append(f"{run.path} is a copy of {other.path} or a link to it; remove one of the two")
    return sorted(kept.values(), key=lambda pair: pair[0].path), unreadable


def _once(found: list[tuple[Run, RunScores]]) -> dict[str, tuple[Run, RunScores]]:
    """Each run once, by hash: a folder with the present name rather than a link or a name of earlier versions."""
    kept = dict[str, tuple[Run, RunScores]]()
    for run, scores in sorted(found, key=lambda pair: pair[0].path.name != pair[0].config.title):
        kept.setdefault(run.config.hash, (run, scores))
    return kept


def _lines_before(log: Path, task: int) -> Iterator[bytes]:
    """The complete log lines before the first line of ``task``. Damaged lines among them are kept as they are."""
    try:
        lines = read_bytes(log).splitlines(keepends=True) if log.exists() else []
    except OSError as error:
        raise WhorlError(f"cannot read {log}: {reason(error)}; move it away") from None
    for line in lines:
        with suppress(ValueError, RecursionError):
            number = json.loads(line)
            number = number.get("task") if isinstance(number, dict) else None
            if isinstance(number, int) and number >= task:
                return
        if not line.endswith(b"\n"):
            return
        yield line


def _remove(path: Path) -> None:
    """Remove a file or a link, but not the file that the link leads to."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise WhorlError(f"cannot remove {path}: {reason(error)}; remove it by hand") from None
