"""The command line: one file per command. Heavy imports happen inside commands, so that ``--help`` is fast."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer

from whorl import __version__
from whorl.cli import data, doctor, runs
from whorl.cli.compare import compare
from whorl.cli.demo import demo
from whorl.cli.flags import RunFlags
from whorl.cli.methods import methods
from whorl.cli.report import report
from whorl.cli.reproduce import reproduce
from whorl.cli.run import run
from whorl.errors import WhorlError

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

USAGE: Any = typer.BadParameter.__base__
"""The exception that typer raises for a wrong command line; newer versions bring their own copy of click."""


def _version(asked: bool) -> None:
    if asked:
        print(f"whorl {__version__}")
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


def main() -> None:
    """The entry point. An error that the user can fix is printed as one line, with exit code 2."""
    warnings.formatwarning = lambda message, *_: f"whorl: {RunFlags.translate(str(message))}\n"
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        sys.exit(app(standalone_mode=False))
    except WhorlError as error:
        print(f"whorl: {RunFlags.translate(str(error))}", file=sys.stderr)
        sys.exit(2)
    except USAGE as error:
        print(f"whorl: {error.format_message().rstrip('.')}; see whorl --help", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("whorl: stopped; repeat the command to resume", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output (head, less) has ended; Python must not print an error about it when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
