r"""Confidence limits of a sum over strata, from a few true labels in each.

In a stratified audit :math:`n_h` rows of stratum :math:`h` are labelled, of which :math:`x_h` have
the property in question. The limits are for :math:`\pi = \sum_h w_h p_h` with known weights.
Normal limits fail if a stratum has 0 of 20, and with a good score there are many such strata. The
limits here invert a test instead: a value of :math:`\pi` lies above the upper limit if, under this
value, the sum :math:`\sum_h w_h X_h / n_h` is at most the observed one with a probability below
that of the tail. The distribution of the sum is that of the binomial counts; the :math:`p_h`,
which :math:`\pi` does not determine, have their maximum-likelihood values given :math:`\pi`. With
one stratum these are the limits of Clopper and Pearson.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ndtri, xlogy

from drpu._typing import FloatArray, IntArray
from drpu.priors.figures import Figure, exact_limit
from drpu.priors.matching import shares
from drpu.priors.plateau import fit_plateau, normal_scores
from drpu.priors.tails import ScoreTails

_GRID = 4096  # number of steps in the range of the weighted sum
# Multipliers, as inverse hyperbolic sines: a usual value, and one for shares of 0.
_USUAL_POSITION = 3.0
_FARTHEST_POSITION = 30.0
_LEAST_VARIANCE = 0.2  # of a stratum, relative to the largest that the prior allows
_MOST_STRATA = 12
_ROUNDS = 4  # it converges in three


def both_tails(level: float) -> tuple[float, float]:
    """Error probabilities of the lower and the upper limit at a confidence level."""
    return (1 - level) / 2, (1 - level) / 2


def stratified_share(
    weight: FloatArray,
    hits: FloatArray | IntArray,
    sizes: FloatArray | IntArray,
    *,
    tails: tuple[float, float] = (0.025, 0.025),
    rows: float = math.inf,
) -> Figure:
    r"""Estimate and limits of ``sum(weight * p)`` from ``hits`` of ``sizes`` answers a stratum.

    A stratum without answers may have any share, and the limits include this. They are for the
    population of the ``rows`` that the weights were counted on, so the noise of the weights,
    :math:`\sum w_h (p_h - \pi)^2 / N`, is added.
    """
    sample = _Sample.of(weight, hits, sizes, rows)
    lower, upper = tails
    return Figure(
        value=sample.value,
        low=sample.low(lower),
        high=sample.total - sample.opposite().low(upper),
        variance=sample.variance,
    )


@dataclass(frozen=True, slots=True)
class _PossibleCounts:
    """Counts that strata can have, one after the other."""

    stratum: IntArray
    hits: FloatArray
    sizes: FloatArray  # number of answers in the stratum of each
    log_ways: FloatArray  # logarithm of the binomial coefficient
    place: IntArray  # on the grids of all strata


@dataclass(frozen=True)
class _Sample:
    """Answers in the strata that have answers, and the weight of the strata without answers."""

    weight: FloatArray
    hits: FloatArray
    sizes: FloatArray
    rows: float
    unseen: float

    @classmethod
    def of(
        cls,
        weight: FloatArray,
        hits: FloatArray | IntArray,
        sizes: FloatArray | IntArray,
        rows: float,
    ) -> _Sample:
        answered = (weight > 0) & (np.asarray(sizes) > 0)
        return cls(
            weight=np.asarray(weight[answered], dtype=np.float64),
            hits=np.asarray(hits[answered], dtype=np.float64),
            sizes=np.asarray(sizes[answered], dtype=np.float64),
            rows=rows,
            unseen=float(weight[~answered].sum()),
        )

    @property
    def total(self) -> float:
        return float(self.weight.sum()) + self.unseen

    @property
    def value(self) -> float:
        """Weighted mean; strata without answers get the mean of the others."""
        answered = float(self.weight.sum())
        if answered == 0:
            return 0.0
        return self._observed * self.total / answered

    @property
    def _observed(self) -> float:
        """The weighted sum of the observed shares."""
        return float(self.weight @ (self.hits / self.sizes))

    @property
    def variance(self) -> float:
        """A conservative variance of the value."""
        p = (self.hits + 0.5) / (self.sizes + 1)
        inside = float(self.weight**2 @ (p * (1 - p) / self.sizes))
        return inside + self._between(p) + self.unseen**2 / 12

    def opposite(self) -> _Sample:
        """The sample of the answers without the property; its lower limit gives the upper one."""
        return _Sample(self.weight, self.sizes - self.hits, self.sizes, self.rows, self.unseen)

    def low(self, tail: float) -> float:
        """The share at which a sum at least as large as observed has probability ``tail``.

        Strata without answers count as 0.
        """
        if not self.hits.any():
            return 0.0
        if len(self.weight) == 1:
            share = exact_limit(self.hits[0], self.sizes[0], tail, upper=False)
            return float(self.weight[0]) * share
        as_large = cache(self._as_large)  # brentq evaluates both ends of its interval again
        near = 0.0
        far = _USUAL_POSITION
        while as_large(far) > tail:
            if far >= _FARTHEST_POSITION:
                return 0.0
            near = far
            far = 1.5 * far
        if near == 0 and as_large(0.0) <= tail:
            return self._observed

        # The logarithm of the probability is nearly a parabola, so it needs fewer steps.
        def excess(position: float) -> float:
            return math.log(max(as_large(position), 1e-12) / tail)

        position = float(brentq(excess, near, far, xtol=1e-3))
        return float(self.weight @ self._likeliest(position))

    def _likeliest(self, position: float) -> FloatArray:
        return likeliest_shares(self.weight, self.hits, self.sizes, math.sinh(position))

    def _as_large(self, position: float) -> float:
        """P(the weighted sum is at least as large as observed), by the law of the counts on a grid.

        ``position`` determines the share that is tested: 0 is the observed one, and larger
        positions are smaller shares.
        """
        p = self._likeliest(position)
        step = float(self.weight.sum()) / _GRID
        cells = self._cells
        counts = self._counts
        p_of_count = p[counts.stratum]
        log_mass = counts.log_ways + xlogy(counts.hits, p_of_count)
        mass = np.exp(log_mass + xlogy(counts.sizes - counts.hits, 1 - p_of_count))
        laws = np.bincount(counts.place, weights=mass, minlength=len(p) * cells)
        spectrum = np.fft.rfft(laws.reshape(len(p), cells), axis=1).prod(axis=0)
        frequency = 2 * math.pi * np.fft.rfftfreq(cells) / step
        spectrum *= np.exp(-0.5 * self._between(p) * frequency**2)
        law = np.fft.irfft(spectrum, cells)
        # Rounding changes the sum of each stratum by at most half a step: include all that may be
        # as large.
        first = max(math.ceil(self._observed / step - len(p) / 2), 0)
        probability = float(law[first : (_GRID + cells) // 2].sum())
        return min(max(probability, 0.0), 1.0)

    @property
    def _cells(self) -> int:
        """Cells of the grid, with room for the noise of the weights on either side of the sum."""
        room = _GRID // 2 if self.rows >= 500 else _GRID
        return _GRID + room

    @cached_property
    def _counts(self) -> _PossibleCounts:
        """Every count that a stratum can have, for all strata."""
        whole_sizes = self.sizes.astype(np.int64)
        stratum = np.repeat(np.arange(len(whole_sizes)), whole_sizes + 1)
        hits = np.concatenate([np.arange(size + 1.0) for size in whole_sizes])
        sizes = self.sizes[stratum]
        log_ways = gammaln(sizes + 1) - gammaln(hits + 1) - gammaln(sizes - hits + 1)
        steps_of_hit = self.weight / self.sizes * _GRID / self.weight.sum()
        place = np.rint(hits * steps_of_hit[stratum]).astype(np.int64)
        return _PossibleCounts(
            stratum, hits, sizes, np.asarray(log_ways), stratum * self._cells + place
        )

    def _between(self, p: FloatArray) -> float:
        """Variance from the shares of the strata, which were counted on finitely many rows."""
        share = self.weight / self.weight.sum()
        return float(self.weight.sum()) ** 2 * float(share @ (p - share @ p) ** 2) / self.rows


def likeliest_shares(
    weight: FloatArray, hits: FloatArray, sizes: FloatArray, multiplier: float
) -> FloatArray:
    r"""Shares of the strata with the largest likelihood among all with the same weighted sum.

    With Lagrange's multiplier :math:`\mu`, each solves
    :math:`\mu w p^2 - (\mu w + n) p + x = 0`. The weighted sum is the observed one at
    :math:`\mu = 0` and decreases in :math:`\mu`.
    """
    m = multiplier * weight
    linear = m + sizes
    root = np.sqrt(np.maximum(linear**2 - 4 * m * hits, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(linear > 0, 2 * hits / (linear + root), (linear - root) / (2 * m))
    return np.asarray(np.clip(np.nan_to_num(p), 0, 1))


@dataclass(frozen=True, slots=True)
class Strata:
    """A stratified design: number of rows in each range of scores, and number of rows to label.

    Attributes
    ----------
    cuts : ndarray of shape (H - 1,)
        Scores at which the strata begin, ascending; a row belongs to the last stratum
        whose cut does not exceed its score.
    rows : ndarray of shape (H,)
        Number of rows in each stratum.
    planned : ndarray of shape (H,)
        Number of rows to label in each stratum.
    posterior : ndarray of shape (H,)
        Share of positives that the classifier expects in each stratum.
    """

    cuts: FloatArray
    rows: IntArray
    planned: IntArray
    posterior: FloatArray

    @property
    def weight(self) -> FloatArray:
        """Share of each stratum among the rows."""
        return np.asarray(self.rows / self.rows.sum())

    def of(self, scores: FloatArray) -> IntArray:
        """Stratum of each score."""
        return np.searchsorted(self.cuts, scores, side="right").astype(np.int64)


def make_strata(scores: FloatArray, posterior: FloatArray, n: int, highest_prior: float) -> Strata:
    """Strata of rows by score, with ``n`` rows allocated to them by expected variance.

    The cuts divide the sum of the expected standard deviations into equal parts, which
    makes equal allocation nearly optimal; one more cut lies where the posterior reaches 1/2.
    Rows with equal scores share a stratum. ``highest_prior`` determines the smallest variance
    assumed for a stratum, because the classifier may be wrong about any stratum.
    """
    most = min(max(highest_prior, 1e-6), 0.5)
    least_variance = _LEAST_VARIANCE * most * (1 - most)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    deviation = np.sqrt(np.maximum(posterior * (1 - posterior), least_variance))
    summed = deviation[order].cumsum()
    # as many strata as give several answers to each
    parts = int(np.clip(round(0.7 * math.sqrt(n)), 1, min(n, _MOST_STRATA)))
    steps = max(parts - 1, 1)
    ranks = np.searchsorted(summed, summed[-1] * np.arange(1, steps) / steps)
    if parts > 1:  # a cut where the label changes: with a good score both sides are nearly pure
        ranks = np.append(ranks, np.searchsorted(np.maximum.accumulate(posterior[order]), 0.5))
    cuts = np.unique(ranked[np.minimum(ranks, len(ranked) - 1)])
    cuts = cuts[cuts > ranked[0]]

    stratum = np.searchsorted(cuts, scores, side="right")
    rows = np.bincount(stratum, minlength=len(cuts) + 1)
    share = np.bincount(stratum, weights=posterior, minlength=len(cuts) + 1) / rows
    planned = allocate(rows, np.sqrt(np.maximum(share * (1 - share), least_variance)), n)
    return Strata(cuts, rows.astype(np.int64), planned, share)


def allocate(rows: IntArray, spread: FloatArray, n: int) -> IntArray:
    """``n`` rows in proportion to ``rows * spread``: one or more of each stratum, at most all."""
    least = np.minimum(rows, max(1, min(3, n // (2 * len(rows)))))
    planned = np.zeros(len(rows), dtype=np.int64)
    share = rows * spread
    fixed = np.zeros(len(rows), dtype=bool)
    while not fixed.all():  # strata at their bounds are fixed, and the others share what is left
        left = n - planned[fixed].sum()
        target = left * share / share[~fixed].sum()
        too_few = ~fixed & (target < least)
        too_many = ~fixed & (target > rows)
        if too_few.any():
            planned[too_few] = least[too_few]
            fixed |= too_few
        elif too_many.any():
            planned[too_many] = rows[too_many]
            fixed |= too_many
        else:
            planned[~fixed] = _rounded(target[~fixed], left)
            break
    return planned


def _rounded(targets: FloatArray, total: int) -> IntArray:
    """Whole numbers near ``targets`` that add up to ``total``; large remainders are rounded up."""
    whole = np.floor(targets + 1e-9).astype(np.int64)
    largest_remainders = np.argsort(whole - targets, kind="stable")
    whole[largest_remainders[: total - whole.sum()]] += 1
    return whole


def draw_rows(strata: Strata, scores: FloatArray, rng: np.random.RandomState) -> IntArray:
    """Positions of the rows to label, in random order: the first ones are also a random sample."""
    stratum = strata.of(scores)
    drawn = []
    for h, planned in enumerate(strata.planned):
        drawn.append(rng.choice(np.flatnonzero(stratum == h), size=planned, replace=False))
    return np.asarray(rng.permutation(np.concatenate(drawn)), dtype=np.int64)


def expected_width(strata: Strata, level: float, highest_prior: float) -> float:
    """Width of the interval if the answers are as the classifier expects."""
    share = stratified_share(
        strata.weight,
        strata.planned * strata.posterior,
        strata.planned,
        tails=both_tails(level),
        rows=float(strata.rows.sum()),
    )
    return min(share.high, highest_prior) - min(share.low, highest_prior)


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the negatives, (1 - test_prior) / (1 - train_prior), and its standard deviation."""

    value: float
    spread: float = 0.0

    @property
    def inverse(self) -> Growth:
        """The growth in the other direction."""
        return Growth(1 / self.value, self.spread / self.value**2)


