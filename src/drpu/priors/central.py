r"""The prior where the counts give little more than an upper bound: a central value and limits.

Every prior from 0 to the mixture proportion explains the same positives and the same unlabeled
rows. The readings of a prior assume that the best-scored rows are all positive, so they are upper
readings. Here the counts are one piece of evidence among three:

1. **Usual priors.** Before the data are seen, the prior of a population has a Beta distribution:
small priors
   are more likely than large ones.
2. **The labelled share.** In a single sample, the prior times the rate of labelling is the share of
   labelled rows, which is known. Every rate is taken as equally likely, so the share is a hard
   lower bound of the prior, and priors far above it are less likely than those near it.
3. **The reading.** The log-odds of the plateau's prior are normally distributed around those of
the true
   prior. Their standard deviation decreases with the strength of the signal and the number of
   positives, and was measured on real tables (``python -m benchmarks.central``).

The central value is the mean of the resulting distribution; between a weak separation and one that
is enough it approaches the reading. A reading counts as identified if the score separates the
classes well, and also with a weak score if its expected error under the same distribution is
small, because there is little room below the upper limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from drpu._checks import check_fraction
from drpu._typing import FloatArray
from drpu.priors import constants
from drpu.priors.limits import Limits, largest_growth, ratio_limits, shift_limits
from drpu.priors.plateau import DESIGN_LEVEL, fit_plateau, noisy_curve, score_error, slide
from drpu.priors.readings import adaptive
from drpu.priors.tails import ScoreTails

_LOG_ODDS = np.linspace(-7.0, 7.0, 141)


@dataclass(frozen=True, slots=True)
class PriorDistribution:
    """Probabilities of priors of the unlabeled rows."""

    prior: FloatArray  # priors, ascending
    weight: FloatArray  # their probabilities

    @property
    def mean(self) -> float:
        """Expected prior."""
        return float(self.weight @ self.prior)

    def quantile(self, probability: float) -> float:
        """The prior that is not exceeded with this probability."""
        below = np.cumsum(self.weight) - self.weight / 2
        return float(np.interp(probability, below, self.prior))

    def error(self, value: float) -> float:
        """Expected distance of the prior from ``value``."""
        return float(self.weight @ np.abs(self.prior - value))


def prior_distribution(
    reading: float,
    strength: float,
    n_positive: float,
    *,
    labelled_share: float | None = None,
    high: float = 1.0,
) -> PriorDistribution:
    """Distribution of the prior of the unlabeled rows, given what the counts say about it.

    That is the prior of the plateau and the smallest Youden index of the score; larger priors than
    ``high`` get no weight. The labelled share of a single sample means nothing in case-control.
    """
    rho = expit(_LOG_ODDS)
    share = 0.0 if labelled_share is None else labelled_share
    population_prior = share + (1 - share) * rho
    log_weight = _log_usual(population_prior) + np.log(rho) + np.log1p(-rho)  # in the log-odds
    if labelled_share is not None:
        # density of the labelled share, if every rate is equally likely
        log_weight = log_weight - np.log(population_prior)
    centre = float(logit(min(max(reading, 1e-3), 1 - 1e-3)))
    deviation = (_LOG_ODDS - centre) / reading_spread(strength, n_positive)
    log_weight = log_weight - deviation**2 / 2

    allowed = rho <= max(high, float(rho[0]))
    weight = np.where(allowed, np.exp(log_weight - log_weight[allowed].max()), 0.0)
    return PriorDistribution(rho, weight / weight.sum())


def _log_usual(population_prior: FloatArray) -> FloatArray:
    """Log density of usual priors, up to a constant."""
    a, b = constants.USUAL_PRIORS
    return (a - 1) * np.log(population_prior) + (b - 1) * np.log1p(-population_prior)


def reading_spread(strength: float, n_positive: float) -> float:
    """Standard deviation of the log-odds of a reading around the true ones."""
    without_signal, decrease, noise = constants.READING_SPREAD
    strength = min(max(strength, 0.0), 1.0)
    return without_signal * math.exp(-decrease * strength) + noise / math.sqrt(n_positive)


@dataclass(frozen=True, slots=True)
class CentralPrior:
    """A prior of unlabeled rows with its limits."""

    value: float  # the reading if it is identified, and otherwise the central value
    upper: float  # the reading: the prior if the best-scored rows are all positive
    limits: Limits  # ``low`` needs no assumption where the prior is not identified


def central_prior(
    tails: ScoreTails, level: float = 0.95, *, labelled_share: float | None = None
) -> CentralPrior:
    """Prior of the rows counted in ``tails``, with limits.

    Where the prior is not identified, the lower limit is 0: the labelled share of the population
    then is the lower limit of its prior. Where it is identified although the signal is weak, the
    lower limit is not above the quantile of the distribution.
    """
    check_fraction("level", level)
    limits = ratio_limits(tails, level)
    design = limits if level == DESIGN_LEVEL else ratio_limits(tails, DESIGN_LEVEL)
    reading = adaptive(tails)
    upper = min(max(reading, design.low), design.high)
    distribution = prior_distribution(
        fit_plateau(tails).prior,
        design.separation,
        tails.n_positive,
        labelled_share=labelled_share,
        high=design.high,
    )
    # The labelled rows are known to be positive, so that the reading refers to the others.
    share_of_others = 1.0 if labelled_share is None else 1 - labelled_share
    expected_error = distribution.error(upper) * share_of_others
    weak = design.separation < constants.ENOUGH_SEPARATION
    if weak and expected_error > constants.EXPECTED_ERROR:
        # near the strength that is enough, the value approaches the reading: there is no jump
        part = slide(design.separation, constants.WEAK_SEPARATION, constants.ENOUGH_SEPARATION)
        value = min(distribution.mean + part * (upper - distribution.mean), limits.high)
        upper = min(max(upper, value), limits.high)
        return CentralPrior(value, upper, replace(limits, low=0.0, identified=False))

    value = min(max(reading, limits.low), limits.high)
    low = limits.low
    if limits.separation < constants.ENOUGH_SEPARATION:
        low = min(low, distribution.quantile((1 - level) / 2))
    return CentralPrior(value, value, replace(limits, low=low))


def later_limits(
    tails: ScoreTails,
    reference: ScoreTails,
    level: float,
    *,
    train_prior: float,
    train_low: float,
    train_identified: bool,
) -> Limits:
    r"""Limits of the prior of later rows under prior shift.

    The growth of the negatives :math:`\lambda = (1 - \pi')/(1 - \pi)` is known without any prior.
    Where the training prior is not identified, the lower limit follows from the largest
    :math:`\lambda` and the lower limit of that prior. Where it is identified, the limits are those
    of matching, with a lower limit that allows for the negatives that the error of the scores puts
    among the best-scored rows. Without this, later rows without any positive would seem to have
    some.
    """
    limits = shift_limits(tails, reference, level)
    if not train_identified:
        low = max(0.0, 1 - largest_growth(tails, reference, level) * (1 - train_low))
        return replace(limits, low=low, high=max(limits.high, low), identified=False)
    if limits.low > 0 and limits.recall < 1:
        lowered = limits.lowered(saturation(reference, train_prior, limits.recall))
        if lowered.low == 0:
            return lowered
    return limits


def saturation(reference: ScoreTails, prior: float, recall: float) -> float:
    """Density of negatives over that of positives above the threshold with this recall.

    It is the part that the error of the scores explains: see
    :func:`drpu.priors.plateau.noisy_curve`. Twice that error is used, because a limit depends on
    it.
    """
    prior = min(max(prior, 1e-3), 1 - 1e-3)
    plateau = fit_plateau(reference, prior)
    recalls, false_positive_rates = noisy_curve(plateau, prior, 2 * score_error(reference))
    densities = np.minimum(false_positive_rates / np.maximum(recalls, 1e-300), 0.9)
    return float(np.interp(recall, recalls, densities))
