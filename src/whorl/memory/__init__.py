"""Exemplars: how they are selected and stored."""

from whorl.memory.memory import Memory, Policy
from whorl.memory.select import SELECTORS, Reading, Selection, Selector, exemplars, get_selector, herding, random

__all__ = [
    "SELECTORS",
    "Memory",
    "Policy",
    "Reading",
    "Selection",
    "Selector",
    "exemplars",
    "get_selector",
    "herding",
    "random",
]
