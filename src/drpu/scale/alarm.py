"""An alarm for a changed prior, valid for streams of any length."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import numpy as np
from scipy.special import betaln

from drpu._checks import check_fraction
from drpu._codec import POSITIVE, Array, Number, Whole, kept
from drpu._typing import FloatArray
from drpu.exceptions import DataError
from drpu.priors.figures import exact_limits
from drpu.priors.tails import ScoreTails

_SPACING = 500.0  # rows between the starts of two tests, so that earlier rows do not hide a late change
_STRENGTH = 20.0  # weight of the mixture over alternatives, in rows
_QUANTILES = 25  # thresholds to choose from
_MOST_STARTS = 2000  # largest number of tests; those with the least evidence are dropped

_Watched = tuple[int, float, float, float]


@kept("alarm")
@dataclass(frozen=True, eq=False)
class PriorAlarm:
    r"""Test that the prior of a stream equals the prior of the classifier, valid at any time.

    The share of rows with a score above one threshold is compared with its share at the prior in use. If
    the prior does not change and rows are independent, the alarm is ever raised with probability at most
    ``alpha``, for any number of updates.

    Notes
    -----
    After t rows, x of them above the threshold, the likelihood ratio of a beta mixture of
    alternatives against the share p is

    .. math:: M(p) = \frac{B(x + A, t - x + B)}{B(A, B)} \, p^{-x} (1 - p)^{x - t},

    whose expectation is at most 1 while the share is p. The reference share is known within
    limits only, so p is the value within them that fits the rows best; these limits use a
    fifth of ``alpha``. A test starts every 500 rows, and the weighted sum of all tests is
    the evidence; the alarm is raised once it exceeds ``1 / (0.8 alpha)`` (Ville's inequality).

    If rows depend on each other, such as consecutive rows of one customer, counts vary more, and the
    probability of a false alarm may exceed ``alpha``. Then use a part of the rows, or one row for each
    customer.
    """

    alpha: Annotated[float, Number(low=POSITIVE, high=1)]
    cell: Annotated[int, Whole(0)]  # rows in this cell or a higher one are above the threshold
    value: Annotated[float, Number(low=POSITIVE, high=1)]  # share of rows above it, with its limits
    low: Annotated[float, Number(low=POSITIVE, high=1)]
    high: Annotated[float, Number(low=POSITIVE, high=1)]
    evidence: Annotated[float, Number(0, math.inf)] = 0.0
    raised: bool = False
    rows: Annotated[float, Number(0)] = 0.0
    above: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=lambda: np.zeros(1))  # by test
    count: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=lambda: np.zeros(1))
    order: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=lambda: np.zeros(1))
    next: Annotated[float, Number(0)] = _SPACING  # number of rows at which another test starts

    def __post_init__(self) -> None:
        if not len(self.above) or not self.low <= self.value <= self.high < 1 or self.alpha >= 1:
            raise DataError("the parts of an alarm must agree: its shares, and its number of tests.")
        if (self.above > self.count).any():
            raise DataError("an alarm must not count more rows above the level than there are rows.")

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        growth: tuple[float, float, float] = (1.0, 1.0, 1.0),
        *,
        alpha: float = 0.05,
    ) -> Self:
        """The alarm for a stream in which the share of negatives has grown by ``growth``.

        ``growth`` is the expected ratio of this share to that among the unlabeled training rows, which
        ``reference`` counts: smallest, estimated and largest value. ``alpha`` is the probability of a false
        alarm over the whole stream.
        """
        check_fraction("alpha", alpha)
        return cls(alpha, *_watched(reference, growth, alpha / 5))

    @property
    def level(self) -> float:
        """Evidence above which the alarm is raised."""
        return 1 / (self.alpha - self.alpha / 5)

    def updated(self, batch: ScoreTails) -> Self:
        """The alarm after the counts of a batch; once raised it stays raised."""
        n = batch.n
        reached = n * float(batch.counts[self.cell :].sum()) / max(float(batch.counts.sum()), 1e-300)
        above, count, order = self.above + reached, self.count + n, self.order
        weight = 1 / (3.4 * (order + 1) * np.log(order + 2) ** 2)  # of the tests; their sum is below 1
        with np.errstate(over="ignore"):
            terms = weight * np.exp(self._log_ratios(above, count))
        evidence, rows, start = float(terms.sum()), self.rows + n, self.next
        if rows >= start:  # another test, which uses the rows from here on
            kept = np.arange(len(terms))
            if len(terms) >= _MOST_STARTS:
                kept = np.delete(kept, int(terms.argmin()))
            above, count = np.append(above[kept], 0.0), np.append(count[kept], 0.0)
            order, start = np.append(order[kept], order[kept].max() + 1), rows + _SPACING
        return replace(
            self, evidence=evidence, raised=self.raised or evidence >= self.level, rows=rows,
            above=above, count=count, order=order, next=start,
        )  # fmt: skip

    def _log_ratios(self, x: FloatArray, t: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            p = np.clip(np.where(t > 0, x / t, self.value), self.low, self.high)
        A, B = _STRENGTH * self.value, _STRENGTH * (1 - self.value)
        mixture = betaln(x + A, t - x + B) - betaln(A, B)
        return np.asarray(mixture - x * np.log(p) - (t - x) * np.log1p(-p))


def _watched(reference: ScoreTails, growth: tuple[float, float, float], alpha: float) -> _Watched:
    """The threshold that is most informative about the prior, with the expected share above it."""
    a, b = reference.survival, reference.positive_survival
    ranks = np.unique(np.linspace(0, len(b) - 1, _QUANTILES).round().astype(int))
    spread = np.maximum(a * (1 - a), 1 / reference.n)
    k = int(ranks[np.argmax((b[ranks] - a[ranks]) ** 2 / spread[ranks])])
    a_low, a_high = exact_limits(a[k], reference.n, alpha / 2)
    low, middle, high = growth
    if low == middle == high == 1:
        return _inside(k, a[k], a_low, a_high)
    b_low, b_high = exact_limits(b[k], reference.n_positive, alpha / 2)
    # the share above the threshold is linear in the growth of the negatives
    corners = [(1 - g) * p + g * u for g in (low, high) for p in (b_low, b_high) for u in (a_low, a_high)]
    return _inside(k, (1 - middle) * b[k] + middle * a[k], min(corners), max(corners))


def _inside(level: int, value: float, low: float, high: float) -> _Watched:
    """The first cell above the threshold, and shares moved away from 0 and 1, where likelihoods vanish."""
    low, high = max(low, 1e-9), min(high, 1 - 1e-9)
    low, high = min(low, 1 - 1e-9), max(high, 1e-9)
    return level + 1, float(min(max(value, low), high)), float(low), float(high)
