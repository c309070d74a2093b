"""A curve over thresholds, its lowest point, and limits of that point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import betaincinv, expit, ndtr, ndtri

from drpu._checks import check_choice, check_fraction, check_real
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import FewPositivesWarning
from drpu.priors.calibration import fit_plateau
from drpu.priors.separation import evidence_of, plateau_profile, slide
from drpu.priors.tails import ScoreTails

STEP = math.log(2) / 4  # thresholds keep n 2^(-1/4), n 2^(-1/2), ... positives
FEWEST = 5  # with fewer positives there are no limits
_DESIGN = 0.025  # the deciding threshold is chosen at 95 % for every level, so that limits are nested

_ROOT = 1 / math.sqrt(2 * math.pi)
_OVERSHOOT = -0.583 * math.sqrt(STEP)  # a discrete curve exceeds a level less often than a continuous one

# Limits of the curve at some thresholds, at a number of standard deviations.
Bound: TypeAlias = Callable[[float, IntArray], FloatArray]


def ranks(n_positive: float, step: float = STEP) -> FloatArray:
    """Numbers of positives above the thresholds: geometric, from nearly all down to a few."""
    if n_positive < FEWEST:
        return np.empty(0)
    fewest = max(4.0, min(10.0, n_positive // 12))
    j = np.arange(1, 1 + int(math.log(n_positive / fewest) / step + 1e-9))
    rank = np.unique(np.maximum(np.round(n_positive * np.exp(-step * j)), fewest))
    return rank[rank < n_positive]


def last_levels(tails: ScoreTails, rank: FloatArray) -> IntArray:
    """Index of the last level with at least ``rank`` positives at or above it."""
    kept = tails.positive_survival * tails.n_positive
    return np.searchsorted(-kept, -rank + 1e-9, side="right").astype(np.int64) - 1


def grid(tails: ScoreTails) -> IntArray:
    """Indices of the levels that are used; none if all positives are tied."""
    at = np.unique(last_levels(tails, ranks(tails.n_positive)))
    return at[tails.positive_survival[at] < 1 - 1e-12]


@dataclass(frozen=True)
class TailRatio:
    """a/b at a few thresholds: ``hits`` of ``n`` unlabeled rows over ``kept`` of ``n_positive``.

    Sizes may be effective ones, so the counts need not be whole. a has Jeffreys'
    posterior; b, at the m-th largest of n scores, is Beta(m, n - m + 1).
    """

    kept: FloatArray
    n_positive: float
    hits: FloatArray
    n: float

    @classmethod
    def of(cls, tails: ScoreTails, at: IntArray) -> TailRatio:
        """The ratio at the levels ``at``."""
        kept = tails.positive_survival[at] * tails.n_positive
        return cls(kept, tails.n_positive, tails.survival[at] * tails.n, tails.n)

    @property
    def value(self) -> FloatArray:
        """Estimates of a/b."""
        return ((self.hits + 0.5) / (self.n + 1)) / (self.kept / (self.n_positive + 1))

    @property
    def log_variance(self) -> FloatArray:
        """Variances of log a/b. As a function of its variance, the curve is a Brownian motion."""
        a, b = (self.hits + 0.5) / (self.n + 1), self.kept / (self.n_positive + 1)
        return (1 - b) / (self.n_positive * b) + (1 - a) / (self.n * a)

    def upper(self, c: float, at: IntArray) -> FloatArray:
        """Upper limits: the limits of the two tails, combined on the log scale."""
        a, b = self._median
        up, down = self._log_a(ndtr(c), at) - a[at], b[at] - self._log_b(ndtr(-c), at)
        return np.exp(a[at] - b[at] + np.hypot(up, down))

    def lower(self, c: float, at: IntArray) -> FloatArray:
        """Lower limits, which are 0 where no unlabeled row is above the threshold."""
        a, b = self._median
        down, up = a[at] - self._log_a(ndtr(-c), at), self._log_b(ndtr(c), at) - b[at]
        return np.where(self.hits[at] > 0, np.exp(a[at] - b[at] - np.hypot(down, up)), 0.0)

    @cached_property
    def _median(self) -> tuple[FloatArray, FloatArray]:
        everywhere = np.arange(len(self.kept))
        return self._log_a(0.5, everywhere), self._log_b(0.5, everywhere)

    def _log_a(self, p: float, at: IntArray) -> FloatArray:
        hits = self.hits[at]
        return np.log(betaincinv(hits + 0.5, np.maximum(self.n - hits, 0.0) + 0.5, p))

    def _log_b(self, p: float, at: IntArray) -> FloatArray:
        return np.log(betaincinv(self.kept[at], self.n_positive - self.kept[at] + 1, p))


@dataclass(frozen=True)
class Curve:
    """A quantity at each of a few thresholds, whose minimum is to be estimated.

    ``point`` and ``variance`` are on the scale where the curve, taken along its own
    variance, is a Brownian motion; ``lower`` and ``upper`` limit the quantity itself.
    """

    recall: FloatArray
    n_positive: float
    point: FloatArray
    variance: FloatArray
    lower: Bound
    upper: Bound
    n: float

    def high(self, level: float) -> float:
        """Upper limit of the lowest point."""
        at = np.array([self.deciding])
        return _clip(self.upper(critical_value((1 - level) / 2, self._log_range), at)[0])

    def low(self, level: float, reach: float) -> float:
        """Smallest pointwise lower limit from the deciding threshold to ``1/reach`` of its recall.

        The threshold of the minimum is fixed, so no correction for several thresholds is
        needed: the smallest limit is at most the limit at that threshold.
        """
        recall = self.recall[self.deciding]
        least = recall / reach - 1 / self.n_positive
        at = np.flatnonzero((self.recall <= recall) & (self.recall >= least))
        return _clip(self.lower(-float(ndtri((1 - level) / 2)), at).min())

    @cached_property
    def deciding(self) -> int:
        """The threshold with the smallest upper limit."""
        c = critical_value(_DESIGN, self._log_range)
        return int(np.argmin(self.upper(c, np.arange(len(self.point)))))

    @property
    def middle(self) -> float:
        """A rough value of the minimum: the midpoint of a narrow interval."""
        level = 1 - 2 * _DESIGN
        return (self.low(level, 2) + self.high(level)) / 2

    @cached_property
    def _log_range(self) -> float:
        """Range of the log variance over the thresholds that may attain the minimum."""
        spread = np.sqrt(self.variance)
        c = critical_value(0.1 / math.log(max(self.n, 20.0)), _log_range(self.variance))
        near = self.point <= (self.point + c * spread).min() + 2 * c * spread
        return _log_range(self.variance[near])


def critical_value(tail: float, log_range: float) -> float:
    r"""The c that a standardised Brownian curve exceeds with probability ``tail``.

    In the logarithm of its variance, standardised Brownian motion is a stationary
    Ornstein-Uhlenbeck process. With :math:`L` the range of that logarithm and
    :math:`h` the step of the grid,

    .. math:: 1 - \Phi(c) + \frac{L+h}{2} \left(c - \frac{1}{2c}\right) \varphi(c) e^{-.583 c \sqrt h}
       = \text{tail}.
    """
    pointwise = -float(ndtri(tail))
    if log_range <= 0:
        return pointwise
    low, high = max(pointwise, 1.0), 9.0
    if _exceeds(low, log_range) <= tail:
        return low
    for _ in range(26):  # to 1e-7
        c = (low + high) / 2
        low, high = (c, high) if _exceeds(c, log_range) > tail else (low, c)
    return high


def _exceeds(c: float, log_range: float) -> float:
    density = _ROOT * math.exp(-c * c / 2)
    crossings = (log_range + STEP) / 2 * (c - 0.5 / c) * density * math.exp(_OVERSHOOT * c)
    return math.erfc(c * math.sqrt(0.5)) / 2 + crossings


def _log_range(variance: FloatArray) -> float:
    return math.log(float(variance.max()) / float(variance.min()))


def _clip(share: float) -> float:
    return min(1.0, max(0.0, float(share)))


LAG = 0.1  # relative distance of the second differences
SMALLEST = 1e-4  # smallest prior on the grid
POINTS = 400  # number of priors on the grid, equally spaced on the log scale


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


_MOSTLY_POSITIVE = (0.65, 0.85)  # the weight of the plateau decreases from 1 to 0 between these priors
STEEP = (2.0, 4.0)  # between these slopes of the plateau, half of its weight moves to the tails ...
APART = (0.85, 0.95)  # ... and between these Youden indices it moves back (``python -m benchmarks.central``)
_ENOUGH_POSITIVES = (10.0, 40.0)  # the weight of usual priors decreases to 0 between these numbers
_USUAL_PRIORS = (1.5, 3.0)  # parameters of a Beta distribution: mean 1/3
_PLATEAU_ROWS = 100.0  # number of positives at which the plateau gets half of the weight


def infimum(tails: ScoreTails, *, gamma: float = 1.0, sizes: str = "positive") -> float:
    r"""Smallest tail ratio over thresholds with enough positives above them: the rule of the paper.

    :math:`\min_k a_k / b_k` over :math:`b_k > \bar\gamma`, with
    :math:`\bar\gamma = \max \varepsilon(n) / \gamma` and
    :math:`\varepsilon(n) = \sqrt{4 \ln(en/2)/n} + \sqrt{\ln(2n)/(2n)}`. It exceeds 1
    for fewer than 28 positives. Then there is no threshold, and :func:`best_bin` is used. The code of the
    authors has ``gamma`` 1 and the size of the positive sample; the theorem uses ``sizes="both"``.
    """
    check_real("gamma", gamma, low=1e-6, high=1.0)
    check_choice("sizes", sizes, ("positive", "both"))
    least = _epsilon(tails.n_positive)
    if sizes == "both":
        least = max(least, _epsilon(tails.n))
    found = _lowest_ratio(tails, least / gamma)
    if found is None:
        FewPositivesWarning.issue(
            f"{tails.n_positive:g} held-out positives are too few for prior='paper', which needs a "
            f"recall above {least / gamma:.2f}: best-bin is used instead."
        )
        return best_bin(tails)
    return found


def _lowest_ratio(tails: ScoreTails, recall: float) -> float | None:
    """Smallest tail ratio over thresholds above this recall, if there are any."""
    a, b = tails.survival, tails.positive_survival
    enough = b > recall
    return float(min(1.0, (a[enough] / b[enough]).min())) if enough.any() else None


def _epsilon(n: float) -> float:
    return float(np.sqrt(4 * np.log(math.e * n / 2) / n) + np.sqrt(np.log(2 * n) / (2 * n)))


def best_bin(tails: ScoreTails, *, slack: float = 0.01, confidence: float = 0.9) -> float:
    """Tail ratio at the threshold with the smallest upper bound, for any sample size.

    The threshold minimises ``a/b + (1 + slack)/b * (e(n) + e(n_positive))`` with
    ``e(n) = sqrt(log(4 / (1 - confidence)) / (2 n))`` (Garg et al. 2021).
    """
    a, b = tails.survival, tails.positive_survival
    scale = np.log(4 / (1 - confidence)) / 2
    noise = np.sqrt(scale / tails.n) + np.sqrt(scale / tails.n_positive)
    best = np.argmin((a + (1 + slack) * noise) / b)
    return float(min(1.0, a[best] / b[best]))


def plateau(tails: ScoreTails) -> float:
    """Prior from the height of the plateau of the smooth fit."""
    return fit_plateau(tails).prior


def combined(tails: ScoreTails) -> float:
    """Infimum and best-bin for large priors; DEDPUL and the plateau for small ones.

    The bias of the first two is proportional to the fraction of negatives, so their mean m
    gets weight m, and the other pair 1 - m. DEDPUL and the plateau use higher scores, where
    rare positives are visible. The plateau assumes a shape of the curve, so its weight in
    the pair decreases with the number of positives and is a half at one hundred.
    """
    lowest = _lowest_ratio(tails, _epsilon(tails.n_positive))
    best = best_bin(tails)
    many = best if lowest is None else (lowest + best) / 2
    trust = _PLATEAU_ROWS / (_PLATEAU_ROWS + tails.n_positive)
    few = trust * plateau(tails) + (1 - trust) * dedpul(tails)
    return many * many + (1 - many) * few


def adaptive(tails: ScoreTails) -> float:
    """The prior of the plateau if ``combined`` is moderate, and ``combined`` if it is large.

    If the classes overlap, the tail ratios are too high, because there are negatives among the best-scored
    rows; the plateau extrapolates beyond them. If most rows are positive, there are too few negatives to
    fit the plateau, and the tail ratios are better. If the classes hardly overlap, only noise is left in
    the tail ratios, their minimum is too low, and the plateau is better again. With few positives neither
    says much: below forty of them, the mean over all priors that the plateau allows gets weight, and all of
    it below ten. Before the data are seen, priors have a Beta(1.5, 3) distribution there.
    """
    enough = slide(tails.n_positive, *_ENOUGH_POSITIVES)
    if enough == 0:
        return _likely_prior(tails)
    tail_reading, fit = combined(tails), fit_plateau(tails)
    weight = max(slide(tail_reading, *_MOSTLY_POSITIVE), slide(fit.slope, *STEEP) / 2)
    weight *= 1 - slide(evidence_of(tails).separation, *APART)
    value = weight * tail_reading + (1 - weight) * fit.prior
    return value if enough == 1 else enough * value + (1 - enough) * _likely_prior(tails)


def _likely_prior(tails: ScoreTails) -> float:
    """Posterior mean of the prior, from the plateau's likelihood and a Beta distribution of usual priors."""
    profile = plateau_profile(tails)
    prior = expit(profile.log_odds)
    a, b = _USUAL_PRIORS
    weight = np.exp(profile.height) * prior**a * (1 - prior) ** b  # a density in the log-odds
    return float(weight @ prior / weight.sum())


PROPORTIONS: dict[str, Callable[[ScoreTails], float]] = {
    "adaptive": adaptive,
    "combined": combined,
    "paper": infimum,
    "best-bin": best_bin,
    "plateau": plateau,
    "scott": scott,
    "dedpul": dedpul,
}
