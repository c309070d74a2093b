r"""The distribution of a prior: its value, its lower limit, and whether it is identified.

Every prior from 0 to the mixture proportion explains the same positives and the same unlabeled
rows. The readings of a prior assume that the best-scored rows are all positive, so they are upper
readings. Here the counts are evidence among other evidence, and four densities are multiplied:

1. **Usual priors.** Before the data are seen, the prior of a population has a Beta distribution.
   Small priors are more likely than large ones where some positives of one sample were labelled.
2. **The labelled share.** In a single sample, the prior times the rate of labelling is the share of
   labelled rows, which is known. Every rate is taken as equally likely, so the share is a hard
   lower bound of the prior, and priors far above it are less likely than those near it.
3. **The reading.** It assumes that the best-scored rows are all positive. Where fold models showed
   how far scores are off, the negatives that this error puts among the best-scored rows are taken
   out of it. Its log-odds are then normally distributed around those of the true prior. Their
   standard deviation decreases with the strength of the signal and the number of positives. In
   some tables the best-scored rows are a large group of equally likely rows, which looks like pure
   positives. The reading is then an upper bound only. The share of such tables decreases with the
   strength of the signal, but not to 0: a group that is clearly separated from all other rows may
   still be a mixture, and no counts tell.
4. **Usual separability.** For labelled positives that are a fair sample, the area under the ROC
   curve of positives against unlabeled rows is tied to that of positives against negatives,

   .. math:: A_{pu} - 1/2 = (1 - \rho) (A_{pn} - 1/2).

   :math:`A_{pu}` is seen, and :math:`A_{pn}` has usual values in real tables: a Beta distribution
   of :math:`2 A_{pn} - 1`. A small :math:`A_{pu}` means useless columns or mostly positive rows,
   and the second is more common. A prior above :math:`2 (1 - A_{pu})` is impossible, up to noise.
   In a few tables no column says anything about the classes, and the area says nothing.

The value is the mean of the product. Its lower limit is a quantile, or that of
:func:`drpu.priors.limits.ratio_limits` where this is lower. The upper limit is that of the same
function. It needs no assumption, and larger priors get no weight.
The prior is identified if its expected error and its chance of being far off are small. The numbers
were chosen by leaving out one table after the other (``python -m benchmarks.central --choose``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu._checks import check_fraction
from drpu.priors import constants
from drpu.priors.estimate import PriorEstimate
from drpu.priors.limits import Limits, largest_growth, ratio_limits, shift_limits
from drpu.priors.plateau import DESIGN_LEVEL, expected_curve, slide
from drpu.priors.readings import adaptive
from drpu.priors.tails import ScoreTails

N_QUANTILES = 10  # values that stand for a distribution where probabilities are averaged over it
_STEP = 0.05
_LOG_ODDS = np.linspace(-7.0, 7.0, 281)  # every step
_RHO = 1 / (1 + np.exp(-_LOG_ODDS))
_SEPARABILITY = (np.arange(80) + 0.5) / 80  # values of 2 A_pn - 1
_RECALL_OF_READING = 0.2  # the impurity there is the bias of a reading; it hardly changes nearby
_SQRT_2_PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class PriorDistribution:
    """Probabilities of priors."""

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

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Equally likely values of the prior, ascending."""
        probabilities = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
        return tuple(self.quantile(probability) for probability in probabilities)

    def error(self, value: float) -> float:
        """Expected distance of the prior from ``value``."""
        return float(self.weight @ np.abs(self.prior - value))

    def far_from(self, value: float) -> float:
        """Probability that the prior is further from ``value`` than an identified one may be."""
        far = np.abs(self.prior - value) > constants.FAR_OFF
        return float(self.weight[far].sum())

    @property
    def identified(self) -> bool:
        """Whether the expected error of the mean and its chance of being far off are small."""
        if self.error(self.mean) >= constants.EXPECTED_ERROR:
            return False
        return self.far_from(self.mean) < constants.CHANCE_OF_FAR_OFF

    def with_labelled(self, labelled_share: float) -> PriorDistribution:
        """The same for the population, of which this share is labelled and so positive."""
        return replace(self, prior=labelled_share + (1 - labelled_share) * self.prior)


