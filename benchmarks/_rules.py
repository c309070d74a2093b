"""Rules for priors that are compared with those of the library."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv

from drpu._arrays import FloatArray
from drpu._checks import check_fraction
from drpu.priors.calibration import monotone_cells, ratio_posterior
from drpu.priors.tails import ScoreTails


def scott(tails: ScoreTails, level: float = 0.95) -> float:
    r"""Smallest ratio of an upper limit of the tail of U and a lower limit of the tail of P.

    At any threshold :math:`a \ge \pi b`, with equality if there are only positives
    above it. The estimate is

    .. math:: \min_k \bar a_k / \underline b_k,

    with one-sided Clopper-Pearson limits, each at :math:`(1 - \text{level})/2`. They
    are exact for a fixed threshold, and much tighter than the uniform deviation bounds of
    the theory. There is no correction for several thresholds, because this is an
    estimator and not an interval. Thresholds with few positives above them have a small
    :math:`\underline b` and do not attain the minimum. With weights, effective sizes
    replace the counts. The estimate is biased upwards; the bias decreases with the sample sizes.
    """
    tail = (1 - check_fraction("level", level)) / 2
    a, b = tails.survival, tails.positive_survival
    n, n_positive = tails.n, tails.n_positive

    # Each bound exceeds a/b, so one good bound excludes most thresholds.
    ratio = a / b
    promising = int(np.argmin((a + 2 * np.sqrt(a / n) + 4 / n) * (1 / b + 2 / np.sqrt(n_positive * b**3))))
    first = _bound(a[[promising]], n, b[[promising]], n_positive, tail)
    left = ratio < first
    others = _bound(a[left], n, b[left], n_positive, tail) if left.any() else first
    return min(1.0, first, others)


def _bound(a: FloatArray, n: float, b: FloatArray, n_positive: float, tail: float) -> float:
    """Minimum of upper(a) / lower(b), with one-sided Clopper-Pearson limits."""
    hits, kept = a * n, b * n_positive
    missed = np.maximum(n - hits, 0.0)
    upper = np.ones_like(hits)
    some = missed > 1e-9 * n  # if all rows are above the threshold the limit is 1
    upper[some] = betaincinv(hits[some] + 1, missed[some], 1 - tail)
    lower = betaincinv(kept, np.maximum(n_positive - kept, 0.0) + 1, tail)
    with np.errstate(divide="ignore"):  # the lower limit underflows
        return float((upper / lower).min())


def em(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    """Maximum-likelihood prior of ``tails``, given the ratio in each cell.

    The ratios are those of the monotone calibration on ``reference``. This is the limit of
    expectation maximisation (Saerens et al. 2002).
    """
    return _likeliest_prior(monotone_cells(reference), tails.counts / tails.counts.sum(), train_prior)


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
