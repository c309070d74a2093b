"""Rows that were checked and scored once, for everything that is computed about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drpu._typing import FloatArray, IntArray, Rows
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked rows with their scores.

    ``adapt``, ``adapt_by``, ``at_budget`` and ``predict`` take them in place of rows.
    """

    rows: Rows  # in the form that the model accepts
    scores: FloatArray  # score of each row by each model, as by :meth:`FittedRatio.scores`
    counts: ScoreTails  # the counts of these scores

    @classmethod
    def of(cls, fitted: FittedRatio, rows: Rows) -> Batch:
        """Checked rows, scored and counted by ``fitted``."""
        return cls._counted(fitted, rows, fitted.scores(rows))

    @classmethod
    def _counted(cls, fitted: FittedRatio, rows: Rows, scores: FloatArray) -> Batch:
        return cls(rows, scores, fitted.count_scores(scores, rows=rows))

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, index: Any) -> Batch:
        """The rows at ``index``, with the counts of all rows."""
        return Batch(self.rows[index], self.scores[index], self.counts)

    def part(self, fitted: FittedRatio, index: IntArray) -> Batch:
        """The rows at ``index``, with counts of these rows only."""
        return Batch._counted(fitted, self.rows[index], self.scores[index])
