"""The command ``whorl``, also as ``python -m whorl``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C is answered in one line even while modules are imported.

    An interrupt must not be raised inside an import, where libraries turn it into other errors. It ends the process,
    except in the parts of a command that handle it (:func:`whorl.cli.lines.interruptible`). Files are written in one
    step, so none is left half written.
    """
    signal.signal(signal.SIGINT, _stop)
    try:
        from whorl.cli import main as command

        command()
    except KeyboardInterrupt:  # raised by a library
        _stop()


def _stop(*about: object) -> None:
    os.write(2, b"whorl: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, whose files could have the names of modules
    main()
