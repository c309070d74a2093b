r"""The prior where the counts give little more than an upper bound: a central value and limits.

Every prior from 0 to the mixture proportion explains the same positives and the same unlabeled rows. The
readings of a prior assume that the best-scored rows are all positive, so they are upper readings. Here the
counts are one piece of evidence among three:

1. **Usual priors.** Before the data are seen, the prior of a population has a Beta distribution: small priors
   are more likely than large ones.
2. **The labelled share.** In a single sample, the prior times the rate of labelling is the share of
   labelled rows, which is known. Every rate is taken as equally likely, so the share is a hard lower
   bound of the prior, and priors far above it are less likely than those near it.
3. **The reading.** The log-odds of the plateau's prior are normally distributed around those of the true
   prior. Their standard deviation decreases with the strength of the signal and the number of positives, and
   was measured on real tables (``python -m benchmarks.central``).

The central value is the mean of the resulting distribution; between the separations ``WEAK`` and the one that
is enough it approaches the reading. A reading counts as identified if the score
separates the classes well, and also with a weak score if its expected error under the same distribution is
small, because there is little room below the upper limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from drpu._checks import check_fraction
from drpu._typing import FloatArray
from drpu.priors.calibration import fit_plateau, noisy_curve, score_error
from drpu.priors.limits import Limits, largest_growth, ratio_limits, shift_limits
from drpu.priors.readings import adaptive
from drpu.priors.separation import DESIGN, ENOUGH
from drpu.priors.tails import ScoreTails

USUAL_PRIORS = (0.4, 1.0)  # parameters of a Beta distribution
SPREAD = (3.2, 2.8, 1.0)  # without a signal; decrease with its strength; multiple of 1/sqrt(positives)
EXPECTED_ERROR = 0.075  # largest expected error of a reading that counts as identified by a weak score
WEAK = 0.3  # from this separation on the value moves from the mean of the distribution to the reading
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
        return float(np.interp(probability, np.cumsum(self.weight) - self.weight / 2, self.prior))

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
    prior = share + (1 - share) * rho  # of the population
    a, b = USUAL_PRIORS
    log = (a - 1) * np.log(prior) + (b - 1) * np.log1p(-prior) + np.log(rho) + np.log1p(-rho)
    if labelled_share is not None:
        log = log - np.log(prior)  # density of the labelled share, if every rate is equally likely
    centre = float(logit(min(max(reading, 1e-3), 1 - 1e-3)))
    log = log - ((_LOG_ODDS - centre) / reading_spread(strength, n_positive)) ** 2 / 2
    allowed = rho <= max(high, float(rho[0]))
    weight = np.where(allowed, np.exp(log - log[allowed].max()), 0.0)
    return PriorDistribution(rho, weight / weight.sum())


def reading_spread(strength: float, n_positive: float) -> float:
    """Standard deviation of the log-odds of a reading around the true ones."""
    most, decrease, noise = SPREAD
    return most * math.exp(-decrease * min(max(strength, 0.0), 1.0)) + noise / math.sqrt(n_positive)


@dataclass(frozen=True, slots=True)
class CentralPrior:
    """A prior of unlabeled rows with its limits."""

    value: float  # the reading if it is identified, and otherwise the central value
    upper: float  # the reading: the prior if the best-scored rows are all positive
    limits: Limits  # where the prior is not identified, ``low`` needs no assumption about the classes


def central_prior(
    tails: ScoreTails, level: float = 0.95, *, labelled_share: float | None = None
) -> CentralPrior:
    """Prior of the rows counted in ``tails``, with limits.

    Where the prior is not identified, the lower limit is 0: the labelled share of the population then is
    the lower limit of its prior. Where it is identified although the signal is weak, the lower limit is not
    above the quantile of the distribution.
    """
    check_fraction("level", level)
    limits = ratio_limits(tails, level)
    design = limits if level == DESIGN else ratio_limits(tails, DESIGN)
    reading = adaptive(tails)
    upper = min(max(reading, design.low), design.high)
    found = prior_distribution(
        fit_plateau(tails).prior,
        design.separation,
        tails.n_positive,
        labelled_share=labelled_share,
        high=design.high,
    )
    # The labelled rows are known to be positive, so that the reading refers to the others.
    error = found.error(upper) * (1 - (labelled_share or 0.0))
    if error > EXPECTED_ERROR and design.separation < ENOUGH:
        # near the strength that is enough, the value approaches the reading: there is no jump
        near = min(max((design.separation - WEAK) / (ENOUGH - WEAK), 0.0), 1.0)
        value = min(found.mean + near * (upper - found.mean), limits.high)
        upper = min(max(upper, value), limits.high)
        return CentralPrior(value, upper, replace(limits, low=0.0, identified=False))
    value = min(max(reading, limits.low), limits.high)
    low = limits.low
    if limits.separation < ENOUGH:
        low = min(low, found.quantile((1 - level) / 2))
    return CentralPrior(value, value, replace(limits, low=low))


def later_limits(
    tails: ScoreTails, reference: ScoreTails, train: tuple[float, float, bool], level: float = 0.95
) -> Limits:
    r"""Limits of the prior of later rows under prior shift.

    The growth of the negatives :math:`\lambda = (1 - \pi')/(1 - \pi)` is known without any prior. Where the
    training prior is not identified, the lower limit follows from the largest :math:`\lambda`
    and the lower limit of that prior. Where it is identified, the limits are those of matching, with a
    lower limit that allows for the negatives that the error of the scores puts among the best-scored rows.
    Without this, later rows without any positive would seem to have some.
    """
    value, lowest, identified = train
    limits = shift_limits(tails, reference, level)
    if not identified:
        low = max(0.0, 1 - largest_growth(tails, reference, level) * (1 - lowest))
        return replace(limits, low=low, high=max(limits.high, low), identified=False)
    if limits.low > 0 and limits.recall < 1:
        lowered = limits.lowered(saturation(reference, value, limits.recall)).low
        return replace(limits, low=0.0) if lowered == 0 else limits
    return limits


def saturation(reference: ScoreTails, prior: float, recall: float) -> float:
    """Density of negatives over that of positives above the threshold with this recall.

    It is the part that the error of the scores explains: see :func:`drpu.priors.calibration.noisy_curve`.
    Twice that error is used, because a limit depends on it.
    """
    prior = min(max(prior, 1e-3), 1 - 1e-3)
    found, wrong = noisy_curve(fit_plateau(reference, prior), prior, 2 * score_error(reference))
    return float(np.interp(recall, found, np.minimum(wrong / np.maximum(found, 1e-300), 0.9)))
