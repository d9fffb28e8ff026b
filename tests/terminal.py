"""The command line in a separate process, as a user runs it."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHILD = Path(__file__).with_name("child")
"""The folder whose ``sitecustomize.py`` lets a test stop a process at a chosen point."""


def python_path(*folders: Path) -> str:
    """``PYTHONPATH`` with these folders before the ones it has already."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def whorl(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must have this exit code."""
    done = subprocess.run([sys.executable, "-m", "whorl", *words], cwd=cwd, capture_output=True, text=True, env=ENV)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


class Watch:
    """Follows all Python processes that are started with :meth:`env`, and their children, through a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def env(self, halt: str | None = None) -> dict[str, str]:
        """The environment variables of a process that stops at ``halt``, for example ``"update 3"``."""
        found = {"PYTHONPATH": python_path(CHILD), "WHORL_WATCH": str(self.folder)}
        return {**found, "WHORL_HALT": halt} if halt else found

    @property
    def halted(self) -> list[int]:
        """The processes that have reached the point where they stop."""
        return [int(file.name.removeprefix("halted-")) for file in self.folder.glob("halted-*")]

    def open(self) -> None:
        """Let the processes continue that have stopped, and let no other one stop."""
        (self.folder / "open").touch()

    def wait(self) -> None:
        """Wait until all processes have ended."""
        self._each(lambda pid: None)

    def end(self) -> None:
        """Kill the processes that are still running, with their children, and wait until they have ended."""
        self._each(_kill)

    def _each(self, act: Callable[[int], None]) -> None:
        seen = set[Path]()
        while new := set(self.folder.glob("alive-*")) - seen:  # a process that ends may have started another one
            for path in new:
                with open(path) as file:
                    try:
                        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    except BlockingIOError:
                        act(int(path.name.removeprefix("alive-")))
                        fcntl.flock(file, fcntl.LOCK_SH)
            seen |= new


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class Process:
    """A command that runs beside the test. The fixture ``start`` makes it and ends it."""

    def __init__(self, words: tuple[str, ...], cwd: Path, folder: Path, halt: str | None) -> None:
        self.watch = Watch(folder)
        self._stderr = folder / "stderr"
        with open(self._stderr, "w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "whorl", *words],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**ENV, **self.watch.env(halt)},
                start_new_session=True,  # a process group that can be killed as a whole
            )
        self.pid = self._process.pid

    @property
    def stderr(self) -> str:
        """What the command has written to stderr so far."""
        return self._stderr.read_text()

    def until_halted(self) -> None:
        """Wait until the command, or a process that it started, has stopped at the chosen point."""
        while not self.watch.halted:
            assert self._process.poll() is None, f"the command ended too early: {self.stderr}"
            time.sleep(0.01)
        if os.environ.get("WHORL_PACE") == "fast":  # a fast run gets far before a test reacts
            time.sleep(1)

    def send(self, number: signal.Signals) -> int:
        """Send a signal to the command, but not to its children. Returns its exit code when it has ended."""
        self._process.send_signal(number)
        return self._process.wait()

    def end(self) -> None:
        """Kill the command and all its children."""
        if self._process.poll() is None:
            _kill(self.pid)
        self._process.wait()
        self.watch.end()


def in_terminal(*words: str, cwd: Path, columns: int) -> list[str]:
    """The lines that a command prints in a terminal of this width; those of stdout and stderr together."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {name: value for name, value in ENV.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "whorl", *words]
    with subprocess.Popen(command, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env=env) as process:
        os.close(slave)
        written = b""
        with suppress(OSError):  # the end of the output, when the process has closed it
            while part := os.read(master, 1 << 16):
                written += part
        process.wait()
    os.close(master)
    return written.decode().splitlines()
