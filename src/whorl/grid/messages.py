"""The messages between a pool and its workers: one JSON document per line, distinguished by ``kind``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from whorl.config import ExperimentConfig
from whorl.runtime import Runtime
from whorl.sections import DataConfig


class Message(BaseModel):
    """A frozen record that is sent as one line."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> str:
        """The message as JSON, with its newline."""
        return self.model_dump_json(exclude_none=True) + "\n"


class Setup(Message):
    """Sent to a worker once, before its orders."""

    out: str
    """The folder of runs."""
    threads: int
    runtime: Runtime
    data_dirs: dict[str, str] = {}
    """Where the images of each data set are stored."""


class Order(Message):
    """Sent to a worker: run this config."""

    config: ExperimentConfig
    data: DataConfig
    """The images to load; ``config.data`` identifies the images that must be found there."""
    task1: str | None = None
    """The folder of a run whose task 1 is used instead of training it."""


class Ready(Message):
    """The worker accepts orders."""

    kind: Literal["ready"] = "ready"


class Note(Message):
    """A line for the user."""

    kind: Literal["note"] = "note"
    text: str


class Begin(Message):
    """A run has started or resumed; ``done`` of its ``images`` image passes were made earlier."""

    kind: Literal["begin"] = "begin"
    tasks: int
    images: int
    done: int


class Progress(Message):
    """``images`` image passes of the run are done."""

    kind: Literal["progress"] = "progress"
    images: int


class Scored(Message):
    """A task is finished and stored."""

    kind: Literal["scored"] = "scored"
    task: int
    images: int


class Done(Message):
    """The run is finished."""

    kind: Literal["done"] = "done"
    avg: float | None = None
    last: float | None = None


class Busy(Message):
    """Another process is working on the run."""

    kind: Literal["busy"] = "busy"


class Failed(Message):
    """The run cannot be finished."""

    kind: Literal["failed"] = "failed"
    reason: str


class Ended(Message):
    """The worker process is gone. The pool adds this event; no worker sends it."""

    kind: Literal["ended"] = "ended"
    reason: str


Event = Ready | Note | Begin | Progress | Scored | Done | Busy | Failed | Ended
Outcome = Done | Failed | Ended
"""How a job ends."""

_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def parse_event(line: str) -> Event:
    """The event in a line from a worker; raises ValueError where the line is not one."""
    return _EVENTS.validate_json(line)
