"""Rows that are scored once, for all methods that use the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drpu._typing import FloatArray, Rows
from drpu.core.tails import ScoreTails

__all__ = ["ScoredRows", "score_once"]


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Checked rows with their scores.

    ``adapt``, ``adapt_by``, ``at_budget``, ``predict`` and ``outputs`` take them in place of rows.

    Attributes
    ----------
    rows : rows of shape (n, d)
        In the form that the model accepts.
    scores : ndarray of shape (n, models)
        Score of each row by each model, as by :meth:`FittedRatio.scores`.
    counts : ScoreTails
        The counts of these scores.
    """

    rows: Rows
    scores: FloatArray
    counts: ScoreTails

    def __len__(self) -> int:
        return len(self.scores)


def score_once(classifier: Any, X: Rows) -> ScoredRows:
    """``X``, checked and scored by ``classifier``."""
    rows, fitted = classifier._checked_rows(X), classifier.fitted_
    scores = fitted.scores(rows)
    return ScoredRows(rows, scores, fitted.count_scores(scores, rows=rows))
