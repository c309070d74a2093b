"""Estimators of the prior of a second sample, with the first one as reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from drpu._typing import FloatArray
from drpu.core.calibration import fit_plateau, monotone_cells, normal_scores
from drpu.core.decision import ratio_posterior
from drpu.core.tails import ScoreTails

__all__ = ["SHIFTS", "efficient", "em", "em_on_ratios", "match_negatives", "matching"]

_ROUNDS = 5  # converges in three


def match_negatives(tails: ScoreTails, reference: ScoreTails) -> float:
    r"""Growth of the negatives, :math:`\lambda = (1-\pi')/(1-\pi)`.

    Notes
    -----
    At every threshold :math:`a' - b = \lambda (a - b)`, for all priors. The whole
    curve is fitted by least squares, weighted by the positives. The noise of the
    regressor, which would bias :math:`\lambda` towards 0, is corrected for unless it
    dominates.
    """
    b, a, a_new = reference.positive_survival, reference.survival, tails.survival
    weight = reference.positive_counts[1:] / reference.positive_counts.sum()
    was, now = a - b, a_new - b
    noise_b, noise_a = b * (1 - b) / reference.n_positive, a * (1 - a) / reference.n

    size = weight @ (was * was)
    if size == 0:  # the score does not separate the classes: no change can be detected
        return 1.0
    top, bottom = weight @ (was * now - noise_b), size - weight @ (noise_a + noise_b)
    if bottom <= 0.2 * size:
        top, bottom = weight @ (was * now), size
    return float(max(0.0, top / bottom))


def matching(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    """Prior of ``tails`` from the growth of the negatives since ``reference``."""
    return float(np.clip(1 - match_negatives(tails, reference) * (1 - train_prior), 0, 1))


def efficient(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    r"""Prior of ``tails`` by matching the mean of the function with the smallest variance.

    Notes
    -----
    For any function h of the score, :math:`E'h - E_+h = \lambda (E h - E_+h)`, so each
    gives the growth of the negatives :math:`\lambda`. The variance is smallest for
    :math:`h = (\rho_+ - \rho_-) / (q \rho_+ + (1-q) \rho_-)`, the score function of the
    mixture at the prior q, with the class densities :math:`\rho_\pm` over that of the
    reference. They are estimated by the smooth calibration, and q by the previous round.
    Errors in them reduce the efficiency but cause no bias.
    """
    if train_prior in (0.0, 1.0):
        return matching(tails, reference, train_prior)
    ratio = fit_plateau(reference)(normal_scores(reference))
    eta = np.clip(train_prior * ratio, 0.01, 0.99)  # limit the influence of a single cell
    positive, negative = eta / train_prior, (1 - eta) / (1 - train_prior)
    p = reference.positive_counts / reference.positive_counts.sum()
    before, now = reference.counts / reference.counts.sum(), tails.counts / tails.counts.sum()

    q, h = train_prior, eta
    for _ in range(_ROUNDS):
        gap = before @ h - p @ h
        if gap == 0:  # the score does not separate the classes: no change can be detected
            return train_prior
        growth = max(0.0, float((now @ h - p @ h) / gap))
        q = float(np.clip(1 - growth * (1 - train_prior), 0, 1))
        at = np.clip(q, 0.02, 0.98)
        h = (positive - negative) / (at * positive + (1 - at) * negative)
    return q


def em(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    """Maximum-likelihood prior of ``tails``, given the ratio in each cell.

    The ratios are those of the monotone calibration on ``reference``. This is the limit of
    expectation maximisation (Saerens et al. 2002).
    """
    return _likeliest_prior(monotone_cells(reference), tails.counts / tails.counts.sum(), train_prior)


def em_on_ratios(log_ratios: FloatArray, train_prior: float) -> float:
    """Maximum-likelihood prior of scores that are calibrated log-ratios."""
    ratios = np.exp(np.clip(log_ratios, -700, 700))
    return _likeliest_prior(ratios, np.full(len(ratios), 1 / len(ratios)), train_prior)


def _likeliest_prior(ratio: FloatArray, mass: FloatArray, train_prior: float) -> float:
    """Root of the score equation, which is decreasing in the prior: the limit of EM."""
    if train_prior in (0.0, 1.0):  # there is only one component
        return train_prior
    eta = np.clip(ratio_posterior(ratio, train_prior, train_prior), 1e-9, 1 - 1e-9)
    positive, negative = eta / train_prior, (1 - eta) / (1 - train_prior)
    if mass @ np.abs(positive - negative) < 1e-9:  # all ratios are 1: no change can be detected
        return train_prior

    def slope(q: float) -> float:
        return float(mass @ ((positive - negative) / (q * positive + (1 - q) * negative)))

    if slope(0.0) <= 0:
        return 0.0
    if slope(1.0) >= 0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0, xtol=1e-10))


SHIFTS: dict[str, Callable[[ScoreTails, ScoreTails, float], float]] = {
    "efficient": efficient,
    "matching": matching,
    "em": em,
}
