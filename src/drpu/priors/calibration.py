"""Calibration of scores to density ratios: monotone least squares and a smooth plateau."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit, ndtr, ndtri

from drpu._checks import check_prior, check_scores
from drpu._codec import Array, Number, kept
from drpu._typing import FloatArray
from drpu.exceptions import DataError
from drpu.priors.tails import ScoreTails, remembered

_HUGE = 1e100  # larger scores are treated as infinite
# Variance of the log-ratio of a row around its true value: numbers over the sizes of the two samples.
_SCORE_ERROR = (0.5, 0.25)
_Z = np.linspace(-8.0, 5.0, 521)  # normal scores of the positives
_MASS = np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


def monotone_cells(tails: ScoreTails) -> FloatArray:
    """Ratio in each cell: the least-squares fit among increasing functions of the score.

    The minimiser of the LSIF risk over monotone functions pools adjacent cells until
    positive mass over unlabeled mass increases. Ties share a cell and so are pooled
    first. A cell at the top that no unlabeled row reaches has ratio infinity.
    """
    positive = tails.positive_counts / tails.positive_counts.sum()
    weight = np.maximum(tails.counts / tails.counts.sum(), 1e-300)
    with np.errstate(over="ignore"):
        fit = isotonic_regression(positive / weight, weights=weight).x
    fit[fit > 1e100] = np.inf
    return np.asarray(fit, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Plateau:
    r"""A smooth share of positives among positives and unlabeled rows.

    .. math:: g(z) = A \, \sigma(\alpha + \beta z), \qquad A = \frac{c}{c + (1 - c) \rho}

    with :math:`z` the normal quantile of a score among the positives, :math:`c` the share
    of the positive sample and :math:`\rho` the prior of the unlabeled one. The plateau
    :math:`A` is reached where only positives are left, so its height gives the prior. The
    shape is exact if the ROC curve is binormal with equal variances. It does not depend on
    increasing transformations of the scores.
    """

    prior: float
    intercept: float
    slope: float
    labelled: float  # share of the positive sample in both

    def __call__(self, normal_scores: FloatArray) -> FloatArray:
        """Ratio at each normal score."""
        height = self.labelled / (self.labelled + (1 - self.labelled) * self.prior)
        share = np.minimum(height * expit(self.intercept + self.slope * normal_scores), 1 - 1e-12)
        return np.asarray(share / (1 - share) * (1 - self.labelled) / self.labelled)


def normal_scores(tails: ScoreTails) -> FloatArray:
    """Normal quantile of each cell among the positives."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum() * tails.n_positive
    return np.asarray(ndtri((below + 0.5) / (tails.n_positive + 1)))


