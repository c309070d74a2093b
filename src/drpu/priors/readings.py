"""Named readings of the prior of one sample: the paper's rule and other published ones.

Each is a function of the counts, and an upper reading: it assumes that the best-scored rows are all
positive. None of them takes part in the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu._checks import check_choice, check_real
from drpu.exceptions import FewPositivesWarning
from drpu.priors.plateau import fit_plateau
from drpu.priors.tails import ScoreTails

_LAG = 0.1  # relative distance of the second differences
_SMALLEST_PRIOR = 1e-4  # smallest prior on the grid
_PRIORS = 400  # number of priors on the grid, equally spaced on the log scale


def dedpul(tails: ScoreTails) -> float:
    r"""Prior that equals the mean posterior of the unlabeled rows: DEDPUL.

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
    """
    mass, inverse = _inverse_ratio(tails)
    fixed_point = min(1.0, float(inverse.min()))
    return min(1.0, (fixed_point + _bend(mass, inverse)) / 2)


def _inverse_ratio(tails: ScoreTails) -> tuple[FloatArray, FloatArray]:
    """Mass of the positives in each bin, and 1/r: unlabeled over positive mass, decreasing."""
    # Below the first level there are no positives: 1/r is infinite and has no mass.
    positive = tails.positive_counts[1:] / tails.positive_counts.sum()
    unlabeled = tails.counts[1:] / tails.counts.sum()
    bins = int(np.ceil(np.cbrt(tails.n_positive)))
    rank = np.cumsum(positive) - positive / 2
    cells = np.minimum((rank * bins).astype(np.int64), bins - 1)
    _, cells = np.unique(cells, return_inverse=True)  # ties can leave bins empty
    positive_mass = np.bincount(cells, weights=positive).astype(np.float64)
    unlabeled_mass = np.bincount(cells, weights=unlabeled).astype(np.float64)
    inverse_ratio = unlabeled_mass / positive_mass
    fit = scipy.optimize.isotonic_regression(
        inverse_ratio, weights=positive_mass, increasing=False
    ).x
    return positive_mass, np.asarray(fit, dtype=np.float64)


def _bend(mass: FloatArray, inverse: FloatArray) -> float:
    """The prior at which D has its largest second difference; the mean if there are several."""
    inverse = np.maximum(inverse, _SMALLEST_PRIOR)

    def shortfall(prior: FloatArray) -> FloatArray:
        return np.maximum(prior[:, None] - inverse, 0) @ mass

    least = min(float(inverse.min()), 1.0)
    prior = np.geomspace(least, 1.0, _PRIORS)
    above = shortfall(prior * (1 + _LAG))
    below = shortfall(prior * (1 - _LAG))
    bend = (above - 2 * shortfall(prior) + below) / prior
    if bend.max() < 1e-9:  # beyond 1: unlabeled rows have higher scores than the positives
        return 1.0
    return float(prior[bend >= bend.max() * (1 - 1e-9)].mean())


def infimum(tails: ScoreTails, *, gamma: float = 1.0, sizes: str = "positive") -> float:
    r"""Smallest tail ratio over thresholds with enough positives above them: the rule of the paper.

    :math:`\min_k a_k / b_k` over :math:`b_k > \bar\gamma`, with
    :math:`\bar\gamma = \max \varepsilon(n) / \gamma` and
    :math:`\varepsilon(n) = \sqrt{4 \ln(en/2)/n} + \sqrt{\ln(2n)/(2n)}`. It exceeds 1
    for fewer than 28 positives. Then there is no threshold, and :func:`best_bin` is used. The code
    of the authors has ``gamma`` 1 and the size of the positive sample; the theorem uses
    ``sizes="both"``.
    """
    check_real("gamma", gamma, low=1e-6, high=1.0)
    check_choice("sizes", sizes, ("positive", "both"))
    least = _epsilon(tails.n_positive)
    if sizes == "both":
        least = max(least, _epsilon(tails.n))
    lowest = _lowest_ratio(tails, least / gamma)
    if lowest is None:
        FewPositivesWarning.issue(
            f"{tails.n_positive:g} held-out positives are too few for prior='paper', which needs a "
            f"recall above {least / gamma:.2f}: best-bin is used instead."
        )
        return best_bin(tails)
    return lowest


def _lowest_ratio(tails: ScoreTails, recall: float) -> float | None:
    """Smallest tail ratio over thresholds above this recall, if there are any."""
    a = tails.survival
    b = tails.positive_survival
    enough = b > recall
    if not enough.any():
        return None
    return float(min(1.0, (a[enough] / b[enough]).min()))


def _epsilon(n: float) -> float:
    """Uniform deviation of a tail of n scores."""
    return float(np.sqrt(4 * np.log(math.e * n / 2) / n) + np.sqrt(np.log(2 * n) / (2 * n)))


def best_bin(tails: ScoreTails, *, slack: float = 0.01, confidence: float = 0.9) -> float:
    """Tail ratio at the threshold with the smallest upper bound, for any sample size.

    The threshold minimises ``a/b + (1 + slack)/b * (e(n) + e(n_positive))`` with
    ``e(n) = sqrt(log(4 / (1 - confidence)) / (2 n))`` (Garg et al. 2021).
    """
    a = tails.survival
    b = tails.positive_survival
    scale = np.log(4 / (1 - confidence)) / 2
    noise = np.sqrt(scale / tails.n) + np.sqrt(scale / tails.n_positive)
    best = np.argmin((a + (1 + slack) * noise) / b)
    return float(min(1.0, a[best] / b[best]))


def plateau(tails: ScoreTails) -> float:
    """Prior from the height of the plateau of the smooth fit."""
    return fit_plateau(tails).prior


PROPORTIONS: dict[str, Callable[[ScoreTails], float]] = {
    "paper": infimum,
    "best-bin": best_bin,
    "plateau": plateau,
    "dedpul": dedpul,
}