def negative_growth(tails: ScoreTails, reference: ScoreTails, test_prior: float) -> Growth | None:
    r"""Growth of the negatives from ``reference`` to ``tails``, from counts alone.

    For any function h of the score :math:`E'h - E_+h = \lambda (E h - E_+h)`; the h here is
    the one of :func:`drpu.priors.matching.efficient`. The noise of the three samples is
    :math:`Var'(h)/n' + \lambda^2 Var(h)/n + (1-\lambda)^2 Var_+(h)/n_+` over the squared
    denominator. ``test_prior`` may be rough: an error in it reduces precision but causes no bias.
    None if the score does not separate positives from unlabeled rows.
    """
    ratio = fit_plateau(reference)(normal_scores(reference))
    positive = shares(reference.positive_counts)
    unlabeled = shares(reference.counts)
    new = shares(tails.counts)
    q = min(max(test_prior, 0.02), 0.98)
    growth = 1.0
    gap = 0.0
    h = ratio
    for _ in range(_ROUNDS):
        prior = min(max(1 - (1 - q) / max(growth, 1e-3), 0.02), 0.98)
        eta = np.clip(prior * ratio, 0.01, 0.99)
        rho_positive = eta / prior
        rho_negative = (1 - eta) / (1 - prior)
        h = (rho_positive - rho_negative) / (q * rho_positive + (1 - q) * rho_negative)
        positive_mean = float(positive @ h)
        gap = float(unlabeled @ h) - positive_mean
        if abs(gap) < 1e-9:
            return None
        growth = max((float(new @ h) - positive_mean) / gap, 1e-3)
    variance = _variance(new, h) / tails.n
    variance += growth**2 * _variance(unlabeled, h) / reference.n
    variance += (1 - growth) ** 2 * _variance(positive, h) / reference.n_positive
    return Growth(growth, math.sqrt(variance) / abs(gap))


