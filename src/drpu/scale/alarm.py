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

_SPACING = 500.0  # rows between the starts of two tests: earlier rows must not hide a late change
_STRENGTH = 20.0  # weight of the mixture over alternatives, in rows
_QUANTILES = 25  # thresholds to choose from
_MOST_STARTS = 2000  # largest number of tests; those with the least evidence are dropped


def _one_test() -> FloatArray:
    return np.zeros(1)


@kept("alarm")
@dataclass(frozen=True, eq=False)
class PriorAlarm:
    r"""Test that the prior of a stream equals the prior of the classifier, valid at any time.

    The share of rows with a score above one threshold is compared with its share at the prior in
    use. If the prior does not change and rows are independent, the alarm is ever raised with
    probability at most ``alpha``, for any number of updates.

    Notes
    -----
    After t rows, x of them above the threshold, the likelihood ratio of a beta mixture of
    alternatives against the share p is

    .. math:: M(p) = \frac{B(x + A, t - x + B)}{B(A, B)} \, p^{-x} (1 - p)^{x - t},

    whose expectation is at most 1 while the share is p. The reference share is known within
    limits only, so p is the value within them that fits the rows best; these limits use a
    fifth of ``alpha``. A test starts every 500 rows, and the weighted sum of all tests is
    the evidence; the alarm is raised once it exceeds ``1 / (0.8 alpha)`` (Ville's inequality).

    If rows depend on each other, such as consecutive rows of one customer, counts vary more, and
    the probability of a false alarm may exceed ``alpha``. Then use a part of the rows, or one row
    for each customer.
    """

    alpha: Annotated[float, Number(low=POSITIVE, high=1)]
    cell: Annotated[int, Whole(0)]  # rows in this cell or a higher one are above the threshold
    value: Annotated[float, Number(low=POSITIVE, high=1)]  # share of rows above it, with its limits
    low: Annotated[float, Number(low=POSITIVE, high=1)]
    high: Annotated[float, Number(low=POSITIVE, high=1)]
    evidence: Annotated[float, Number(0, math.inf)] = 0.0
    raised: bool = False
    rows: Annotated[float, Number(0)] = 0.0
    # of each test: rows above the threshold, all rows, and its number
    above: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=_one_test)
    count: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=_one_test)
    order: Annotated[FloatArray, Array("s", low=0)] = field(default_factory=_one_test)
    next: Annotated[float, Number(0)] = _SPACING  # number of rows at which another test starts

    def __post_init__(self) -> None:
        ordered = self.low <= self.value <= self.high < 1
        if len(self.above) == 0 or not ordered or self.alpha >= 1:
            raise DataError(
                "the parts of an alarm must agree: its shares, and its number of tests."
            )
        if (self.above > self.count).any():
            raise DataError(
                "an alarm must not count more rows above the level than there are rows."
            )

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        growth: tuple[float, float, float] = (1.0, 1.0, 1.0),
        *,
        alpha: float = 0.05,
    ) -> Self:
        """The alarm for a stream in which the share of negatives has grown by ``growth``.

        ``growth`` is the expected ratio of this share to that among the unlabeled training rows,
        which ``reference`` counts: smallest, estimated and largest value. ``alpha`` is the
        probability of a false alarm over the whole stream.
        """
        check_fraction("alpha", alpha)
        level = _most_informative(reference)
        low, high = _share_limits(reference, level, growth, alpha / 5)
        # likelihoods vanish at 0 and 1
        low = min(max(low, 1e-9), 1 - 1e-9)
        high = max(min(high, 1 - 1e-9), 1e-9)
        a = reference.survival[level]
        b = reference.positive_survival[level]
        _, expected_growth, _ = growth
        value = (1 - expected_growth) * b + expected_growth * a
        return cls(
            alpha, cell=level + 1, value=float(min(max(value, low), high)), low=low, high=high
        )

    @property
    def level(self) -> float:
        """Evidence above which the alarm is raised."""
        return 1 / (self.alpha - self.alpha / 5)

    def updated(self, batch: ScoreTails) -> Self:
        """The alarm after the counts of a batch; once raised it stays raised."""
        n = batch.n
        all_scores = max(float(batch.counts.sum()), 1e-300)
        above = self.above + n * float(batch.counts[self.cell :].sum()) / all_scores
        count = self.count + n
        order = self.order
        # of the tests; the sum is below 1
        weight = 1 / (3.4 * (order + 1) * np.log(order + 2) ** 2)
        with np.errstate(over="ignore"):
            terms = weight * np.exp(self._log_ratios(above, count))
        evidence = float(terms.sum())
        rows = self.rows + n
        next_start = self.next
        if rows >= next_start:  # another test, which uses the rows from here on
            next_start = rows + _SPACING
            tests = np.arange(len(terms))
            if len(terms) >= _MOST_STARTS:
                tests = np.delete(tests, int(terms.argmin()))
            above = np.append(above[tests], 0.0)
            count = np.append(count[tests], 0.0)
            order = np.append(order[tests], order[tests].max() + 1)
        return replace(
            self,
            evidence=evidence,
            raised=self.raised or evidence >= self.level,
            rows=rows,
            above=above,
            count=count,
            order=order,
            next=next_start,
        )

    def _log_ratios(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Logarithm of M(p) of each test, at the p within its limits that fits the rows best."""
        with np.errstate(invalid="ignore"):
            p = np.clip(np.where(t > 0, x / t, self.value), self.low, self.high)
        A = _STRENGTH * self.value
        B = _STRENGTH * (1 - self.value)
        mixture = betaln(x + A, t - x + B) - betaln(A, B)
        return np.asarray(mixture - x * np.log(p) - (t - x) * np.log1p(-p))


def _most_informative(reference: ScoreTails) -> int:
    """The level that is most informative about the prior, of a few quantiles of the positives."""
    a = reference.survival
    b = reference.positive_survival
    levels = np.unique(np.linspace(0, len(b) - 1, _QUANTILES).round().astype(int))
    variance = np.maximum(a * (1 - a), 1 / reference.n)
    information = (b[levels] - a[levels]) ** 2 / variance[levels]
    return int(levels[np.argmax(information)])


def _share_limits(
    reference: ScoreTails, level: int, growth: tuple[float, float, float], alpha: float
) -> tuple[float, float]:
    """Limits of the share of rows at or above a level, after the negatives have grown."""
    unlabeled = exact_limits(reference.survival[level], reference.n, alpha / 2)
    if growth == (1, 1, 1):
        return unlabeled
    positive = exact_limits(reference.positive_survival[level], reference.n_positive, alpha / 2)
    least_growth, _, most_growth = growth
    # the share above the level is linear in the growth of the negatives
    corners = []
    for g in (least_growth, most_growth):
        for b in positive:
            for a in unlabeled:
                corners.append((1 - g) * b + g * a)
    return float(min(corners)), float(max(corners))
