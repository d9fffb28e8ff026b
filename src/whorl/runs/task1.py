"""Names the training of task 1, so that runs can share it."""

from whorl.runs.first import first_task as task1_key

__all__ = ["task1_key"]
