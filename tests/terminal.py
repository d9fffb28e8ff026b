"""The command line in a process of its own, as a user meets it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def whorl(*words: str, cwd: Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "whorl", *words], cwd=cwd, capture_output=True, text=True, env=ENV)
    assert code is None or done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    # A shell may start us with interrupts ignored, which a child would inherit.
    return subprocess.Popen(
        [sys.executable, "-m", "whorl", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} never came")