def _variance(share: FloatArray, h: FloatArray) -> float:
    return float(share @ (h - share @ h) ** 2)


def settled_growth(growth: Growth, unmoved: tuple[float, ...]) -> float:
    """The growth, shrunk towards the closest value without a change, if it is close to one.

    The posterior mean of the growth given its estimate, if the population has changed with
    probability 1/2, and then by any amount up to about 1. It is used for values only, never for
    limits.
    """
    if growth.spread <= 0:
        return growth.value
    known = np.array(unmoved)
    density = np.exp(-0.5 * ((growth.value - known) / growth.spread) ** 2)
    density /= growth.spread * math.sqrt(2 * math.pi) * len(known)
    return float((density @ known + growth.value) / (density.sum() + 1))


def carry_share(share: Figure, growth: Growth, tails: tuple[float, float]) -> Figure:
    """Share of positives after the share of negatives has grown by ``growth``.

    The errors of the two are combined on the scale of log(1 - share), separately for the lower and
    the upper limit. They are treated as independent. This is conservative if the share was
    measured on the rows from which the growth was counted, because both errors then have the same
    direction.

    Answers and counts may contradict each other, so that more than all rows would be negative. The
    value is then 0, and the upper limit is as far from it as it would be from an estimate of 0: no
    limits are equal.
    """
    if growth == Growth(1.0):
        return share
    lower_tail, upper_tail = tails
    negative = max(1 - share.value, 1e-9)
    log_up = math.log(max(1 - share.low, 1e-9) / negative)
    log_up = math.hypot(log_up, -float(ndtri(lower_tail)) * growth.spread / growth.value)
    log_down = math.log(negative / max(1 - share.high, 1e-9))
    log_down = math.hypot(log_down, -float(ndtri(upper_tail)) * growth.spread / growth.value)

    centre = growth.value * negative
    most = math.log(sys.float_info.max)  # a growth with a large error has a step too large for exp
    high = 1.0
    if share.high < 1:
        high = _between_0_and_1(1 - min(centre, 1.0) * math.exp(-log_down))
    return Figure(
        value=_between_0_and_1(1 - centre),
        low=_between_0_and_1(1 - centre * math.exp(min(log_up, most))),
        high=high,
        variance=growth.value**2 * share.variance + (negative * growth.spread) ** 2,
    )


