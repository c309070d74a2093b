r"""Expected results of checking a fixed number of rows: precision, recall and lift.

If the share :math:`f` of the rows with the highest scores is checked, a share :math:`b` of the
held-out positives has scores as high. With the prior :math:`\pi'` of the rows, recall is
:math:`b`, precision :math:`\pi' b / f` and lift :math:`b / f`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drpu._arrays import FloatArray, IntArray
from drpu._results import TableColumns, TableResult, figure_columns
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limits, exact_limits_of
from drpu.priors.tails import ScoreTails


@dataclass(frozen=True, slots=True, repr=False)
class Budget(TableResult):
    """Expected results of checking the best-scored rows.

    Attributes
    ----------
    n : int or None
        Number of rows that can be checked; None if only a share was given.
    share : float
        The same as a share of all rows.
    threshold : float
        Ratio above which rows are checked.
    precision, recall, lift : Figure
        Share of those rows that are positive, share of the positives that are among them, and the
        number of positives relative to that among as many random rows.
    rows : ndarray of int or None
        Positions of those rows, the best first; None if no rows were given. They are exactly
        ``n`` rows: of rows with equal probabilities those with higher scores come first, and of
        rows with equal scores those that come first in the table.
    flagged : int or None
        Number of rows that ``predict`` flags; None if no rows were given. It treats each row alone,
        so it flags all rows with the score of the last one, also if they are more than ``n``.
    tied : int or None
        Number of rows with the score of the last one, 1 if it is the only one.
    """

    n: int | None
    share: float
    threshold: float
    precision: Figure
    recall: Figure
    lift: Figure
    rows: IntArray | None = None
    flagged: int | None = None
    tied: int | None = None

    def to_columns(self) -> TableColumns:
        """One row for each of precision, recall and lift, with limits."""
        figures = figure_columns([self.precision, self.recall, self.lift])
        return {"figure": ["precision", "recall", "lift"], **figures}

    def _title(self) -> str:
        title = f"{self._depth()}, those with ratios above {self.threshold:.3g}"
        return f"{title}; {self.tie_text()}" if self.tie_text() else title

    def _depth(self) -> str:
        share = f"{self.share:.2%}"
        if self.n is None:
            return f"{share} of the rows"
        return f"{self.n:,} rows ({share})"

    def tie_text(self) -> str:
        """How many rows share the last score, if predict flags more rows than can be checked."""
        if self.n is None or self.flagged is None or self.flagged == self.n:
            return ""
        return f"{self.tied:,} rows share the last score, so predict flags {self.flagged:,} rows"

    def __str__(self) -> str:
        parts = [
            f"precision {self.precision.as_expected()}",
            f"recall {self.recall.as_expected()}",
            f"lift {self.lift.value:.1f}",
        ]
        if self.tie_text():
            parts.append(self.tie_text())
        return f"{self._depth()}: {', '.join(parts)}"


def budget_outlook(
    recall: Figure,
    prior: PriorEstimate,
    share: float,
    threshold: float,
    *,
    n: int | None = None,
) -> Budget:
    """The budget at a depth of the ranking, ``share``.

    Recall cannot exceed its value at a precision of 1. The limits of precision are computed at the
    corners of the limits of recall and of the interval of the prior.
    """
    value = _possible_recall(recall.value, prior.value, share)
    low = _possible_recall(recall.low, prior.high, share)
    high = _possible_recall(recall.high, prior.low, share)
    precision = Figure(
        value=min(1.0, prior.value * value / share),
        low=min(1.0, prior.low * low / share),
        high=min(1.0, prior.high * high / share),
    )
    most_lift = 1 / max(share, prior.low, 1e-12)
    return Budget(
        n=n,
        share=share,
        threshold=threshold,
        precision=precision,
        recall=Figure(value, low, high),
        lift=Figure(value / share, low / share, min(high / share, most_lift)),
    )


def _possible_recall(recall: float, prior: float, share: float) -> float:
    """Recall such that the positives among the checked rows are not more than these rows."""
    if prior == 0:
        return recall
    return min(recall, share / prior)


def counted_recall(recall: float, n_positive: float, level: float) -> Figure:
    """A recall with the exact limits of a share counted in ``n_positive`` trials."""
    low, high = exact_limits(recall, n_positive, (1 - level) / 2)
    return Figure(recall, low, high)


@dataclass(frozen=True, slots=True)
class Gain:
    """Share of the positives found by the share of rows checked, from none to all."""

    share: FloatArray  # share of the rows that is checked, ascending
    recall: FloatArray  # share of the positives among them, with limits point by point
    low: FloatArray
    high: FloatArray
    prior: float  # prior of the rows: a perfect ranking finds all positives at this share
    mapped: bool = False  # whether it follows the map of answers

    def outlook(
        self,
        share: float,
        n_positive: float,
        prior: PriorEstimate,
        threshold: float,
        *,
        n: int | None = None,
    ) -> Budget:
        """The budget if a share of the rows is checked.

        Limits of recall are those of the map, or of a share counted in ``n_positive`` trials.
        """
        recall = float(np.interp(share, self.share, self.recall))
        if self.mapped:
            low = float(np.interp(share, self.share, self.low))
            high = float(np.interp(share, self.share, self.high))
            figure = Figure(recall, low, high)
        else:
            figure = counted_recall(recall, n_positive, prior.level)
        return budget_outlook(figure, prior, share, threshold, n=n)

    @property
    def lift(self) -> FloatArray:
        """Positives found, divided by the positives expected among as many random rows."""
        at_no_row = np.ones_like(self.recall)
        return np.divide(self.recall, self.share, out=at_no_row, where=self.share > 0)


def negative_survival(reference: ScoreTails, train_prior: float) -> FloatArray:
    """Share of the negatives at each level or above it, from unlabeled rows of this prior."""
    a = reference.survival
    if train_prior == 1:
        return a
    b = reference.positive_survival
    return np.clip((a - train_prior * b) / (1 - train_prior), 0, 1)


def gain_curve(
    reference: ScoreTails,
    train_prior: float,
    prior: PriorEstimate,
    *,
    new: ScoreTails | None = None,
    curves: Sequence[tuple[FloatArray, FloatArray]] = (),
) -> Gain:
    """Gain at every threshold that makes a difference, from no row to all.

    ``curves`` are those of the map of answers: shares of positives and negatives above cells.
    """
    if curves:
        positive, negative = curves[0]
        recall = positive[::-1]
        wrong = negative[::-1]
        recalls = np.array([positive[::-1] for positive, _ in curves])
        low = recalls.min(axis=0)
        high = recalls.max(axis=0)
    else:
        recall = _none_to_all(reference.positive_survival)
        wrong = _none_to_all(negative_survival(reference, train_prior))
        low, high = exact_limits_of(recall, reference.n_positive, (1 - prior.level) / 2)
    if new is None:
        share = prior.value * recall + (1 - prior.value) * wrong
    else:
        share = _none_to_all(new.survival)
    share = np.maximum.accumulate(share)
    return Gain(share, recall, low, high, prior.value, mapped=len(curves) > 0)


def _none_to_all(survival: FloatArray) -> FloatArray:
    """Shares at and above the levels, ascending, from 0 to 1."""
    return np.concatenate(([1.0], survival, [0.0]))[::-1]
