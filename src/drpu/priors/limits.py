r"""Confidence limits of priors, computed from counts.

Let :math:`b(t), a(t)` be the fractions of positives and of unlabeled rows that score
at least :math:`t`. Their ratio :math:`\theta(t) = a(t)/b(t)` is the prior plus the
contribution of negatives, so it is an upper bound of the prior at every threshold. The
lowest point of the curve is the *mixture proportion*, the largest prior that is
compatible with the two samples.

``high`` is an upper limit of that lowest point, and so of the prior, for independent rows
and at its level. ``low`` starts as a lower limit of the mixture proportion, which is valid for the
prior if no negative scores as high as the best positives, and is then lowered by the negatives that
may be there (:mod:`drpu.priors.separation`). That correction depends on the shape of the curve and was
tuned on real tables: every prior from 0 to the mixture proportion is compatible with the same
positives and the same unlabeled rows, so no lower limit can hold for all data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from drpu._checks import check_fraction, check_prior
from drpu._typing import FloatArray, IntArray
from drpu.priors.matching import (
    Match,
    binomial_growth,
    match_samples,
    score_limits,
    shares,
    tail_covariance,
)
from drpu.priors.readings import FEWEST, Curve, TailRatio, grid
from drpu.priors.separation import DESIGN, Evidence, evidence_of, youden_index
from drpu.priors.tails import ScoreTails

FEW_ROWS = 100  # with fewer new rows, binomial limits at one threshold replace matching
# Range of thresholds below the deciding one that `low` uses: larger with weak separation.
_REACH = ((0.6, 4.0), (0.45, 8.0), (0.0, 16.0))


@dataclass(frozen=True, slots=True)
class Limits:
    """Confidence limits of a prior, in [0, 1], and their derivation."""

    low: float
    high: float
    recall: float  # share of the positives above the threshold that decided ``high``; 1 if no single one did
    separation: float  # smallest Youden index of the score that the counts allow, minus its noise
    identified: bool = True  # False if the counts give only an upper bound, see ``central_prior``

    def lowered(self, impurity: float) -> Limits:
        r"""The limits if there may be negatives among the best-scored rows.

        If the density of negatives there is ``impurity`` times that of positives, the
        mixture proportion is :math:`\pi + (1-\pi) \cdot` ``impurity``.
        """
        return replace(self, low=max(0.0, (self.low - impurity) / (1 - impurity)))


# -- the two rules -----------------------------------------------------------------------


def ratio_limits(tails: ScoreTails, level: float) -> Limits:
    """Limits of the prior of one sample, from the tail ratio.

    ``high`` is the smallest of simultaneous upper limits along the curve, ``low`` the
    smallest of pointwise lower limits from the deciding threshold down to a quarter of
    its recall (an eighth or a sixteenth when the score seems to separate poorly), lowered by the
    negatives that may be among the best-scored rows. Both are asymptotic.
    They are 0 and 1 if there are fewer than five positives or no threshold.
    """
    check_fraction("level", level)
    curve = _ratio_curve(tails)
    evidence = evidence_of(tails)
    reach = _reach(tails, curve)
    return _visible(curve, level, reach, evidence).lowered(_impurity(evidence, curve, reach))


def shift_limits(
    tails: ScoreTails,
    reference: ScoreTails,
    level: float,
    *,
    train_prior: float | None = None,
    train_limits: tuple[float, float] | None = None,
) -> Limits:
    r"""Limits of the prior of a second sample, with the first one as reference.

    A ``train_prior`` that is known from another source, with its limits, makes the interval about half as
    wide, and ``low`` then needs no pure tail.

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
    if match is not None and pi < 1 and reference.n_positive >= FEWEST:
        return _known_prior_limits(tails, reference, match, level, (pi, *(train_limits or (pi, pi))))

    evidence, curve = evidence_of(reference), _ratio_curve(reference)
    reach = _reach(reference, curve)
    impurity = _impurity(evidence, curve, reach)
    if tails.n < FEW_ROWS:
        train = _visible(curve, level, reach, evidence).lowered(impurity)
        growth = binomial_growth(tails, reference, level)
        if growth is None:
            return replace(train, low=0.0, high=1.0)
        _, most, least = growth
        low, high = 1 - most * (1 - train.low), 1 - max(least, 0.0) * (1 - train.high)
        return replace(train, low=max(0.0, low), high=min(1.0, max(high, 0.0)))
    if match is not None and match.value <= 1:
        curve = _match_curve(reference, match, tails.n)
    else:
        curve = _ratio_curve(tails)
    return _visible(curve, level, reach, evidence).lowered(impurity)


# -- from a curve to limits --------------------------------------------------------------


