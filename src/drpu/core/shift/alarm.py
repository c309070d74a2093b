"""An alarm for a changed prior, valid for streams of any length."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Self

import numpy as np
from scipy.special import betaln

from drpu._checks import check_fraction
from drpu._codec import Array, Number, Whole, kept
from drpu._typing import FloatArray
from drpu.core.limits.exact import exact_limits
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError

__all__ = ["PriorAlarm"]

_SPACING = 500.0  # rows between the starts of two tests, so that earlier rows do not hide a late change
_STRENGTH = 20.0  # weight of the mixture over alternatives, in rows
_QUANTILES = 25  # thresholds to choose from
_MOST_STARTS = 2000  # largest number of tests; those with the least evidence are dropped


@dataclass(frozen=True, slots=True)
class _Reference:
    """The threshold in use and the limits of the share of rows above it."""

    cell: int  # rows in this cell or a higher one are above the threshold
    value: float
    low: float
    high: float


@dataclass(slots=True)
class PriorAlarm:
    r"""Test that the prior of a stream equals the prior of the classifier, valid at any time.

    The share of rows with a score above one threshold is compared with its share at the prior in use. If
    the prior does not change and rows are independent, the alarm is ever raised with probability at most
    ``alpha``, for any number of updates.

    Parameters
    ----------
    reference : ScoreTails
        Held-out positives, and the unlabeled training rows counted over them.
    growth : tuple of three floats
        The expected ratio of the share of negatives in the stream to that among those unlabeled rows:
        smallest, estimated and largest value. All are 1 if the stream should have the prior of the
        unlabeled rows.
    alpha : float, default=0.05
        Probability of a false alarm over the whole stream.

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

    alpha: float
    _reference: _Reference
    evidence: float = 0.0
    raised: bool = False
    rows: float = 0.0
    _above: FloatArray = field(default_factory=lambda: np.zeros(1))
    _count: FloatArray = field(default_factory=lambda: np.zeros(1))
    _order: FloatArray = field(default_factory=lambda: np.zeros(1))
    _next: float = _SPACING

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        growth: tuple[float, float, float] = (1.0, 1.0, 1.0),
        *,
        alpha: float = 0.05,
    ) -> Self:
        """The alarm for a stream in which the share of negatives has grown by ``growth``."""
        check_fraction("alpha", alpha)
        return cls(alpha, _watched(reference, growth, alpha / 5))

    @property
    def level(self) -> float:
        """Evidence above which the alarm is raised."""
        return 1 / (self.alpha - self.alpha / 5)

    def update(self, batch: ScoreTails) -> bool:
        """Add the counts of a batch and return whether the alarm has been raised, now or before."""
        n = batch.n
        above = n * float(batch.counts[self._reference.cell :].sum()) / max(float(batch.counts.sum()), 1e-300)
        self._above, self._count = self._above + above, self._count + n
        self.rows += n
        with np.errstate(over="ignore"):
            terms = _weight(self._order) * np.exp(self._log_ratios())
        self.evidence = float(terms.sum())
        self.raised = self.raised or self.evidence >= self.level
        if self.rows >= self._next:
            self._start(terms)
        return self.raised

    def _log_ratios(self) -> FloatArray:
        at, x, t = self._reference, self._above, self._count
        with np.errstate(invalid="ignore"):
            p = np.clip(np.where(t > 0, x / t, at.value), at.low, at.high)
        A, B = _STRENGTH * at.value, _STRENGTH * (1 - at.value)
        mixture = betaln(x + A, t - x + B) - betaln(A, B)
        return np.asarray(mixture - x * np.log(p) - (t - x) * np.log1p(-p))

    def _start(self, terms: FloatArray) -> None:
        """Start another test, which uses the rows from here on."""
        if len(self._count) >= _MOST_STARTS:
            kept = np.delete(np.arange(len(terms)), int(terms.argmin()))
            self._above, self._count, self._order = (
                values[kept] for values in (self._above, self._count, self._order)
            )
        self._above, self._count = np.append(self._above, 0.0), np.append(self._count, 0.0)
        self._order = np.append(self._order, self._order.max() + 1)
        self._next = self.rows + _SPACING

    def copy(self) -> Self:
        """An independent copy; an update replaces the arrays and never changes them."""
        return copy(self)

    def record(self) -> AlarmRecord:
        """The numbers from which ``record.alarm()`` makes an equal alarm."""
        at = self._reference
        return AlarmRecord(
            self.alpha, at.cell, at.value, at.low, at.high, self.evidence, self.raised, self.rows,
            self._above, self._count, self._order, self._next,
        )  # fmt: skip


@kept("alarm")
@dataclass(frozen=True, eq=False)
class AlarmRecord:
    """What a file keeps of a :class:`PriorAlarm`."""

    alpha: Annotated[float, Number(above=0, high=1)]
    cell: Annotated[int, Whole(0)]
    value: Annotated[float, Number(above=0, high=1)]
    low: Annotated[float, Number(above=0, high=1)]
    high: Annotated[float, Number(above=0, high=1)]
    evidence: Annotated[float, Number(0, math.inf)]
    raised: bool
    rows: Annotated[float, Number(0)]
    above: Annotated[FloatArray, Array("s", low=0)]
    count: Annotated[FloatArray, Array("s", low=0)]
    order: Annotated[FloatArray, Array("s", low=0)]
    next: Annotated[float, Number(0)]

    def __post_init__(self) -> None:
        if not len(self.above) or not self.low <= self.value <= self.high < 1 or self.alpha >= 1:
            raise DataError("the parts of an alarm must agree: its shares, and its number of tests.")
        if (self.above > self.count).any():
            raise DataError("an alarm must not count more rows above the level than there are rows.")

    def alarm(self) -> PriorAlarm:
        """The alarm of which this is the record."""
        return PriorAlarm(
            self.alpha, _Reference(self.cell, self.value, self.low, self.high), self.evidence, self.raised,
            self.rows, self.above, self.count, self.order, self.next,
        )  # fmt: skip


def _weight(order: FloatArray) -> FloatArray:
    """Weights of the tests by the order of their starts; their sum is below 1."""
    return np.asarray(1 / (3.4 * (order + 1) * np.log(order + 2) ** 2))


def _watched(reference: ScoreTails, growth: tuple[float, float, float], alpha: float) -> _Reference:
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


def _inside(level: int, value: float, low: float, high: float) -> _Reference:
    """The reference with shares moved away from 0 and 1, where likelihoods vanish."""
    low, high = max(low, 1e-9), min(high, 1 - 1e-9)
    low, high = min(low, 1 - 1e-9), max(high, 1e-9)
    return _Reference(level + 1, float(min(max(value, low), high)), float(low), float(high))
