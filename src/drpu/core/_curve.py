"""A curve over thresholds, its lowest point, and limits of that point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from drpu._typing import FloatArray, IntArray
from drpu.core.tails import ScoreTails

__all__ = ["FEWEST", "STEP", "Curve", "TailRatio", "grid", "last_levels", "ranks"]

STEP = math.log(2) / 4  # thresholds keep n 2^(-1/4), n 2^(-1/2), ... positives
FEWEST = 5  # with fewer positives there are no limits
_DESIGN = 0.025  # the deciding threshold is chosen at 95 % for every level, so that limits are nested

_ROOT = 1 / math.sqrt(2 * math.pi)
_OVERSHOOT = -0.583 * math.sqrt(STEP)  # a discrete curve exceeds a level less often than a continuous one

# Limits of the curve at some thresholds, at a number of standard deviations.
Bound: TypeAlias = Callable[[float, IntArray], FloatArray]


# -- thresholds ----------------------------------------------------------------------------


def ranks(n_positive: float, step: float = STEP) -> FloatArray:
    """Numbers of positives above the thresholds: geometric, from nearly all down to a few."""
    if n_positive < FEWEST:
        return np.empty(0)
    fewest = max(4.0, min(10.0, n_positive // 12))
    j = np.arange(1, 1 + int(math.log(n_positive / fewest) / step + 1e-9))
    rank = np.unique(np.maximum(np.round(n_positive * np.exp(-step * j)), fewest))
    return rank[rank < n_positive]


def last_levels(tails: ScoreTails, rank: FloatArray) -> IntArray:
    """Index of the last level with at least ``rank`` positives at or above it."""
    kept = tails.positive_survival * tails.n_positive
    return np.searchsorted(-kept, -rank + 1e-9, side="right").astype(np.int64) - 1


def grid(tails: ScoreTails) -> IntArray:
    """Indices of the levels that are used; none if all positives are tied."""
    at = np.unique(last_levels(tails, ranks(tails.n_positive)))
    return at[tails.positive_survival[at] < 1 - 1e-12]


# -- the ratio of two tails ----------------------------------------------------------------


@dataclass(frozen=True)
class TailRatio:
    """a/b at a few thresholds: ``hits`` of ``n`` unlabeled rows over ``kept`` of ``n_positive``.

    Sizes may be effective ones, so the counts need not be whole. a has Jeffreys'
    posterior; b, at the m-th largest of n scores, is Beta(m, n - m + 1).
    """

    kept: FloatArray
    n_positive: float
    hits: FloatArray
    n: float

    @classmethod
    def of(cls, tails: ScoreTails, at: IntArray) -> TailRatio:
        """The ratio at the levels ``at``."""
        kept = tails.positive_survival[at] * tails.n_positive
        return cls(kept, tails.n_positive, tails.survival[at] * tails.n, tails.n)

    @property
    def value(self) -> FloatArray:
        """Estimates of a/b."""
        return ((self.hits + 0.5) / (self.n + 1)) / (self.kept / (self.n_positive + 1))

    @property
    def log_variance(self) -> FloatArray:
        """Variances of log a/b. As a function of its variance, the curve is a Brownian motion."""
        a, b = (self.hits + 0.5) / (self.n + 1), self.kept / (self.n_positive + 1)
        return (1 - b) / (self.n_positive * b) + (1 - a) / (self.n * a)

    def upper(self, c: float, at: IntArray) -> FloatArray:
        """Upper limits: the limits of the two tails, combined on the log scale."""
        a, b = self._median
        up, down = self._log_a(ndtr(c), at) - a[at], b[at] - self._log_b(ndtr(-c), at)
        return np.exp(a[at] - b[at] + np.hypot(up, down))

    def lower(self, c: float, at: IntArray) -> FloatArray:
        """Lower limits, which are 0 where no unlabeled row is above the threshold."""
        a, b = self._median
        down, up = a[at] - self._log_a(ndtr(-c), at), self._log_b(ndtr(c), at) - b[at]
        return np.where(self.hits[at] > 0, np.exp(a[at] - b[at] - np.hypot(down, up)), 0.0)

    @cached_property
    def _median(self) -> tuple[FloatArray, FloatArray]:
        everywhere = np.arange(len(self.kept))
        return self._log_a(0.5, everywhere), self._log_b(0.5, everywhere)

    def _log_a(self, p: float, at: IntArray) -> FloatArray:
        hits = self.hits[at]
        return np.log(betaincinv(hits + 0.5, np.maximum(self.n - hits, 0.0) + 0.5, p))

    def _log_b(self, p: float, at: IntArray) -> FloatArray:
        return np.log(betaincinv(self.kept[at], self.n_positive - self.kept[at] + 1, p))


# -- its lowest point ------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A quantity at each of a few thresholds, whose minimum is to be estimated.

    ``point`` and ``variance`` are on the scale where the curve, taken along its own
    variance, is a Brownian motion; ``lower`` and ``upper`` limit the quantity itself.
    """

    recall: FloatArray
    n_positive: float
    point: FloatArray
    variance: FloatArray
    lower: Bound
    upper: Bound
    n: float

    def high(self, level: float) -> float:
        """Upper limit of the lowest point."""
        at = np.array([self.deciding])
        return _clip(self.upper(self._critical((1 - level) / 2), at)[0])

    def low(self, level: float, reach: float) -> float:
        """Smallest pointwise lower limit from the deciding threshold to ``1/reach`` of its recall.

        The threshold of the minimum is fixed, so no correction for several thresholds is
        needed: the smallest limit is at most the limit at that threshold.
        """
        recall = self.recall[self.deciding]
        least = recall / reach - 1 / self.n_positive
        at = np.flatnonzero((self.recall <= recall) & (self.recall >= least))
        return _clip(self.lower(-float(ndtri((1 - level) / 2)), at).min())

    @cached_property
    def deciding(self) -> int:
        """The threshold with the smallest upper limit."""
        return int(np.argmin(self.upper(self._critical(_DESIGN), np.arange(len(self.point)))))

    @property
    def middle(self) -> float:
        """A rough value of the minimum: the midpoint of a narrow interval."""
        level = 1 - 2 * _DESIGN
        return (self.low(level, 2) + self.high(level)) / 2

    def _critical(self, tail: float) -> float:
        return critical_value(tail, self._log_range)

    @cached_property
    def _log_range(self) -> float:
        """Range of the log variance over the thresholds that may attain the minimum."""
        spread = np.sqrt(self.variance)
        c = critical_value(0.1 / math.log(max(self.n, 20.0)), _log_range(self.variance))
        near = self.point <= (self.point + c * spread).min() + 2 * c * spread
        return _log_range(self.variance[near])