@dataclass(frozen=True, slots=True)
class PriorEvidence:
    """What counts say about the prior of the unlabeled rows that they count."""

    reading: float  # the prior if only errors of scores put negatives among the best rows
    separation: float  # smallest Youden index of the score against negatives
    area: float  # area under the ROC curve of positives against unlabeled rows
    n_positive: float  # held-out positives
    high: float  # upper limit, which needs no assumption

    @classmethod
    def of(
        cls, tails: ScoreTails, limits: Limits, score_error: float | None = None
    ) -> PriorEvidence:
        """The evidence of ``tails``, with their ``limits``."""
        return cls(
            reading=corrected_reading(tails, score_error),
            separation=min(max(limits.separation, 0.0), 1.0),
            area=positive_area(tails),
            n_positive=tails.n_positive,
            high=limits.high,
        )


def corrected_reading(tails: ScoreTails, score_error: float | None) -> float:
    """The reading without the negatives that the error of the scores puts among the best rows.

    Without a measured error, and if many rows are positive, it is the reading itself.
    """
    reading = adaptive(tails)
    weight = 1 - slide(reading, *constants.READINGS_WITH_ERROR)
    if score_error is None or weight == 0:
        return reading
    by_error = saturation(tails, reading, _RECALL_OF_READING, score_error)
    by_shape = saturation(tails, reading, _RECALL_OF_READING, 0.0)
    impurity = weight * max(by_error - by_shape, 0.0)
    return max(0.0, (reading - impurity) / (1 - impurity))


def positive_area(tails: ScoreTails) -> float:
    """Area under the ROC curve of positives against counted rows; rows of one cell are ties."""
    unlabeled = tails.counts / tails.counts.sum()
    positive = tails.positive_counts / tails.positive_counts.sum()
    below = np.cumsum(unlabeled) - unlabeled / 2
    return float(positive @ below)


def prior_distribution(
    evidence: PriorEvidence, *, labelled_share: float | None = None
) -> PriorDistribution:
    """Distribution of the prior of the unlabeled rows.

    ``labelled_share`` is the share of the population that is labelled, in a single sample.
    """
    log_weight = (
        _log_usual(labelled_share)
        + _log_reading(evidence)
        + _log_separability(evidence.area, evidence.n_positive)
    )
    allowed = max(evidence.high, float(_RHO[0])) >= _RHO
    weight = np.where(allowed, np.exp(log_weight - log_weight[allowed].max()), 0.0)
    return PriorDistribution(_RHO, weight / weight.sum())


def _log_usual(labelled_share: float | None) -> FloatArray:
    """Log density of usual priors and of the labelled share, over the log-odds."""
    density_of_log_odds: FloatArray = np.log(_RHO) + np.log1p(-_RHO)
    if labelled_share is None:
        a, b = constants.USUAL_PRIORS_CASE_CONTROL
        usual: FloatArray = (a - 1) * np.log(_RHO) + (b - 1) * np.log1p(-_RHO)
        return usual + density_of_log_odds
    a, b = constants.USUAL_PRIORS_SINGLE_SAMPLE
    population = labelled_share + (1 - labelled_share) * _RHO
    usual = (a - 1) * np.log(population) + (b - 1) * np.log1p(-population)
    # The labelled share has the density 1 / prior below the prior, if every rate is equally likely.
    return np.asarray(usual - np.log(population) + density_of_log_odds)


def _log_reading(evidence: PriorEvidence) -> FloatArray:
    """Log density of the reading: right up to noise, or an upper bound only."""
    spread = reading_spread(evidence.separation, evidence.n_positive)
    centre = float(scipy.special.logit(min(max(evidence.reading, 1e-3), 1 - 1e-3)))
    deviation = (_LOG_ODDS - centre) / spread
    width = constants.UPPER_BOUND_ONLY[2]
    upper_bound_only = share_of_upper_bounds(evidence.separation)
    right = np.log1p(-upper_bound_only) - deviation**2 / 2 - np.log(spread * _SQRT_2_PI)
    below = np.log(upper_bound_only) + scipy.special.log_ndtr(-deviation) - np.log(width)
    return np.asarray(np.logaddexp(right, below))


def share_of_upper_bounds(separation: float) -> float:
    """Share of the tables with this separation in which the reading is an upper bound only."""
    without_signal, separated, _ = constants.UPPER_BOUND_ONLY
    return separated + (without_signal - separated) * (1 - separation) ** 2