def _visible(curve: Curve | None, level: float, reach: float | None, evidence: Evidence) -> Limits:
    """Limits of the minimum of ``curve``; 0 and 1 if there is no curve."""
    if curve is None:
        return Limits(0.0, 1.0, 1.0, evidence.separation)
    low = 0.0 if reach is None else curve.low(level, reach)
    return Limits(low, curve.high(level), float(curve.recall[curve.deciding]), evidence.separation)


def _reach(tails: ScoreTails, curve: Curve | None) -> float | None:
    """Range of thresholds below the deciding one; None if the score does not separate the classes."""
    apparent = youden_index(tails, 0.0 if curve is None else curve.middle)
    return next((reach for least, reach in _REACH if apparent > least), None)


def _impurity(evidence: Evidence, curve: Curve | None, reach: float | None) -> float:
    """Fraction of negatives assumed among the best-scored rows; equal for all levels, to nest limits."""
    if curve is None or reach is None:
        return 0.0
    return evidence.impurity(curve.low(DESIGN, reach), curve.middle)


def _ratio_curve(tails: ScoreTails) -> Curve | None:
    """a/b on the grid, on the log scale; None if there is no threshold."""
    at = grid(tails)
    if len(at) == 0:
        return None
    ratio = TailRatio.of(tails, at)
    return Curve(
        recall=tails.positive_survival[at],
        n_positive=tails.n_positive,
        point=np.log(ratio.value),
        variance=ratio.log_variance,
        lower=ratio.lower,
        upper=ratio.upper,
        n=min(tails.n, tails.n_positive),
    )


# -- matching a second sample --------------------------------------------------------------


def _known_prior_limits(
    tails: ScoreTails, reference: ScoreTails, match: Match, level: float, train: tuple[float, float, float]
) -> Limits:
    """Limits of the new prior for a known training prior and its limits, with the uncertainty of both."""
    pi, pi_low, pi_high = train
    growth = binomial_growth(tails, reference, level) if tails.n < FEW_ROWS else None
    if growth is None:
        value = 1 - match.value * (1 - pi)
        low, high = score_limits(tails, reference, match, level, pi)
    else:
        value, low, high = (1 - x * (1 - pi) for x in growth)
    scale = (1 - value) / (1 - pi)  # propagated error of the training prior
    low = value - math.hypot(value - low, scale * (pi - pi_low))
    above = math.hypot(high - value, scale * (pi_high - pi))
    # If the value is far below 0, so is this limit. A quarter of its distance is close to the upper limit
    # that Feldman and Cousins give for a share.
    high = max(value + above, above / 4)
    ends = np.clip([low, high], 0, 1).tolist()
    return Limits(ends[0], ends[1], 1.0, youden_index(reference, pi))


def largest_growth(tails: ScoreTails, reference: ScoreTails, level: float) -> float:
    """Upper limit of the growth of the negatives since ``reference``; infinite if the score tells nothing."""
    growth = binomial_growth(tails, reference, level) if tails.n < FEW_ROWS else None
    if growth is not None:
        return growth[1]
    match = match_samples(tails, reference)
    return math.inf if match is None else match.value - float(ndtri((1 - level) / 2)) * match.spread


def _match_curve(reference: ScoreTails, match: Match, n_new: float) -> Curve | None:
    """1 - lambda (1 - a/b) on the grid, with the noise that lambda and a/b share."""
    at = grid(reference)
    if len(at) == 0:
        return None
    ratio, b = TailRatio.of(reference, at), reference.positive_survival[at]
    lam, sd, theta = match.value, match.spread, np.minimum(ratio.value, 1.0)
    gap = 1 - theta

    cov_u = tail_covariance(shares(reference.counts), match.influence, at) / reference.n
    cov_p = tail_covariance(shares(reference.positive_counts), match.influence, at) / reference.n_positive
    covariance = (-lam * cov_u + (1 - lam) * theta * cov_p) / b
    sd_theta = theta * np.sqrt(ratio.log_variance)
    rho = np.clip(covariance / np.maximum(sd_theta * sd, 1e-12), -0.99, 0.99)
    point = 1 - lam * gap
    variance = (lam * sd_theta) ** 2 + (gap * sd) ** 2 - 2 * lam * gap * covariance

    def joined(of_theta: FloatArray, c: float, at: IntArray) -> FloatArray:
        each = np.maximum(of_theta, 0)
        x, y, both = lam * each, gap[at] * c * sd, sd * each  # first order in each, and their product
        return np.sqrt(np.maximum(x**2 + y**2 - 2 * rho[at] * x * y, 0) + both**2)

    return Curve(
        recall=b,
        n_positive=reference.n_positive,
        point=point,
        variance=np.maximum(variance, 1e-12),
        lower=lambda c, at: point[at] - joined(theta[at] - ratio.lower(c, at), c, at),
        upper=lambda c, at: point[at] + joined(ratio.upper(c, at) - theta[at], c, at),
        n=min(reference.n, reference.n_positive, n_new),
    )
