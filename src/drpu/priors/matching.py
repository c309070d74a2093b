"""Growth of the negatives between two samples, with its noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from drpu._typing import FloatArray, IntArray
from drpu.decisions.thresholds import ratio_posterior
from drpu.priors.calibration import fit_plateau, monotone_cells, normal_scores
from drpu.priors.figures import exact_limits
from drpu.priors.tails import ScoreTails


@dataclass(frozen=True, slots=True)
class Match:
    """lambda = (1 - pi')/(1 - pi), its standard deviation and its influence in each cell."""

    value: float
    spread: float
    influence: FloatArray


def match_samples(tails: ScoreTails, reference: ScoreTails) -> Match | None:
    """Growth of the negatives with its noise; None if a = b everywhere.

    lambda is a sum over thresholds, and so a mean of one function of the cell over each sample. The whole
    multinomial covariance needs one cumulative sum.
    """
    b, a = reference.positive_survival, reference.survival
    positive = shares(reference.positive_counts)
    weight, slope = positive[1:], a - b
    noise = float(weight @ (b * (1 - b) / reference.n_positive + a * (1 - a) / reference.n))
    size = float(weight @ slope**2)
    if size <= 0:
        return None
    size = size - noise if size - noise > 0.2 * size else size

    value = match_negatives(tails, reference)
    influence = np.append(0.0, np.cumsum(weight * slope / size))
    variance = (1 - value) ** 2 * _variance(positive, influence) / reference.n_positive
    for sample, scale in ((reference, value), (tails, 1.0)):
        # with one additional row, half of each class, because few rows prove no purity
        extra = shares(sample.positive_counts) / 2
        extra[0] += 0.5
        cautious = (sample.n * shares(sample.counts) + extra) / (sample.n + 1)
        variance += scale**2 * _variance(cautious, influence) / sample.n
    return Match(value, math.sqrt(variance), influence)


def score_limits(
    tails: ScoreTails, reference: ScoreTails, match: Match, level: float, train_prior: float
) -> tuple[float, float]:
    r"""Priors x that are not rejected by :math:`(x - \hat x)^2 \le z^2 (V(x)/n' + T)`.

    V is the variance of the influence under the mixture at x, as in Wilson's interval, and T the
    noise of the two training samples.
    """
    z2, scale2 = float(ndtri((1 - level) / 2)) ** 2, (1 - train_prior) ** 2
    positive, unlabeled = shares(reference.positive_counts), shares(reference.counts)
    negative = np.maximum(unlabeled - train_prior * positive, 0)
    total = float(negative.sum())
    negative = negative / total if total > 0 else unlabeled
    of_positive, of_negative = _variance(positive, match.influence), _variance(negative, match.influence)
    between = float((positive - negative) @ match.influence) ** 2

    value, k = 1 - match.value * (1 - train_prior), z2 * scale2 / tails.n
    noise = match.value**2 * _variance(unlabeled, match.influence) / reference.n
    noise += (1 - match.value) ** 2 * of_positive / reference.n_positive
    # (1 + k D) x^2 - (2 v + k (V+ - V- + D)) x + v^2 - k V- - z^2 T = 0
    square, half = 1 + k * between, value + k * (of_positive - of_negative + between) / 2
    rest = value**2 - k * of_negative - z2 * scale2 * noise
    root = math.sqrt(max(0.0, half**2 - square * rest))
    return min(value, (half - root) / square), max(value, (half + root) / square)


def binomial_growth(
    tails: ScoreTails, reference: ScoreTails, level: float
) -> tuple[float, float, float] | None:
    """Growth of the negatives at one threshold: the value, and its upper and lower limit.

    The rows above the threshold have exact binomial limits; the noise of the training
    samples is added to them. None if no threshold separates the samples.
    """
    b, a = reference.positive_survival, reference.survival
    k = int(np.argmax(b - a))
    gap = float(b[k] - a[k])
    if gap <= 0:
        return None
    n, q, tail = tails.n, float(tails.survival[k]), (1 - level) / 2
    least, most = exact_limits(q, n, tail)
    growth = float((b[k] - q) / gap)
    noise = (1 - growth) ** 2 * b[k] * (1 - b[k]) / reference.n_positive
    noise += growth**2 * a[k] * (1 - a[k]) / reference.n
    drift = -float(ndtri(tail)) * math.sqrt(noise) / gap
    return growth, growth + math.hypot((q - least) / gap, drift), growth - math.hypot((most - q) / gap, drift)


def shares(counts: IntArray | FloatArray) -> FloatArray:
    """Counts divided by their sum."""
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def tail_covariance(share: FloatArray, values: FloatArray, at: IntArray) -> FloatArray:
    """Covariance of ``values`` and the indicators of lying at or above each level of ``at``."""
    centred = share * (values - share @ values)
    tail: FloatArray = centred[::-1].cumsum()[::-1]
    return tail[at + 1]


_ROUNDS = 5  # converges in three


def match_negatives(tails: ScoreTails, reference: ScoreTails) -> float:
    r"""Growth of the negatives, :math:`\lambda = (1-\pi')/(1-\pi)`.

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

    For any function h of the score, :math:`E'h - E_+h = \lambda (E h - E_+h)`, so each
    gives the growth of the negatives :math:`\lambda`. The variance is smallest for
    :math:`h = (\rho_+ - \rho_-) / (q \rho_+ + (1-q) \rho_-)`, the score function of the
    mixture at the prior q, with the class densities :math:`\rho_\pm` over that of the
    reference. They are estimated by the smooth calibration, and q by the previous round.
    Errors in them reduce the efficiency but cause no bias.
    """
    if not 1e-300 < train_prior < 1:
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
