"""Growth of the negatives between two samples, and the priors that follow from it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu.priors.figures import Figure
from drpu.priors.plateau import fit_plateau, normal_scores
from drpu.priors.tails import ScoreTails


def shares(counts: IntArray | FloatArray) -> FloatArray:
    """Counts divided by their sum."""
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def _cautious_shares(tails: ScoreTails) -> FloatArray:
    """Shares with one more row, half of each class, because few rows prove no purity."""
    extra_row = shares(tails.positive_counts) / 2
    extra_row[0] += 0.5
    return (tails.n * shares(tails.counts) + extra_row) / (tails.n + 1)


def _new_positive_shares(tails: ScoreTails) -> FloatArray:
    """Probabilities that another positive falls into each cell.

    The positives are the lower ends of the cells, so that each of n + 1 cells is equally likely,
    and one of them is below all positives. If all positives are tied, so is another one.
    """
    untied = min(1.0, (len(tails.levels) - 1) / max(tails.n_positive - 1, 1.0))
    expected = tails.n_positive * shares(tails.positive_counts)
    expected[0] += untied
    return expected / (tails.n_positive + untied)


_LEAST_SPREAD = 1e-3  # smallest standard error of a growth
_LARGEST_SPREAD = 1e3  # with a larger one, all growths are equally likely
_GROWTH_ROUNDS = 4  # it converges in three


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the negatives, (1 - test_prior) / (1 - train_prior), and its standard deviation."""

    value: float
    spread: float = 0.0

    @property
    def safe_spread(self) -> float:
        """The standard deviation, neither 0 nor infinite."""
        return min(max(self.spread, _LEAST_SPREAD), _LARGEST_SPREAD)

    @property
    def inverse(self) -> Growth:
        """The growth in the other direction."""
        return Growth(1 / self.value, self.spread / self.value**2)

    def of_population(self, labelled_share: float) -> Growth:
        """The growth since all training rows, of which this share is labelled, and so positive."""
        unlabeled = 1 - labelled_share
        return Growth(self.value / unlabeled, self.spread / unlabeled)


def negative_growth(tails: ScoreTails, reference: ScoreTails, test_prior: float) -> Growth | None:
    r"""Growth of the negatives from ``reference`` to ``tails``, from counts alone.

    For any function h of the score, :math:`E'h - E_+h = \lambda (E h - E_+h)`, so each gives the
    growth of the negatives :math:`\lambda`. Its variance is smallest for
    :math:`h = (\rho_+ - \rho_-) / (q \rho_+ + (1-q) \rho_-)`, the score function of the mixture at
    the prior q, with the class densities :math:`\rho_\pm` over that of the reference, which the
    smooth calibration estimates. The noise of the three samples is
    :math:`Var'(h)/n' + \lambda^2 Var(h)/n + (1-\lambda)^2 Var_+(h)/n_+` over the squared
    denominator. ``test_prior`` may be rough: an error in it reduces precision but causes no bias.
    None if the score does not separate positives from unlabeled rows.
    """
    ratio = fit_plateau(reference)(normal_scores(reference))
    positive = _new_positive_shares(reference)
    unlabeled = shares(reference.counts)
    new = shares(tails.counts)
    q = min(max(test_prior, 0.02), 0.98)
    growth = 1.0
    gap = 0.0
    h = ratio
    for _ in range(_GROWTH_ROUNDS):
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
    variance = _variance(_cautious_shares(tails), h) / tails.n
    variance += growth**2 * _variance(unlabeled, h) / reference.n
    variance += (1 - growth) ** 2 * _variance(positive, h) / reference.n_positive
    return Growth(growth, math.sqrt(variance) / abs(gap))


def growth_since(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> Growth | None:
    """Growth of the negatives since ``reference``; None if the score separates nothing.

    ``train_prior`` is that of the reference, which may be rough.
    """
    growth: Growth | None = Growth(1.0)
    for _ in range(2):  # the prior of the new rows only determines which mean is matched
        if growth is not None:
            guess = _between_0_and_1(1 - growth.value * (1 - train_prior))
            growth = negative_growth(tails, reference, guess)
    return growth


def later_priors(train_priors: Sequence[float], growth: Growth) -> tuple[FloatArray, FloatArray]:
    r"""Weights of training priors if only the prior moved, and the later prior for each of them.

    ``train_priors`` are equally likely before the later rows are seen. The growth of the negatives
    :math:`\lambda = (1-\pi')/(1-\pi)` was measured with a normal error. If every prior :math:`\pi'`
    of the later rows is equally likely, every growth from 0 to :math:`1/(1-\pi)` has the density
    :math:`1-\pi`, and others are impossible, because no prior is outside of 0 and 1. So the weight
    of a training prior is :math:`1-\pi` times the probability that the growth is possible, and
    :math:`\pi'` follows from the mean of the possible growths.
    """
    negative = np.maximum(1 - np.asarray(train_priors, dtype=np.float64), 1e-9)
    spread = growth.safe_spread
    least, most, log_possible = _possible(negative, growth)
    densities = np.exp(_log_normal(most) - log_possible) - np.exp(_log_normal(least) - log_possible)
    later = np.clip(1 - negative * (growth.value - spread * densities), 0.0, 1.0)
    return _weights(negative, log_possible), later


def possible_growths(
    train_priors: Sequence[float], growth: Growth
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights of training priors, as in :func:`later_priors`, and the growths possible for each.

    These are given by the probabilities that the normal error stays below their ends.
    """
    negative = np.maximum(1 - np.asarray(train_priors, dtype=np.float64), 1e-9)
    least, most, log_possible = _possible(negative, growth)
    lowest = np.full(len(negative), float(scipy.special.ndtr(least)))
    return _weights(negative, log_possible), lowest, scipy.special.ndtr(most)


def _possible(negative: FloatArray, growth: Growth) -> tuple[float, FloatArray, FloatArray]:
    """Ends of the possible growths in standard deviations, and the log of their probability."""
    least = -growth.value / growth.safe_spread
    most = (1 / negative - growth.value) / growth.safe_spread
    log_below = scipy.special.log_ndtr(most)
    log_possible = log_below + np.log1p(-np.exp(scipy.special.log_ndtr(least) - log_below))
    return least, most, log_possible


def _weights(negative: FloatArray, log_possible: FloatArray) -> FloatArray:
    log_weight = np.log(negative) + log_possible
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def _log_normal(deviation: FloatArray | float) -> FloatArray:
    """Log of the density of the standard normal distribution."""
    return np.asarray(-np.square(deviation) / 2 - math.log(2 * math.pi) / 2)


def chance_of_growth(train_priors: Sequence[float], growth: Growth) -> float:
    """Probability that the training prior is large enough for this growth of the negatives."""
    most = 1 / np.maximum(1 - np.asarray(train_priors), 1e-9)
    return float(np.mean(scipy.special.ndtr((most - growth.value) / max(growth.spread, 1e-9))))


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
    log_up = math.hypot(
        log_up, -float(scipy.special.ndtri(lower_tail)) * growth.spread / growth.value
    )
    log_down = math.log(negative / max(1 - share.high, 1e-9))
    log_down = math.hypot(
        log_down, -float(scipy.special.ndtri(upper_tail)) * growth.spread / growth.value
    )

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
    growth = growth_since(tails, reference, prior.value) or Growth(1.0)
    scale = float(scipy.special.ndtri((1 - level) / 2) / scipy.special.ndtri((1 - prior_level) / 2))
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
