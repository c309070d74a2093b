r"""The upper limit of a prior that needs no assumption about the classes, computed from counts.

Let :math:`b(t), a(t)` be the fractions of positives and of unlabeled rows that score
at least :math:`t`. Their ratio :math:`\theta(t) = a(t)/b(t)` is the prior plus the
contribution of negatives, so it is an upper bound of the prior at every threshold. The
lowest point of the curve is the *mixture proportion*, the largest prior that is
compatible with the two samples. Every prior from 0 to it explains both samples equally well,
so no lower limit can hold for all data.

The limit holds for independent rows and labels that are a fair sample of the positives, and at its
level: it is simultaneous over all thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_fraction
from drpu.priors.tails import ScoreTails, remembered

RANK_STEP = math.log(2) / 4  # thresholds keep n 2^(-1/4), n 2^(-1/2), ... positives
FEWEST_POSITIVES = 5  # with fewer positives there is no limit
_OVERSHOOT = -0.583 * math.sqrt(RANK_STEP)  # a discrete curve exceeds a level less often
_DESIGN_TAIL = 0.025  # for limits of any level, the deciding threshold is chosen at 95 %
_NORMAL_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class UpperLimit:
    """An upper limit of a prior, and the share of the positives above the threshold it is from."""

    prior: float
    recall: float


@remembered
def upper_limit(tails: ScoreTails, level: float) -> UpperLimit:
    """The upper one of two limits of the prior at ``level``, from the tail ratio.

    It is the smallest of simultaneous upper limits along the curve, and asymptotic. It is 1 if
    there are fewer than five positives or no threshold.
    """
    check_fraction("level", level)
    curve = _ratio_curve(tails)
    if curve is None:
        return UpperLimit(1.0, recall=1.0)
    return UpperLimit(curve.high(level), recall=float(curve.recall[curve.deciding]))


# -- the curve of thresholds -------------------------------------------------------------------


def _ratio_curve(tails: ScoreTails) -> Curve | None:
    """The curve on the grid of thresholds; None if there is no threshold."""
    levels = grid(tails)
    if len(levels) == 0:
        return None
    return Curve(tails.positive_survival[levels], TailRatio.of(tails, levels))


def ranks(n_positive: float, step: float = RANK_STEP) -> FloatArray:
    """Numbers of positives above the thresholds: geometric, from nearly all down to a few."""
    if n_positive < FEWEST_POSITIVES:
        return np.empty(0)
    fewest = max(4.0, min(10.0, n_positive // 12))
    steps = np.arange(1, 1 + int(math.log(n_positive / fewest) / step + 1e-9))
    rank = np.unique(np.maximum(np.round(n_positive * np.exp(-step * steps)), fewest))
    return rank[rank < n_positive]


def last_levels(tails: ScoreTails, rank: FloatArray) -> IntArray:
    """Index of the last level with at least ``rank`` positives at or above it."""
    kept = tails.positive_survival * tails.n_positive
    return np.searchsorted(-kept, -rank + 1e-9, side="right").astype(np.int64) - 1


def grid(tails: ScoreTails) -> IntArray:
    """Indices of the levels that are used; none if all positives are tied."""
    levels = np.unique(last_levels(tails, ranks(tails.n_positive)))
    return levels[tails.positive_survival[levels] < 1 - 1e-12]


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
    def of(cls, tails: ScoreTails, levels: IntArray) -> TailRatio:
        """The ratio at the thresholds ``levels``."""
        return cls(
            kept=tails.positive_survival[levels] * tails.n_positive,
            n_positive=tails.n_positive,
            hits=tails.survival[levels] * tails.n,
            n=tails.n,
        )

    @property
    def value(self) -> FloatArray:
        """Estimates of a/b."""
        a = (self.hits + 0.5) / (self.n + 1)
        b = self.kept / (self.n_positive + 1)
        return a / b

    @property
    def log_variance(self) -> FloatArray:
        """Variances of log a/b. As a function of its variance, the curve is a Brownian motion."""
        a = (self.hits + 0.5) / (self.n + 1)
        b = self.kept / (self.n_positive + 1)
        return (1 - b) / (self.n_positive * b) + (1 - a) / (self.n * a)

    def upper(self, c: float, thresholds: IntArray) -> FloatArray:
        """Upper limits: the limits of the two tails, combined on the log scale."""
        log_a, log_b = self._medians
        above_a = self._log_a(scipy.special.ndtr(c), thresholds) - log_a[thresholds]
        below_b = log_b[thresholds] - self._log_b(scipy.special.ndtr(-c), thresholds)
        return np.exp(log_a[thresholds] - log_b[thresholds] + np.hypot(above_a, below_b))

    @cached_property
    def _medians(self) -> tuple[FloatArray, FloatArray]:
        everywhere = np.arange(len(self.kept))
        return self._log_a(0.5, everywhere), self._log_b(0.5, everywhere)

    def _log_a(self, p: float, thresholds: IntArray) -> FloatArray:
        hits = self.hits[thresholds]
        missed = np.maximum(self.n - hits, 0.0)
        return np.log(scipy.special.betaincinv(hits + 0.5, missed + 0.5, p))

    def _log_b(self, p: float, thresholds: IntArray) -> FloatArray:
        kept = self.kept[thresholds]
        return np.log(scipy.special.betaincinv(kept, self.n_positive - kept + 1, p))


@dataclass(frozen=True)
class Curve:
    """The tail ratio at a few thresholds, whose minimum is to be limited.

    On the log scale, and taken along its own variance, the curve is a Brownian motion.
    """

    recall: FloatArray
    ratio: TailRatio

    def high(self, level: float) -> float:
        """Upper limit of the lowest point."""
        c = critical_value((1 - level) / 2, self._log_range)
        limit = self.ratio.upper(c, np.array([self.deciding]))[0]
        return min(1.0, max(0.0, float(limit)))

    @cached_property
    def deciding(self) -> int:
        """The threshold with the smallest upper limit; chosen at one level, so that limits nest."""
        c = critical_value(_DESIGN_TAIL, self._log_range)
        return int(np.argmin(self.ratio.upper(c, np.arange(len(self.recall)))))

    @cached_property
    def _log_range(self) -> float:
        """Range of the log variance over the thresholds that may attain the minimum."""
        point = np.log(self.ratio.value)
        variance = self.ratio.log_variance
        spread = np.sqrt(variance)
        n = min(self.ratio.n, self.ratio.n_positive)
        c = critical_value(0.1 / math.log(max(n, 20.0)), _log_range(variance))
        least_upper = (point + c * spread).min()
        possible = point <= least_upper + 2 * c * spread
        return _log_range(variance[possible])


def critical_value(tail: float, log_range: float) -> float:
    r"""The c that a standardised Brownian curve exceeds with probability ``tail``.

    In the logarithm of its variance, standardised Brownian motion is a stationary
    Ornstein-Uhlenbeck process. With :math:`L` the range of that logarithm and
    :math:`h` the step of the grid,

    .. math:: 1 - \Phi(c) + \frac{L+h}{2} \left(c - \frac{1}{2c}\right) \varphi(c)
       e^{-.583 c \sqrt h} = \text{tail}.
    """
    pointwise = -float(scipy.special.ndtri(tail))
    if log_range <= 0:
        return pointwise
    low = max(pointwise, 1.0)
    high = 9.0
    if _exceeds(low, log_range) <= tail:
        return low
    for _ in range(26):  # to 1e-7
        middle = (low + high) / 2
        if _exceeds(middle, log_range) > tail:
            low = middle
        else:
            high = middle
    return high


def _exceeds(c: float, log_range: float) -> float:
    """Probability that a standardised Brownian curve exceeds c."""
    density = _NORMAL_DENSITY_AT_0 * math.exp(-c * c / 2)
    crossings = (log_range + RANK_STEP) / 2 * (c - 0.5 / c) * density * math.exp(_OVERSHOOT * c)
    return math.erfc(c * math.sqrt(0.5)) / 2 + crossings


def _log_range(variance: FloatArray) -> float:
    return math.log(float(variance.max()) / float(variance.min()))
