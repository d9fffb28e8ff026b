"""The command line: one file per command. Heavy imports happen inside commands, so that ``--help`` is fast."""

from __future__ import annotations

import os
import re
import sys
import warnings
from contextlib import suppress
from typing import Any

import typer

from whorl import __version__
from whorl.cli import data, doctor, runs
from whorl.cli.clusters import clusters
from whorl.cli.compare import compare
from whorl.cli.demo import demo
from whorl.cli.flags import RunFlags
from whorl.cli.history import history
from whorl.cli.junk import junk
from whorl.cli.learn import learn
from whorl.cli.lines import Stopped, Unread, say, tell
from whorl.cli.merge import merge
from whorl.cli.methods import methods
from whorl.cli.move import move
from whorl.cli.name import name
from whorl.cli.predict import predict
from whorl.cli.report import report
from whorl.cli.reproduce import reproduce
from whorl.cli.run import run
from whorl.cli.sort import sort
from whorl.cli.split import split
from whorl.cli.undo import redo, undo
from whorl.errors import WhorlError, out_of_memory, printable

app: typer.Typer = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

USAGE: Any = typer.BadParameter.__base__
"""The exception that typer raises for a wrong command line; newer versions bring their own copy of click."""


def _version(asked: bool) -> None:
    if asked:
        say(f"whorl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Keep learning new image classes from data nobody has labelled."""


app.command()(run)
app.command("list")(runs.list_runs)
app.command()(runs.show)
app.command()(compare)
app.command()(report)
app.command()(methods)
app.command("data")(data.fetch)
app.command()(doctor.doctor)
app.command()(demo)
app.command()(reproduce)
app.command()(learn)
app.command()(predict)
app.command()(sort)
app.command()(clusters)
app.command()(history)
app.command()(name)
app.command()(merge)
app.command()(split)
app.command()(move)
app.command()(junk)
app.command()(undo)
app.command()(redo)


STOPPED = 130
"""The exit code after Ctrl-C."""
UNREAD = 141
"""The exit code if the reader of stdout has ended, as of a program that the signal SIGPIPE ends."""
LONGEST = 200
"""Longer words in a message, such as a number of thousands of digits, are shortened."""


def main() -> None:
    """The entry point. An error that the user can fix is printed as one line, with exit code 2.

    If the reader of stdout has ended, the command ends without a message.
    """
    warnings.formatwarning = lambda message, *_: f"whorl: {printable(RunFlags.translate(str(message)))}\n"
    line, code = "", 0
    try:
        _open_streams()
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0
    except Stopped as stopped:
        line, code = f"stopped; to resume: {stopped}", STOPPED
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    except (Unread, SystemExit) as end:  # typer and rich exit at a broken pipe, and typer after completing words
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        code = UNREAD
    except Exception as error:
        line, code = _answer(error), 2
    if code == STOPPED:  # newer versions of typer return it for Ctrl-C
        line = line or "stopped; repeat the command to resume"
    try:
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            code = code or UNREAD
        else:
            line, code = line or _answer(error), code or 2
        with suppress(OSError, ValueError):  # what is left in the buffer must not fail again when Python exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if line:
        tell(f"whorl: {line}")
    sys.exit(code)


def _open_streams() -> None:
    """Open the null device in place of standard streams that are closed; a closed stdout is an error."""
    closed = sys.stdout is None
    for each, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, each) is None:  # otherwise the next file that is opened would take its place
            setattr(sys, each, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if closed:
        raise WhorlError(f"stdout is closed; use >{os.devnull} to print no results")


def _answer(error: Exception) -> str:
    """The line about an error that the user can fix. Other errors are bugs and are raised again."""
    if isinstance(error, WhorlError):
        line = RunFlags.translate(str(error))
    elif isinstance(error, USAGE):
        line = f"{' '.join(error.format_message().split()).rstrip('.')}; see whorl --help"
    elif out_of_memory(error):
        line = "there is not enough memory; use fewer or smaller images, or a smaller batch"
    elif isinstance(error, RecursionError):
        line = "a value or a file is nested too deeply"
    elif isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        line = f"cannot write the results: {reason}" if error.filename is None else f"{error.filename}: {reason}"
    else:
        raise error
    return re.sub(rf"\S{{{LONGEST},}}", lambda word: f"{word[0][:100]}…{word[0][-20:]}", line)
