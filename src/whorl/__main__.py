"""The command ``whorl``, also as ``python -m whorl``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C is answered in one line even while modules are imported."""
    try:
        from whorl.cli import main as command

        command()
    except KeyboardInterrupt:
        print("whorl: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, whose files could have the names of modules
    main()
