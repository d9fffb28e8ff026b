"""Scores: matching ids to classes, what one model is worth, and one number for a whole run.

``match`` itself is not here, since the module of that name would vanish behind it: see ``whorl.metrics.match``.
"""

from whorl.metrics.curves import avg, avg_with_first, forgetting, last
from whorl.metrics.match import contingency, matched_accuracy
from whorl.metrics.scores import LabelQuality, Scores, label_quality, score

__all__ = [
    "LabelQuality",
    "Scores",
    "avg",
    "avg_with_first",
    "contingency",
    "forgetting",
    "label_quality",
    "last",
    "matched_accuracy",
    "score",
]
