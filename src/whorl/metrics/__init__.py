"""Scores: the matching of ids to classes, the scores of one model, and summaries of a whole run.

The function ``match`` is not exported here, because it would hide the module of the same name. Import it from
``whorl.metrics.match``.
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
