r"""A smooth share of positives as a function of the score, and the curve that follows from it.

Beside the counts themselves it is half of the calibration of scores, one of the named readings of a
prior, and the support of rates that few counted rows determine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu.priors.tails import ScoreTails, remembered

_MOST_LOG_ODDS = 7.0  # priors from 0.001 to 0.999
_MOST_LOG_SLOPE = 3.0
# of log-odds of the prior, intercept and log slope
_BOUNDS = [
    (-_MOST_LOG_ODDS, _MOST_LOG_ODDS),
    (-20.0, 20.0),
    (-_MOST_LOG_SLOPE, _MOST_LOG_SLOPE),
]
_Z = np.linspace(-8.0, 5.0, 521)  # normal scores of the positives
_MASS = np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


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
        share = np.minimum(
            height * scipy.special.expit(self.intercept + self.slope * normal_scores), 1 - 1e-12
        )
        return np.asarray(share / (1 - share) * (1 - self.labelled) / self.labelled)


def normal_scores(tails: ScoreTails) -> FloatArray:
    """Normal quantile of each cell among the positives."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum() * tails.n_positive
    return np.asarray(scipy.special.ndtri((below + 0.5) / (tails.n_positive + 1)))


@remembered
def fit_plateau(tails: ScoreTails, prior: float | None = None) -> Plateau:
    """Plateau that maximises the likelihood of positive against unlabeled rows.

    Without the prior of the unlabeled rows it is estimated, with a Beta(2, 2) prior distribution,
    equivalent to two rows, which keeps it away from 0 and 1 if the data do not determine it.
    """
    loss = _PlateauLoss.of(tails)
    # The likelihood can have several maxima: start from a low, a medium and a high prior. At a
    # known prior one of them is a flat curve far away, which the fit with a free prior avoids.
    if prior is None:
        log_odds = _BOUNDS[0]
        starts = [[-2.0, -0.5, 0.7], [0.0, -0.5, 0.7], [2.0, -0.5, 0.7]]
    else:
        known = float(np.clip(scipy.special.logit(prior), -_MOST_LOG_ODDS, _MOST_LOG_ODDS))
        log_odds = (known, known)
        free = fit_plateau(tails)
        starts = [[known, free.intercept, math.log(free.slope)], [known, 1.0, 0.7]]

    bounds = [log_odds, *_BOUNDS[1:]]
    best = scipy.optimize.minimize(loss, starts[0], jac=True, bounds=bounds, method="L-BFGS-B")
    for start in starts[1:]:
        fit = scipy.optimize.minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
        if fit.fun < best.fun:
            best = fit
    log_odds_of_prior, intercept, log_slope = best.x
    return Plateau(
        prior=float(scipy.special.expit(log_odds_of_prior)),
        intercept=float(intercept),
        slope=float(np.exp(log_slope)),
        labelled=loss.labelled,
    )


@dataclass(frozen=True, slots=True)
class _PlateauLoss:
    """Negative log-likelihood of log-odds of the prior, intercept and log slope; its gradient."""

    positive: FloatArray  # effective numbers of positives in the cells
    unlabeled: FloatArray
    z: FloatArray  # normal scores of the cells
    labelled: float  # share of the positive sample in both

    @classmethod
    def of(cls, tails: ScoreTails) -> _PlateauLoss:
        return cls(
            positive=tails.positive_counts / tails.positive_counts.sum() * tails.n_positive,
            unlabeled=tails.counts / tails.counts.sum() * tails.n,
            z=normal_scores(tails),
            labelled=tails.n_positive / (tails.n_positive + tails.n),
        )

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        c = self.labelled
        rho = float(scipy.special.expit(theta[0]))
        slope = np.exp(theta[2])
        height = c / (c + (1 - c) * rho)
        climb = scipy.special.expit(theta[1] + slope * self.z)
        share = np.clip(height * climb, 1e-12, 1 - 1e-12)
        log_likelihood = self.positive @ np.log(share) + self.unlabeled @ np.log1p(-share)
        log_beta = np.log(rho * (1 - rho))

        by_share = self.unlabeled / (1 - share) - self.positive / share
        by_climb = by_share * height * climb * (1 - climb)
        gradient = [
            -(by_share @ climb) * height**2 * (1 - c) / c * rho * (1 - rho) - (1 - 2 * rho),
            by_climb.sum(),
            slope * (by_climb @ self.z),
        ]
        return float(-log_likelihood - log_beta), np.array(gradient)


@remembered
def smooth_curve(tails: ScoreTails, prior: float) -> tuple[FloatArray, FloatArray]:
    r"""Recalls, and the false-positive rate over each, of the plateau at this prior.

    A positive with normal score z has the posterior :math:`\eta(z) = \pi r(z)`. For each positive
    there are :math:`(1 - \eta)/\eta` negatives at the same z.
    """
    inner_prior = min(max(prior, 1e-3), 1 - 1e-3)
    plateau = fit_plateau(tails, inner_prior)
    eta = np.clip(inner_prior * plateau(_Z), 1e-12, 1 - 1e-12)
    negatives = _MASS * (1 - eta) / eta * inner_prior / (1 - inner_prior)
    recall = np.cumsum(_MASS[::-1])
    false_positive_rate = np.minimum(np.cumsum(negatives[::-1]), 1.0)
    return recall, np.minimum(false_positive_rate / np.maximum(recall, 1e-300), 1.0)