def _between_0_and_1(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def carried_prior(
    tails: ScoreTails, reference: ScoreTails, prior: Figure, *, prior_level: float, level: float
) -> Figure:
    """Prior of the rows in ``tails`` from an audited prior of those in ``reference``.

    The limits of ``prior`` are moved to ``level`` in proportion to the normal quantiles, on the
    scale of log(1 - prior).
    """
    growth = Growth(1.0)
    for _ in range(2):  # the prior of the new rows only determines which mean is matched
        guess = _between_0_and_1(1 - growth.value * (1 - prior.value))
        counted = negative_growth(tails, reference, guess)
        growth = Growth(1.0) if counted is None else counted
    scale = float(ndtri((1 - level) / 2) / ndtri((1 - prior_level) / 2))
    negative = max(1 - prior.value, 1e-9)
    most_negative = negative * (max(1 - prior.low, 1e-9) / negative) ** scale
    least_negative = negative * (max(1 - prior.high, 1e-9) / negative) ** scale
    scaled = Figure(
        value=prior.value,
        low=_between_0_and_1(1 - most_negative),
        high=_between_0_and_1(1 - least_negative) if prior.high < 1 else 1.0,
        variance=prior.variance * scale**2,
    )
    return carry_share(scaled, growth, both_tails(level))


def combine_figures(figures: list[Figure]) -> Figure:
    """The mean of independent estimates of the same quantity, weighted by their inverse variances.

    Lower and upper limits are combined separately (MOVER).
    """
    if len(figures) == 1:
        return figures[0]
    value = np.array([figure.value for figure in figures])
    low = np.array([figure.low for figure in figures])
    high = np.array([figure.high for figure in figures])
    variance = np.array([figure.variance for figure in figures])
    weight = 1 / np.maximum(variance, 1e-12)
    weight /= weight.sum()
    mean = float(weight @ value)
    below = float(np.sqrt(((weight * (value - low)) ** 2).sum()))
    above = float(np.sqrt(((weight * (high - value)) ** 2).sum()))
    return Figure(
        value=mean,
        low=max(mean - below, 0.0),
        high=min(mean + above, 1.0),
        variance=float(weight**2 @ variance),
    )
