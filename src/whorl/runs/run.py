"""The folder of one run."""

from whorl.runs.store import Busy, Run, stored

__all__ = ["Busy", "Run", "stored"]
