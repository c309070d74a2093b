"""Mixture proportion from the densities of scores (DEDPUL, Ivanov 2020), on counts."""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails

__all__ = ["dedpul"]

LAG = 0.1  # relative distance of the second differences
SMALLEST = 1e-4  # smallest prior on the grid
POINTS = 400  # number of priors on the grid, equally spaced on the log scale


def dedpul(tails: ScoreTails) -> float:
    r"""Prior that equals the mean posterior of the unlabeled rows: DEDPUL.

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
    mean of these posteriors is smaller than :math:`\pi` by

    .. math:: D(\pi) = \pi - E_U[\min(\pi r, 1)] \ge 0,

    which is 0 up to the largest consistent prior and increases from there. Two estimates
    of that point are published, and this is their mean. Expectation maximisation from
    :math:`\pi = 1` stops at the last zero of :math:`D`; noise in the largest ratios biases
    it downwards. The place of the largest second difference of :math:`D` has a smaller
    variance, and is biased upwards where the classes overlap.

    The publication smooths kernel density estimates. Here the densities are histograms
    over about :math:`n_P^{1/3}` bins with equally many positives, so they depend on the
    ranks of scores and not on their scale, and adjacent bins are pooled such that the
    ratio increases with the score. That keeps :math:`E_U[r] = 1`,
    hence :math:`D(\pi) = E_P[(\pi - 1/r)_+]`: the last zero is the smallest
    :math:`1/r`, and no iteration is needed. The second difference has a lag proportional
    to :math:`\pi`, which is suited to small and large priors.

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
    """Mass of the positives in each bin, and U mass divided by P mass, decreasing in the score."""
    # Below the first level there are no positives: 1/r is infinite and has no mass.
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
    """The prior at which D has its largest second difference; the middle one if there are several."""
    inverse = np.maximum(inverse, SMALLEST)

    def shortfall(prior: FloatArray) -> FloatArray:
        return np.maximum(prior[:, None] - inverse, 0) @ mass

    least = min(float(inverse.min()), 1.0)
    prior = np.geomspace(least, 1.0, POINTS)
    bend = (shortfall(prior * (1 + LAG)) - 2 * shortfall(prior) + shortfall(prior * (1 - LAG))) / prior
    if bend.max() < 1e-9:  # the point is beyond 1: unlabeled rows have higher scores than the positives
        return 1.0
    return float(prior[bend >= bend.max() * (1 - 1e-9)].mean())
