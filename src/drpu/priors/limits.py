r"""Confidence limits of priors, computed from counts.

Let :math:`b(t), a(t)` be the fractions of positives and of unlabeled rows that score
at least :math:`t`. Their ratio :math:`\theta(t) = a(t)/b(t)` is the prior plus the
contribution of negatives, so it is an upper bound of the prior at every threshold. The
lowest point of the curve is the *mixture proportion*, the largest prior that is
compatible with the two samples.

``high`` is an upper limit of that lowest point, and so of the prior, for independent rows
and at its level. ``low`` starts as a lower limit of the mixture proportion, which is valid for the
prior if no negative scores as high as the best positives, and is then lowered by the negatives that
may be there (:class:`drpu.priors.plateau.Separation`). That correction depends on the shape of the
curve and was tuned on real tables: every prior from 0 to the mixture proportion is compatible with
the same positives and the same unlabeled rows, so no lower limit can hold for all data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_fraction, check_prior
from drpu.priors import constants
from drpu.priors.figures import Figure
from drpu.priors.matching import (
    Match,
    binomial_growth,
    match_samples,
    score_limits,
    shares,
    tail_covariance,
)
from drpu.priors.plateau import DESIGN_LEVEL, Separation, separation_of, youden_index
from drpu.priors.tails import ScoreTails

RANK_STEP = math.log(2) / 4  # thresholds keep n 2^(-1/4), n 2^(-1/2), ... positives
FEWEST_POSITIVES = 5  # with fewer positives there are no limits
_OVERSHOOT = -0.583 * math.sqrt(RANK_STEP)  # a discrete curve exceeds a level less often
_DESIGN_TAIL = 0.025  # for limits of any level, the deciding threshold is chosen at 95 %
_FARTHEST = 1e9  # a distance beyond every limit
_NORMAL_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)

# Limits of the curve at some thresholds, at a number of standard deviations.
Bound: TypeAlias = Callable[[float, IntArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Limits:
    """Confidence limits of a prior, in [0, 1], and their derivation.

    ``recall``: Share of the positives above the threshold that decided ``high``; 1 if no single
    one did.
    ``separation``: The smallest Youden index of the score that the counts allow, minus its noise.
    ``identified``: False if the counts give only an upper bound, see
    :func:`drpu.priors.central.central_prior`.
    """

    low: float
    high: float
    recall: float
    separation: float
    identified: bool = True

    def lowered(self, impurity: float) -> Limits:
        r"""The limits if there may be negatives among the best-scored rows.

        If the density of negatives there is ``impurity`` times that of positives, the
        mixture proportion is :math:`\pi + (1-\pi) \cdot` ``impurity``.
        """
        return replace(self, low=max(0.0, (self.low - impurity) / (1 - impurity)))


# -- the two rules -----------------------------------------------------------------------------


def ratio_limits(tails: ScoreTails, level: float) -> Limits:
    """Limits of the prior of one sample, from the tail ratio.

    ``high`` is the smallest of simultaneous upper limits along the curve, ``low`` the
    smallest of pointwise lower limits from the deciding threshold down to a quarter of
    its recall (an eighth or a sixteenth when the score seems to separate poorly), lowered by the
    negatives that may be among the best-scored rows. Both are asymptotic.
    They are 0 and 1 if there are fewer than five positives or no threshold.
    """
    check_fraction("level", level)
    training = _TrainingCurve.of(tails)
    return training.limits(level, training.curve)


def shift_limits(
    tails: ScoreTails,
    reference: ScoreTails,
    level: float,
    *,
    train_prior: float | None = None,
    train_limits: tuple[float, float] | None = None,
) -> Limits:
    r"""Limits of the prior of a second sample, with the first one as reference.

    A ``train_prior`` that is known from another source, with its limits, makes the interval about
    half as wide, and ``low`` then needs no pure tail.

    At every threshold :math:`a' - b = \lambda (a - b)` with
    :math:`\lambda = (1-\pi')/(1-\pi)`, which a least-squares fit over all
    thresholds finds without any prior. Then :math:`\theta' = 1 - \lambda (1 - \theta)`,
    with the noise of all three samples taken into account. If the prior has decreased
    (:math:`\lambda > 1`), this would amplify the noise of :math:`\theta`, and the tail ratio
    of the new sample is used instead, which is the same quantity at each threshold.

    Below a hundred new rows, one threshold is used with exact binomial limits instead, so
    that the limits hold for any number of rows.
    """
    check_fraction("level", level)
    pi = 1.0 if train_prior is None else check_prior("train_prior", train_prior)
    match = match_samples(tails, reference)
    # A reference without negatives gives no information: treat its prior as unknown.
    if match is not None and pi < 1 and reference.n_positive >= FEWEST_POSITIVES:
        ends = (pi, pi) if train_limits is None else train_limits
        new_prior = _new_prior(tails, reference, match, level, pi)
        low, high = _known_prior_limits(new_prior, pi, ends)
        return Limits(low, high, recall=1.0, separation=youden_index(reference, pi))

    training = _TrainingCurve.of(reference)
    if tails.n < constants.EXACT_LIMITS_BELOW:
        train = training.limits(level, training.curve)
        growth_of_few = binomial_growth(tails, reference, level)
        if growth_of_few is None:
            return replace(train, low=0.0, high=1.0)
        low = 1 - max(growth_of_few.high, 0.0) * (1 - train.low)
        high = 1 - max(growth_of_few.low, 0.0) * (1 - train.high)
        return replace(train, low=max(0.0, low), high=min(1.0, max(high, 0.0)))
    if match is not None and match.value <= 1:
        return training.limits(level, _match_curve(reference, match, tails.n))
    return training.limits(level, _ratio_curve(tails))


def largest_growth(tails: ScoreTails, reference: ScoreTails, level: float) -> float:
    """Upper limit of the growth of the negatives since ``reference``.

    Infinite if the score tells nothing.
    """
    if tails.n < constants.EXACT_LIMITS_BELOW:
        growth = binomial_growth(tails, reference, level)
        if growth is not None:
            return max(growth.high, 0.0)  # more rows score high than positives can explain
    match = match_samples(tails, reference)
    if match is None:
        return math.inf
    return match.limits(-float(scipy.special.ndtri((1 - level) / 2)))[1]


# -- a known training prior ---------------------------------------------------------------------


def _new_prior(
    tails: ScoreTails, reference: ScoreTails, match: Match, level: float, train_prior: float
) -> Figure:
    """The new prior with its limits, if the training prior is known exactly; not cut at 0 and 1."""
    if tails.n < constants.EXACT_LIMITS_BELOW:
        growth = binomial_growth(tails, reference, level)
        if growth is not None:
            return Figure(
                value=1 - growth.value * (1 - train_prior),
                low=1 - growth.high * (1 - train_prior),
                high=1 - growth.low * (1 - train_prior),
            )
    low, high = score_limits(tails, reference, match, level, train_prior)
    return Figure(1 - match.value * (1 - train_prior), low, high)


def _known_prior_limits(
    new_prior: Figure, train_prior: float, train_limits: tuple[float, float]
) -> tuple[float, float]:
    """Limits of the new prior with the uncertainty of the training prior."""
    value = new_prior.value
    train_low, train_high = train_limits
    scale = (1 - value) / (1 - train_prior)  # propagated error of the training prior
    below = math.hypot(value - new_prior.low, scale * (train_prior - train_low))
    above = math.hypot(new_prior.high - value, scale * (train_high - train_prior))
    # If the value is far below 0, so is this limit. A quarter of its distance is close to the upper
    # limit that Feldman and Cousins give for a share.
    high = max(value + above, above / 4)
    return _clip(value - below), _clip(high)


# -- curves of thresholds ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TrainingCurve:
    """The tail ratio of training counts, and what it says about the best-scored rows.

    ``reach``: Range of thresholds below the deciding one; None if the score does not separate the
    classes.
    ``impurity``: Fraction of negatives assumed among the best-scored rows; equal for all levels, to
    nest limits.
    """

    curve: Curve | None
    separation: Separation
    reach: float | None
    impurity: float

    @classmethod
    def of(cls, tails: ScoreTails) -> _TrainingCurve:
        curve = _ratio_curve(tails)
        separation = separation_of(tails)
        reach = _reach(tails, curve)
        impurity = 0.0
        if curve is not None and reach is not None:
            impurity = separation.impurity(curve.low(DESIGN_LEVEL, reach), curve.middle)
        return cls(curve, separation, reach, impurity)

    def limits(self, level: float, curve: Curve | None) -> Limits:
        """Limits of the lowest point of ``curve``; 0 and 1 without a curve."""
        if curve is None:
            return Limits(0.0, 1.0, recall=1.0, separation=self.separation.least_youden)
        low = 0.0 if self.reach is None else curve.low(level, self.reach)
        recall = float(curve.recall[curve.deciding])
        limits = Limits(low, curve.high(level), recall, self.separation.least_youden)
        return limits.lowered(self.impurity)


def _reach(tails: ScoreTails, curve: Curve | None) -> float | None:
    """Range of thresholds below the deciding one; None if the score separates nothing."""
    prior = 0.0 if curve is None else curve.middle
    apparent = youden_index(tails, prior)
    for least, reach in constants.REACH_BY_SEPARATION:
        if apparent > least:
            return reach
    return None


def _ratio_curve(tails: ScoreTails) -> Curve | None:
    """a/b on the grid, on the log scale; None if there is no threshold."""
    levels = grid(tails)
    if len(levels) == 0:
        return None
    ratio = TailRatio.of(tails, levels)
    return Curve(
        recall=tails.positive_survival[levels],
        n_positive=tails.n_positive,
        point=np.log(ratio.value),
        variance=ratio.log_variance,
        lower=ratio.lower,
        upper=ratio.upper,
        n=min(tails.n, tails.n_positive),
    )


def _match_curve(reference: ScoreTails, match: Match, n_new: float) -> Curve | None:
    """1 - lambda (1 - a/b) on the grid; None if there is no threshold."""
    levels = grid(reference)
    if len(levels) == 0:
        return None
    matched = _MatchedRatio.of(reference, match, levels)
    return Curve(
        recall=reference.positive_survival[levels],
        n_positive=reference.n_positive,
        point=matched.point,
        variance=np.maximum(matched.variance, 1e-12),
        lower=matched.lower,
        upper=matched.upper,
        n=min(reference.n, reference.n_positive, n_new),
    )


@dataclass(frozen=True)
class _MatchedRatio:
    """1 - lambda (1 - theta) at a few thresholds, with the noise that lambda and theta share."""

    ratio: TailRatio
    theta: FloatArray  # a/b, at most 1
    sd_theta: FloatArray
    match: Match  # of lambda
    covariance: FloatArray  # of lambda and theta

    @classmethod
    def of(cls, reference: ScoreTails, match: Match, levels: IntArray) -> _MatchedRatio:
        ratio = TailRatio.of(reference, levels)
        theta = np.minimum(ratio.value, 1.0)
        lam = match.value
        cov_u = tail_covariance(shares(reference.counts), match.influence, levels)
        cov_u = cov_u / reference.n
        cov_p = tail_covariance(shares(reference.positive_counts), match.influence, levels)
        cov_p = cov_p / reference.n_positive
        b = reference.positive_survival[levels]
        return cls(
            ratio=ratio,
            theta=theta,
            sd_theta=theta * np.sqrt(ratio.log_variance),
            match=match,
            covariance=(-lam * cov_u + (1 - lam) * theta * cov_p) / b,
        )

    @property
    def point(self) -> FloatArray:
        """The estimates."""
        return 1 - self.match.value * (1 - self.theta)

    @property
    def variance(self) -> FloatArray:
        """Their variances."""
        lam = self.match.value
        gap = 1 - self.theta
        by_theta = (lam * self.sd_theta) ** 2
        by_lam = (gap * self.match.spread) ** 2
        return by_theta + by_lam - 2 * lam * gap * self.covariance

    def lower(self, c: float, thresholds: IntArray) -> FloatArray:
        """Lower limits."""
        of_theta = self.theta[thresholds] - self.ratio.lower(c, thresholds)
        of_lam = self.match.limits(c)[1] - self.match.value
        return self.point[thresholds] - self._distance(of_theta, of_lam, thresholds)

    def upper(self, c: float, thresholds: IntArray) -> FloatArray:
        """Upper limits."""
        of_theta = self.ratio.upper(c, thresholds) - self.theta[thresholds]
        of_lam = self.match.value - self.match.limits(c)[0]
        return self.point[thresholds] + self._distance(of_theta, of_lam, thresholds)

    def _distance(self, of_theta: FloatArray, of_lam: float, thresholds: IntArray) -> FloatArray:
        """Distance of a limit from the estimate, from those of theta and of lambda.

        It is of first order in both, and has their product.
        """
        spread = self.match.spread
        rho = self.covariance / np.maximum(self.sd_theta * spread, 1e-12)
        rho = np.clip(rho, -0.99, 0.99)[thresholds]
        gap = (1 - self.theta)[thresholds]
        of_theta = np.maximum(of_theta, 0)
        by_theta = self.match.value * of_theta
        by_lam = gap * min(of_lam, _FARTHEST)
        by_both = spread * of_theta
        first_order = by_theta**2 + by_lam**2 - 2 * rho * by_theta * by_lam
        return np.sqrt(np.maximum(first_order, 0) + by_both**2)


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

    def lower(self, c: float, thresholds: IntArray) -> FloatArray:
        """Lower limits, which are 0 where no unlabeled row is above the threshold."""
        log_a, log_b = self._medians
        below_a = log_a[thresholds] - self._log_a(scipy.special.ndtr(-c), thresholds)
        above_b = self._log_b(scipy.special.ndtr(c), thresholds) - log_b[thresholds]
        limit = np.exp(log_a[thresholds] - log_b[thresholds] - np.hypot(below_a, above_b))
        return np.where(self.hits[thresholds] > 0, limit, 0.0)

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
        c = critical_value((1 - level) / 2, self._log_range)
        return _clip(self.upper(c, np.array([self.deciding]))[0])

    def low(self, level: float, reach: float) -> float:
        """Smallest pointwise lower limit from the deciding threshold to ``1/reach`` of its recall.

        The threshold of the minimum is fixed, so no correction for several thresholds is
        needed: the smallest limit is at most the limit at that threshold.
        """
        recall = self.recall[self.deciding]
        least = recall / reach - 1 / self.n_positive
        thresholds = np.flatnonzero((self.recall <= recall) & (self.recall >= least))
        c = -float(scipy.special.ndtri((1 - level) / 2))
        return _clip(self.lower(c, thresholds).min())

    @cached_property
    def deciding(self) -> int:
        """The threshold with the smallest upper limit; chosen at one level, so that limits nest."""
        c = critical_value(_DESIGN_TAIL, self._log_range)
        return int(np.argmin(self.upper(c, np.arange(len(self.point)))))

    @property
    def middle(self) -> float:
        """A rough value of the minimum: the midpoint of a narrow interval."""
        level = 1 - 2 * _DESIGN_TAIL
        return (self.low(level, reach=2) + self.high(level)) / 2

    @cached_property
    def _log_range(self) -> float:
        """Range of the log variance over the thresholds that may attain the minimum."""
        spread = np.sqrt(self.variance)
        c = critical_value(0.1 / math.log(max(self.n, 20.0)), _log_range(self.variance))
        least_upper = (self.point + c * spread).min()
        possible = self.point <= least_upper + 2 * c * spread
        return _log_range(self.variance[possible])


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


def _clip(share: float) -> float:
    return min(1.0, max(0.0, float(share)))