def reading_spread(separation: float, n_positive: float) -> float:
    """Standard deviation of the log-odds of a reading around the true ones."""
    without_signal, exponent, noise = constants.READING_SPREAD
    spread = without_signal * (1 - separation) ** exponent + noise / np.sqrt(n_positive)
    return max(float(spread), _STEP)  # a narrower density would fall between two priors


def _log_separability(area: float, n_positive: float) -> FloatArray:
    """Log density of the area of positives against unlabeled rows, at each prior of these."""
    a, b = constants.USUAL_SEPARABILITY
    usual = _SEPARABILITY ** (a - 1) * (1 - _SEPARABILITY) ** (b - 1)
    usual /= usual.sum()
    expected = 0.5 + (1 - _RHO[:, None]) * _SEPARABILITY / 2
    noise = constants.AREA_NOISE / np.sqrt(n_positive)
    of_usual_columns = np.exp(-(((area - expected) / noise) ** 2) / 2) @ usual
    of_useless_columns = np.exp(-(((area - 0.5) / noise) ** 2) / 2)
    useless = constants.USELESS_COLUMNS
    density = (1 - useless) * of_usual_columns + useless * of_useless_columns
    return np.asarray(np.log(np.maximum(density, 1e-300)))


@dataclass(frozen=True, slots=True)
class CentralPrior:
    """A prior of unlabeled rows with its limits."""

    value: float  # the mean of its distribution
    upper: float  # the reading: the prior if the best-scored rows are all positive
    limits: Limits  # the lower one by the distribution and the counts, the upper one by the counts
    quantiles: tuple[float, ...]  # equally likely values of the distribution


def central_prior(
    tails: ScoreTails,
    level: float = 0.95,
    *,
    labelled_share: float | None = None,
    score_error: float | None = None,
) -> CentralPrior:
    """Prior of the rows counted in ``tails``, with limits."""
    check_fraction("level", level)
    limits = ratio_limits(tails, level)
    design = limits  # the distribution does not depend on the level
    if level != DESIGN_LEVEL:
        design = ratio_limits(tails, DESIGN_LEVEL)
    evidence = PriorEvidence.of(tails, design, score_error)
    distribution = prior_distribution(evidence, labelled_share=labelled_share)
    value = min(distribution.mean, limits.high)
    # The densities do not know the noise of the counted rows, which matters for rare positives.
    low = min(distribution.quantile((1 - level) / 2), limits.low, value)
    upper = min(max(adaptive(tails), value), limits.high)

    # An error counts as that of the prior of the population, whose labelled rows are positive.
    identified = distribution.with_labelled(labelled_share or 0.0).identified
    limits = replace(limits, low=low, identified=identified)
    return CentralPrior(value, upper, limits, distribution.quantiles)


def later_limits(
    tails: ScoreTails,
    reference: ScoreTails,
    level: float,
    train_prior: PriorEstimate,
    *,
    score_error: float | None = None,
) -> Limits:
    r"""Limits of the prior of later rows under prior shift.

    The growth of the negatives :math:`\lambda = (1 - \pi')/(1 - \pi)` is known without any prior.
    Where the training prior is not identified, the lower limit follows from the largest
    :math:`\lambda` and the lower limit of that prior. Where it is identified, the limits are those
    of matching, with a lower limit that allows for the negatives that the error of the scores puts
    among the best-scored rows. Without this, later rows without any positive would seem to have
    some. ``score_error`` is that error, if the fold models showed it.
    """
    limits = shift_limits(tails, reference, level)
    if not train_prior.identified:
        low = max(0.0, 1 - largest_growth(tails, reference, level) * (1 - train_prior.low))
        return replace(limits, low=low, high=max(limits.high, low), identified=False)
    if limits.recall == 1:
        return limits
    impurity = saturation(reference, train_prior.value, limits.recall, score_error)
    return limits.lowered(impurity)


def saturation(
    reference: ScoreTails, prior: float, recall: float, error: float | None = None
) -> float:
    """Density of negatives over that of positives above the threshold with this recall.

    ``error`` is that of the scores: see :func:`drpu.priors.plateau.expected_curve`.
    """
    recalls, densities = expected_curve(reference, prior, error)
    return min(float(np.interp(recall, recalls, densities)), 0.9)
