"""Exemplars of old tasks: how they are chosen and how they are kept."""

from whorl.memory.memory import Memory, Policy
from whorl.memory.select import SELECTORS, Reading, Selector, exemplars, get_selector, herding, random

__all__ = ["SELECTORS", "Memory", "Policy", "Reading", "Selector", "exemplars", "get_selector", "herding", "random"]
