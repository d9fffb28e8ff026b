"""Batteries of checks for components that others write: run them over yours in one line of a test.

>>> from whorl.testing import check_method
>>> def test_mine(tmp_path):
...     check_method("mine", tmp_path)

Each function takes the name of a registered component or the component itself, and a folder for checkpoints. It raises
``AssertionError`` with a message about the promise that is broken. No test framework is needed.
"""

from whorl.testing.methods import check_method
from whorl.testing.parts import check_backbone, check_clusterer, check_extractor, check_selector

__all__ = ["check_backbone", "check_clusterer", "check_extractor", "check_method", "check_selector"]
