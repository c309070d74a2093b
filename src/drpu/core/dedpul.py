"""Mixture proportion from the densities of scores (DEDPUL, Ivanov 2020), on counts."""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails

__all__ = ["dedpul"]

LAG = 0.1  # relative distance over which the bend of the curve is looked for
SMALLEST = 1e-4  # priors below are not told apart when looking for the bend
POINTS = 400  # priors tried, equally spaced in their logarithm


def dedpul(tails: ScoreTails) -> float:
    r"""Prior at which posteriors of unlabeled rows average to it: DEDPUL.

    Parameters
    ----------
    tails : ScoreTails
        The counts.

    Returns
    -------
    prior : float
        In [0, 1].

    Notes
    -----
    With :math:`r` the ratio of the density of positive scores to that of unlabeled
    ones, an unlabeled row is positive with probability :math:`\min(\pi r, 1)`. The
    mean of these posteriors falls short of :math:`\pi` by

    .. math:: D(\pi) = \pi - E_U[\min(\pi r, 1)] \ge 0,

    which is 0 up to the largest consistent prior and bends upwards there. Two
    readings of that point are published, and this is their mean. Expectation
    maximisation from :math:`\pi = 1` stops at the last zero of :math:`D`; noise in
    the largest ratios pulls it down. The place of the largest second difference of
    :math:`D` is steadier, and lies high where the classes overlap.

    Where the publication smooths kernel density estimates, the densities here are
    histograms over about :math:`n_P^{1/3}` bins that hold equally many positives, so
    they follow the ranks of scores and not their scale, and the ratio is made to
    grow with the score by pooling adjacent bins. That keeps :math:`E_U[r] = 1`,
    hence :math:`D(\pi) = E_P[(\pi - 1/r)_+]`: the last zero is the least :math:`1/r`,
    and no iteration is needed. The second difference has a lag in proportion to
    :math:`\pi`, which serves priors of 0.01 and 0.9 alike.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> unlabeled = np.concatenate([rng.normal(3, 1, 900), rng.normal(0, 1, 2100)])
    >>> prior = dedpul(ScoreTails(rng.normal(3, 1, 1000)).update(unlabeled))
    >>> abs(prior - 0.3) < 0.05
    True
    """
    mass, inverse = _inverse_ratio(tails)
    fixed_point = min(1.0, float(inverse.min()))
    return min(1.0, (fixed_point + _bend(mass, inverse)) / 2)


def _inverse_ratio(tails: ScoreTails) -> tuple[FloatArray, FloatArray]:
    """Share of the positives in each bin, and U mass over P mass, decreasing in the score."""
    # Below the first level there are no positives: 1/r is infinite and carries no mass.
    positive = tails.positive_counts[1:] / tails.positive_counts.sum()
    unlabeled = tails.counts[1:] / tails.counts.sum()
    bins = int(np.ceil(np.cbrt(tails.n_positive)))
    rank = np.cumsum(positive) - positive / 2
    cells = np.minimum((rank * bins).astype(np.int64), bins - 1)
    _, cells = np.unique(cells, return_inverse=True)  # ties can leave bins empty
    P = np.bincount(cells, weights=positive).astype(np.float64)
    U = np.bincount(cells, weights=unlabeled).astype(np.float64)
    fit = isotonic_regression(U / P, weights=P, increasing=False).x
    return P, np.asarray(fit, dtype=np.float64)


def _bend(mass: FloatArray, inverse: FloatArray) -> float:
    """Where D has its largest second difference; the middle of all such places."""
    inverse = np.maximum(inverse, SMALLEST)

    def shortfall(prior: FloatArray) -> FloatArray:
        return np.maximum(prior[:, None] - inverse, 0) @ mass

    least = min(float(inverse.min()), 1.0)
    prior = np.geomspace(least, 1.0, POINTS)
    bend = (shortfall(prior * (1 + LAG)) - 2 * shortfall(prior) + shortfall(prior * (1 - LAG))) / prior
    if bend.max() < 1e-9:  # it bends beyond 1: unlabeled rows outscore the positives
        return 1.0
    return float(prior[bend >= bend.max() * (1 - 1e-9)].mean())
