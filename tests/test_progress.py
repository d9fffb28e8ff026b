"""What is printed while a run is going on, with a clock that the test moves."""

from __future__ import annotations

import io
import sys

import pytest
import torch
from rich.console import Console

from whorl import progress, speed
from whorl.cli.flags import RunFlags
from whorl.progress import Bar, Lines, Meter, duration, reporter
from whorl.reporter import EpochRecord
from whorl.runtime import Runtime
from whorl.scores import TaskScores


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 100.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


RECORD = EpochRecord(task=2, phase="train", epoch=3, epochs=12, loss=0.25, lr=0.1, images=500, seconds=2.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (75, "1m15s"), (3600, "1h00m"), (7_265, "2h01m"), (200_000, "2 days"), (-3, "0s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_time_left_by_hand(clock: Clock) -> None:
    meter = Meter()
    meter.begin(1000, 100)
    assert (meter.rate, meter.left) == (0.0, "…")
    for _ in range(5):
        clock.now += 2
        meter.add(20)
    assert meter.rate == 10  # four intervals of two seconds with 20 images each
    assert meter.left == "1m20s"  # 800 images
    clock.now += 31
    meter.add(20)
    assert meter.rate == 0.0  # older marks no longer count
    clock.now += 1
    meter.add(40)
    assert meter.rate == 40


def test_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.begin(3, 1000, 0)
    for _ in range(2):
        clock.now += 5
        lines.tick(100, torch.tensor(0.5))
    lines.epoch(RECORD)
    lines.scored(TaskScores(task=2, classes=4, acc=0.5))
    lines.scored(TaskScores(task=3, classes=6, acc=0.25, label_acc=0.75))
    assert capsys.readouterr().err.splitlines() == [
        "task 2/3  train  epoch 3/12  loss 0.2500  250 images/s  40s left",
        "task 2/3 learned: acc 0.500 over 4 classes",
        "task 3/3 learned: acc 0.250 over 6 classes  pseudo labels 0.750",
    ]
    other = Lines("delivery")
    other.epoch(RECORD)
    assert capsys.readouterr().err.startswith("delivery 2  train  epoch 3/12")


@pytest.mark.parametrize(
    ("width", "status"),
    [
        (120, "1m15s left  loss 0.500  250 images/s"),
        (80, "1m15s left  loss 0.500"),
        (58, "1m15s left  loss 0.500"),  # without the bar
        (40, "1m15s left"),
        (30, ""),
    ],
)
def test_the_bar_fits_the_terminal(width: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed is left out first, then the bar, the loss and the time left; nothing is cut."""
    written = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=written, force_terminal=True, width=width))
    bar = Bar()
    try:
        bar.begin(3, 1000, 500)
        bar.epoch(RECORD)
        bar._show("1m15s left", "loss 0.500", "250 images/s")
        bar.bar.refresh()
        assert bar.bar.tasks[0].fields["status"] == status
    finally:
        bar.close()
    assert "…" not in written.getvalue()
    assert "task 2/3  train  epoch 4/12" in written.getvalue()
    assert ("━" in written.getvalue()) == (width >= 60)


def test_markup_and_escapes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=False, width=80)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    bar = Bar()
    try:
        bar.print("[bold]task[/] \x1b[2J\u202e")
    finally:
        bar.close()
    assert "[bold]task[/] \\x1b[2J\\u202e" in written.getvalue()


class Loss:
    """A loss that counts how often it is read from the device."""

    reads = 0

    def item(self) -> float:
        self.reads += 1
        return 0.5


def test_the_bar_reads_the_loss_five_times_per_second(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    bar, loss = Bar(), Loss()
    try:
        bar.begin(3, 1000, 0)
        bar.task(2, 2)
        for _ in range(101):
            bar.tick(1, loss)  # type: ignore[arg-type]
            clock.now += 0.01
        assert loss.reads == 6  # at once, and then every fifth of a second
        row = bar.bar.tasks[0]
        assert (row.completed, row.total) == (101, 1000)
        assert row.fields["where"] == "task 2/3"
        bar.epoch(RECORD)
        clock.now += 1
        bar.tick(1, loss)  # type: ignore[arg-type]
        assert row.fields["where"] == "task 2/3  train  epoch 4/12"
    finally:
        bar.close()


def test_the_reporter_suits_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    with reporter(quiet=True) as silent:
        assert type(silent) is progress.Quiet
    with reporter(quiet=False) as lines:
        assert type(lines) is Lines  # pytest's stderr is no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with reporter(quiet=False) as bar:
        assert isinstance(bar, Bar)


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_notices_are_translated(
    quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with reporter(quiet, translate=RunFlags.translate) as chosen:
        chosen.note("start over with `fresh`")
    assert "start over with --fresh\n" in capsys.readouterr().err


@pytest.mark.parametrize(("arch", "size"), [("tiny", 8), ("identity", 16)])
def test_speed_is_images_over_time(arch: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that moves by a second whenever it is read: rounds are counted until the time is over."""
    monkeypatch.setattr(speed, "time", Clock(1.0))
    train, extract = speed.measure(arch, size, Runtime(), 3.0)
    # Begin at 1; read at 2, 3, 4 → three rounds begin at less than 3 seconds; at 5 it stops, and 6 is the end.
    assert train == extract == pytest.approx(2 * speed.BATCH / 4)