@remembered
def fit_plateau(tails: ScoreTails, prior: float | None = None) -> Plateau:
    """Plateau that maximises the likelihood of positive against unlabeled rows.

    Without the prior of the unlabeled rows it is estimated, with a Beta(2, 2) prior distribution, equivalent
    to two rows, which keeps it away from 0 and 1 if the data do not determine it.
    """
    positive = tails.positive_counts / tails.positive_counts.sum() * tails.n_positive
    unlabeled = tails.counts / tails.counts.sum() * tails.n
    z = normal_scores(tails)
    c = tails.n_positive / (tails.n_positive + tails.n)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        rho, slope = float(expit(theta[0])), np.exp(theta[2])
        height = c / (c + (1 - c) * rho)
        climb = expit(theta[1] + slope * z)
        share = np.clip(height * climb, 1e-12, 1 - 1e-12)
        value = -(positive @ np.log(share) + unlabeled @ np.log1p(-share)) - np.log(rho * (1 - rho))
        pull = unlabeled / (1 - share) - positive / share
        bend = pull * height * climb * (1 - climb)
        gradient = [
            -(pull @ climb) * height**2 * (1 - c) / c * rho * (1 - rho) - (1 - 2 * rho),
            bend.sum(),
            slope * (bend @ z),
        ]
        return float(value), np.array(gradient)

    # The likelihood can have several maxima: start from a low, a medium and a high prior. At a known prior
    # one of them is a flat curve far away, which the fit with a free prior avoids.
    bounds = [(-7.0, 7.0), (-20.0, 20.0), (-3.0, 3.0)]
    starts = [[start, -0.5, 0.7] for start in (-2.0, 0.0, 2.0)]
    if prior is not None:
        known, free = float(np.clip(logit(prior), -7.0, 7.0)), fit_plateau(tails)
        bounds[0] = known, known
        starts = [[known, free.intercept, math.log(free.slope)], [known, 1.0, 0.7]]
    fits = [minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B") for start in starts]
    log_odds, intercept, log_slope = min(fits, key=lambda fit: float(fit.fun)).x
    return Plateau(float(expit(log_odds)), float(intercept), float(np.exp(log_slope)), c)


def score_error(tails: ScoreTails) -> float:
    """Standard deviation of a fitted log-ratio around the true one."""
    of_positive, of_unlabeled = _SCORE_ERROR
    return math.sqrt(of_positive / tails.n_positive + of_unlabeled / tails.n)


def noisy_curve(
    plateau: Callable[[FloatArray], FloatArray], prior: float, error: float
) -> tuple[FloatArray, FloatArray]:
    r"""Recall and false-positive rate at many thresholds, both ascending.

    A positive with normal score z has the posterior :math:`\eta(z) = \pi r(z)` and the fitted score
    :math:`s = \log \eta(z) + \varepsilon`. For each positive there are :math:`(1 - \eta)/\eta` negatives at
    the same z. Without an error the curve is that of the plateau.
    """
    eta = np.clip(prior * plateau(_Z), 1e-12, 1 - 1e-12)
    error = max(error, 1e-9)
    cuts = np.concatenate((np.linspace(4 * error, 0, 40, endpoint=False), np.log(eta)[::-3]))
    above = ndtr((np.log(eta) - cuts[:, None]) / error)
    wrong = above @ (_MASS * (1 - eta) / eta) * prior / (1 - prior)
    return above @ _MASS, np.minimum(wrong, 1.0)


@kept("calibration")
@dataclass(frozen=True)
class Calibration:
    """An increasing map from scores to ratios: the mean of a step function and a smooth curve.

    The step function is isotonic regression, and the curve interpolates between its levels. Both are at most
    1/prior. With a labelled share above 0 the ratios refer to the population from which the labelled rows
    were drawn.
    """

    levels: Annotated[FloatArray, Array("k", low=-np.inf, high=np.inf)]
    steps: Annotated[FloatArray, Array("c", low=0)]  # one value per cell
    curve: Annotated[FloatArray, Array("c", low=0)]  # one value per cell, interpolated linearly
    ceiling: Annotated[float, Number(1, 1e100)]
    labelled_share: Annotated[float, Number(0, 1)] = 0.0
    _knots: FloatArray = field(init=False, repr=False, compare=False)  # of the curve, found once
    _at_knots: FloatArray = field(init=False, repr=False, compare=False)
    _population_steps: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, values in (("steps", self.steps), ("curve", self.curve)):
            if len(values) != len(self.levels) + 1 or (values[1:] < values[:-1]).any():
                raise DataError(
                    f"the {name} of a calibration must be one more than its levels, and must not decrease."
                )
        if (self.levels[1:] <= self.levels[:-1]).any() or self.labelled_share >= 1:
            raise DataError("the levels of a calibration must ascend, and its labelled share be below 1.")
        object.__setattr__(self, "_knots", np.clip(self.levels, -_HUGE, _HUGE))
        object.__setattr__(self, "_at_knots", (self.curve[:-1] + self.curve[1:]) / 2)
        object.__setattr__(self, "_population_steps", self._in_population(self.steps))

    def __call__(self, scores: Any) -> FloatArray:
        """Ratio at each score."""
        return self.ratios(check_scores("scores", scores, allow_empty=True))

    def ratios(self, scores: FloatArray) -> FloatArray:
        """Ratio at each score of a checked array."""
        steps = self._population_steps[self.levels.searchsorted(scores, side="right")]
        curve = np.interp(scores, self._knots, self._at_knots, left=self.curve[0], right=self.curve[-1])
        return np.asarray((steps + self._in_population(curve)) / 2)

    def cell_ratios(self) -> FloatArray:
        """Ratio in each cell: the mean of the step and of the curve there."""
        return np.asarray((self._population_steps + self._in_population(self.curve)) / 2)

    def _in_population(self, ratio: FloatArray) -> FloatArray:
        return population_ratio(np.minimum(ratio, self.ceiling), self.labelled_share)


def calibrate(tails: ScoreTails, prior: float, *, labelled_share: float = 0.0) -> Calibration:
    """Calibration of the scores in ``tails``, with ratios of at most 1 / ``prior``.

    Parameters
    ----------
    tails : ScoreTails
        Held-out positives and unlabeled rows.
    prior : float
        Share of positives among those unlabeled rows.
    labelled_share : float, default=0.0
        Share of the population that was labelled and is not among the unlabeled rows.
    """
    ceiling = 1 / max(check_prior("prior", prior), 1e-12)
    steps = np.minimum(monotone_cells(tails), ceiling)
    curve = np.minimum(fit_plateau(tails)(normal_scores(tails)), ceiling)
    return Calibration(tails.levels, steps, curve, ceiling, labelled_share)


def population_ratio(ratio: FloatArray, labelled_share: float) -> FloatArray:
    """p+/p of a population from p+/p of its unlabeled part.

    If the labelled rows are part of the population, its density is
    ``labelled_share * p+ + (1 - labelled_share) * p_unlabeled``.
    """
    return ratio / (labelled_share * ratio + 1 - labelled_share)
