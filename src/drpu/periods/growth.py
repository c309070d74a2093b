"""Growth of the negatives between two samples, and priors carried from one to the other."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from drpu._typing import FloatArray
from drpu.priors.figures import Figure
from drpu.priors.matching import shares
from drpu.priors.plateau import fit_plateau, normal_scores
from drpu.priors.tails import ScoreTails

_ROUNDS = 4  # it converges in three


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the negatives, (1 - test_prior) / (1 - train_prior), and its standard deviation."""

    value: float
    spread: float = 0.0

    @property
    def inverse(self) -> Growth:
        """The growth in the other direction."""
        return Growth(1 / self.value, self.spread / self.value**2)


def negative_growth(tails: ScoreTails, reference: ScoreTails, test_prior: float) -> Growth | None:
    r"""Growth of the negatives from ``reference`` to ``tails``, from counts alone.

    For any function h of the score :math:`E'h - E_+h = \lambda (E h - E_+h)`; the h here is
    the one of :func:`drpu.priors.matching.efficient`. The noise of the three samples is
    :math:`Var'(h)/n' + \lambda^2 Var(h)/n + (1-\lambda)^2 Var_+(h)/n_+` over the squared
    denominator. ``test_prior`` may be rough: an error in it reduces precision but causes no bias.
    None if the score does not separate positives from unlabeled rows.
    """
    ratio = fit_plateau(reference)(normal_scores(reference))
    positive = shares(reference.positive_counts)
    unlabeled = shares(reference.counts)
    new = shares(tails.counts)
    q = min(max(test_prior, 0.02), 0.98)
    growth = 1.0
    gap = 0.0
    h = ratio
    for _ in range(_ROUNDS):
        prior = min(max(1 - (1 - q) / max(growth, 1e-3), 0.02), 0.98)
        eta = np.clip(prior * ratio, 0.01, 0.99)
        rho_positive = eta / prior
        rho_negative = (1 - eta) / (1 - prior)
        h = (rho_positive - rho_negative) / (q * rho_positive + (1 - q) * rho_negative)
        positive_mean = float(positive @ h)
        gap = float(unlabeled @ h) - positive_mean
        if abs(gap) < 1e-9:
            return None
        growth = max((float(new @ h) - positive_mean) / gap, 1e-3)
    variance = _variance(new, h) / tails.n
    variance += growth**2 * _variance(unlabeled, h) / reference.n
    variance += (1 - growth) ** 2 * _variance(positive, h) / reference.n_positive
    return Growth(growth, math.sqrt(variance) / abs(gap))


def _variance(share: FloatArray, h: FloatArray) -> float:
    return float(share @ (h - share @ h) ** 2)


def settled_growth(growth: Growth, unmoved: tuple[float, ...]) -> float:
    """The growth, shrunk towards the closest value without a change, if it is close to one.

    The posterior mean of the growth given its estimate, if the population has changed with
    probability 1/2, and then by any amount up to about 1. It is used for values only, never for
    limits.
    """
    if growth.spread <= 0:
        return growth.value
    known = np.array(unmoved)
    density = np.exp(-0.5 * ((growth.value - known) / growth.spread) ** 2)
    density /= growth.spread * math.sqrt(2 * math.pi) * len(known)
    return float((density @ known + growth.value) / (density.sum() + 1))


def carry_share(share: Figure, growth: Growth, tails: tuple[float, float]) -> Figure:
    """Share of positives after the share of negatives has grown by ``growth``.

    The errors of the two are combined on the scale of log(1 - share), separately for the lower and
    the upper limit. They are treated as independent. This is conservative if the share was
    measured on the rows from which the growth was counted, because both errors then have the same
    direction.

    Answers and counts may contradict each other, so that more than all rows would be negative. The
    value is then 0, and the upper limit is as far from it as it would be from an estimate of 0: no
    limits are equal.
    """
    if growth == Growth(1.0):
        return share
    lower_tail, upper_tail = tails
    negative = max(1 - share.value, 1e-9)
    log_up = math.log(max(1 - share.low, 1e-9) / negative)
    log_up = math.hypot(log_up, -float(ndtri(lower_tail)) * growth.spread / growth.value)
    log_down = math.log(negative / max(1 - share.high, 1e-9))
    log_down = math.hypot(log_down, -float(ndtri(upper_tail)) * growth.spread / growth.value)

    centre = growth.value * negative
    most = math.log(sys.float_info.max)  # a growth with a large error has a step too large for exp
    high = 1.0
    if share.high < 1:
        high = _between_0_and_1(1 - min(centre, 1.0) * math.exp(-log_down))
    return Figure(
        value=_between_0_and_1(1 - centre),
        low=_between_0_and_1(1 - centre * math.exp(min(log_up, most))),
        high=high,
        variance=growth.value**2 * share.variance + (negative * growth.spread) ** 2,
    )


def _between_0_and_1(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def carried_prior(
    tails: ScoreTails, reference: ScoreTails, prior: Figure, *, prior_level: float, level: float
) -> Figure:
    """Prior of the rows in ``tails`` from an audited prior of those in ``reference``.

    The limits of ``prior`` are moved to ``level`` in proportion to the normal quantiles, on the
    scale of log(1 - prior).
    """
    growth = Growth(1.0)
    for _ in range(2):  # the prior of the new rows only determines which mean is matched
        guess = _between_0_and_1(1 - growth.value * (1 - prior.value))
        counted = negative_growth(tails, reference, guess)
        growth = Growth(1.0) if counted is None else counted
    scale = float(ndtri((1 - level) / 2) / ndtri((1 - prior_level) / 2))
    negative = max(1 - prior.value, 1e-9)
    most_negative = negative * (max(1 - prior.low, 1e-9) / negative) ** scale
    least_negative = negative * (max(1 - prior.high, 1e-9) / negative) ** scale
    scaled = Figure(
        value=prior.value,
        low=_between_0_and_1(1 - most_negative),
        high=_between_0_and_1(1 - least_negative) if prior.high < 1 else 1.0,
        variance=prior.variance * scale**2,
    )
    return carry_share(scaled, growth, ((1 - level) / 2, (1 - level) / 2))
