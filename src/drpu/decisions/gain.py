r"""Expected results of checking a fixed number of rows: precision, recall and lift.

If the share :math:`f` of the rows with the highest scores is checked, a share :math:`b` of the held-out
positives has scores as high. With the prior :math:`\pi'` of the rows, recall is :math:`b`,
precision :math:`\pi' b / f` and lift :math:`b / f`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limits, exact_limits_of
from drpu.priors.tails import ScoreTails


@dataclass(frozen=True, slots=True)
class Budget:
    """Expected results of checking the best-scored rows.

    Attributes
    ----------
    rows : int or None
        Number of rows that can be checked; None if only a share was given.
    share : float
        The same as a share of all rows.
    threshold : float
        Ratio above which rows are checked.
    precision, recall, lift : Figure
        Share of those rows that are positive, share of the positives that are among them, and the
        number of positives relative to that among as many random rows.
    positions : ndarray of int or None
        Positions of those rows, the best first; None if no rows were given.
    """

    rows: int | None
    share: float
    threshold: float
    precision: Figure
    recall: Figure
    lift: Figure
    positions: IntArray | None = None

    def __str__(self) -> str:
        rows = (
            f"{self.share:.2%} of the rows" if self.rows is None else f"{self.rows:,} rows ({self.share:.2%})"
        )
        return f"{rows}: precision {self.precision}, recall {self.recall}, lift {self.lift.value:.1f}"


def budget_outlook(
    found: float,
    n_positive: float,
    prior: PriorEstimate,
    share: float,
    threshold: float,
    *,
    rows: int | None = None,
    positions: IntArray | None = None,
    limits: tuple[float, float] | None = None,
) -> Budget:
    """The budget at a depth of the ranking.

    ``limits`` of recall are, if not given, those of a share counted in ``n_positive`` trials, at the level of
    the prior; recall cannot exceed its value at a precision of 1. The limits of precision are computed at
    the corners of these limits and of the interval of the prior.
    """
    low, high = limits or exact_limits(found, n_positive, (1 - prior.level) / 2)
    # The positives found cannot exceed the rows that are checked.
    found, low, high = (
        min(part, share / end) if end > 0 else part
        for part, end in ((found, prior.value), (low, prior.high), (high, prior.low))
    )

    def precision(prior: float, recall: float) -> float:
        return min(1.0, prior * recall / share)

    return Budget(
        rows,
        share,
        threshold,
        Figure(precision(prior.value, found), precision(prior.low, low), precision(prior.high, high)),
        Figure(found, low, high),
        Figure(found / share, low / share, min(high / share, 1 / max(share, prior.low, 1e-12))),
        positions,
    )


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
        self, share: float, n_positive: float, prior: PriorEstimate, threshold: float, **rows: Any
    ) -> Budget:
        """The budget if a share of the rows is checked; arguments as in :func:`budget_outlook`."""
        found, *ends = (float(np.interp(share, self.share, y)) for y in (self.recall, self.low, self.high))
        limits = (ends[0], ends[1]) if self.mapped else None
        return budget_outlook(found, n_positive, prior, share, threshold, limits=limits, **rows)

    @property
    def lift(self) -> FloatArray:
        """Positives found, divided by the positives expected among as many random rows."""
        return np.divide(self.recall, self.share, out=np.ones_like(self.recall), where=self.share > 0)


def negative_survival(reference: ScoreTails, train_prior: float) -> FloatArray:
    """Share of the negatives at each level or above it, from unlabeled rows of this prior."""
    a, b = reference.survival, reference.positive_survival
    return np.clip((a - train_prior * b) / (1 - train_prior), 0, 1) if train_prior < 1 else a


def gain_curve(
    reference: ScoreTails,
    train_prior: float,
    prior: PriorEstimate,
    *,
    new: ScoreTails | None = None,
    curves: Sequence[tuple[FloatArray, FloatArray]] = (),
) -> Gain:
    """Gain at every threshold that makes a difference; ``curves`` are those of the map of answers."""
    if curves:
        b, wrong = (part[::-1] for part in curves[0])
        every = np.array([positive[::-1] for positive, _ in curves])
        low, high = every.min(axis=0), every.max(axis=0)
    else:
        parts = (reference.positive_survival, negative_survival(reference, train_prior))
        b, wrong = (np.concatenate(([1.0], part, [0.0]))[::-1] for part in parts)
        low, high = exact_limits_of(b, reference.n_positive, (1 - prior.level) / 2)
    if new is not None:
        depth = np.concatenate(([1.0], new.survival, [0.0]))[::-1]
    else:
        depth = prior.value * b + (1 - prior.value) * wrong
    return Gain(np.maximum.accumulate(depth), b, low, high, prior.value, mapped=len(curves) > 0)