def critical_value(tail: float, log_range: float) -> float:
    r"""The c that a standardised Brownian curve exceeds with probability ``tail``.

    In the logarithm of its variance, standardised Brownian motion is a stationary
    Ornstein-Uhlenbeck process. With :math:`L` the range of that logarithm and
    :math:`h` the step of the grid,

    .. math:: 1 - \Phi(c) + \frac{L+h}{2} \left(c - \frac{1}{2c}\right) \varphi(c) e^{-.583 c \sqrt h}
       = \text{tail}.
    """
    pointwise = -float(ndtri(tail))
    if log_range <= 0:
        return pointwise
    low, high = max(pointwise, 1.0), 9.0
    if _exceeds(low, log_range) <= tail:
        return low
    for _ in range(26):  # to 1e-7
        c = (low + high) / 2
        low, high = (c, high) if _exceeds(c, log_range) > tail else (low, c)
    return high


def _exceeds(c: float, log_range: float) -> float:
    density = _ROOT * math.exp(-c * c / 2)
    crossings = (log_range + STEP) / 2 * (c - 0.5 / c) * density * math.exp(_OVERSHOOT * c)
    return math.erfc(c * math.sqrt(0.5)) / 2 + crossings


def _log_range(variance: FloatArray) -> float:
    return math.log(float(variance.max()) / float(variance.min()))


def _clip(share: float) -> float:
    return min(1.0, max(0.0, float(share)))
