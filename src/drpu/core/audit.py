r"""Design of audits, and the priors that follow from their answers.

Rows are divided into strata by score, and the number of rows to label in each stratum is proportional to
its size times the expected standard deviation of its labels (Neyman's allocation). Within a stratum every
row has the same probability of being chosen, so the probability of every row is known and positive.
Estimates weighted by its inverse have no bias, for any score. A good score makes them precise.

With :math:`\lambda = (1-\pi')/(1-\pi)`, which the counts of two unlabeled samples give
without any assumption about the priors, answers for rows of one population determine the prior
of the other: :math:`\pi = 1 - (1-\pi')/\lambda`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from drpu._typing import FloatArray, IntArray
from drpu.core.audit_limits import Figure, both_tails, stratified_share
from drpu.core.calibration import fit_plateau, normal_scores
from drpu.core.tails import ScoreTails

__all__ = [
    "Growth",
    "Strata",
    "carried_prior",
    "carry_share",
    "combine_figures",
    "draw_rows",
    "expected_width",
    "make_strata",
    "negative_growth",
    "settled_growth",
]

_FLOOR = 0.2  # smallest variance of a stratum, relative to the largest that the prior allows
_MOST_STRATA = 12
_ROUNDS = 4  # it converges in three


# -- design --------------------------------------------------------------------------------


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

    Parameters
    ----------
    scores, posterior : ndarray of shape (N,)
        A ranking of the rows, and the probability of the positive class from the classifier.
    n : int
        Number of rows to label, from 1 to N.
    highest_prior : float
        Upper limit of the share of positives. It determines the smallest variance assumed for a
        stratum, because the classifier may be wrong about any stratum.

    Notes
    -----
    The cuts divide the sum of the expected standard deviations into equal parts, which
    makes equal allocation nearly optimal; one more cut lies where the posterior reaches 1/2.
    Rows with equal scores share a stratum.
    """
    most = min(max(highest_prior, 1e-6), 0.5)
    floor = _FLOOR * most * (1 - most)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    spread = np.sqrt(np.maximum(posterior * (1 - posterior), floor))[order].cumsum()
    parts = number_of_strata(n)
    steps = max(parts - 1, 1)
    at = np.searchsorted(spread, spread[-1] * np.arange(1, steps) / steps)
    if parts > 1:  # a cut where the label changes: with a good score both sides are nearly pure
        at = np.append(at, np.searchsorted(np.maximum.accumulate(posterior[order]), 0.5))
    cuts = np.unique(ranked[np.minimum(at, len(ranked) - 1)])
    cuts = cuts[cuts > ranked[0]]

    stratum = np.searchsorted(cuts, scores, side="right")
    rows = np.bincount(stratum, minlength=len(cuts) + 1)
    share = np.bincount(stratum, weights=posterior, minlength=len(cuts) + 1) / rows
    planned = allocate(rows, np.sqrt(np.maximum(share * (1 - share), floor)), n)
    return Strata(cuts, rows.astype(np.int64), planned, share)


def number_of_strata(n: int) -> int:
    """Number of strata for ``n`` answers, such that each has several answers."""
    return int(np.clip(round(0.7 * math.sqrt(n)), 1, min(n, _MOST_STRATA)))


def allocate(rows: IntArray, spread: FloatArray, n: int) -> IntArray:
    """``n`` rows in proportion to ``rows * spread``: at least one of each stratum, at most all of it."""
    least = np.minimum(rows, max(1, min(3, n // (2 * len(rows)))))
    planned = np.zeros(len(rows), dtype=np.int64)
    share = rows * spread
    fixed = np.zeros(len(rows), dtype=bool)
    while not fixed.all():  # strata at their bounds are fixed, and the others share the remaining rows
        left = n - planned[fixed].sum()
        target = left * share / share[~fixed].sum()
        low, high = ~fixed & (target < least), ~fixed & (target > rows)
        if not (low.any() or high.any()):
            planned[~fixed] = _rounded(target[~fixed], int(left))
            break
        bound = low if low.any() else high
        planned[bound] = least[bound] if low.any() else rows[bound]
        fixed |= bound
    return planned


def _rounded(target: FloatArray, total: int) -> IntArray:
    """Integers with the sum ``total`` close to ``target``: the largest remainders are rounded up."""
    whole = np.floor(target + 1e-9).astype(np.int64)
    up = np.argsort(whole - target, kind="stable")[: total - whole.sum()]
    whole[up] += 1
    return whole


def draw_rows(strata: Strata, scores: FloatArray, rng: np.random.RandomState) -> IntArray:
    """Positions of the rows to label, in random order, so that the first ones are also a random sample."""
    stratum = strata.of(scores)
    drawn = [
        rng.choice(np.flatnonzero(stratum == h), size=k, replace=False) for h, k in enumerate(strata.planned)
    ]
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


# -- from one population to the other ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the share of negatives, (1 - test_prior) / (1 - train_prior), and its standard deviation."""

    value: float
    spread: float = 0.0

    @property
    def inverse(self) -> Growth:
        """The growth in the other direction."""
        return Growth(1 / self.value, self.spread / self.value**2)


def negative_growth(tails: ScoreTails, reference: ScoreTails, test_prior: float) -> Growth | None:
    r"""Growth of the negatives from ``reference`` to ``tails``, from counts alone.

    Parameters
    ----------
    tails, reference : ScoreTails
        Counts of the new rows and of the unlabeled training rows over the same positives.
    test_prior : float
        A rough prior of the new rows. It determines which mean is matched; an error in it reduces
        precision but causes no bias.

    Returns
    -------
    growth : Growth or None
        None if the score does not separate positives from unlabeled rows.

    Notes
    -----
    For any function h of the score :math:`E'h - E_+h = \lambda (E h - E_+h)`; the h here is
    the one of :func:`drpu.core.shift.efficient`. The noise of the three samples is
    :math:`Var'(h)/n' + \lambda^2 Var(h)/n + (1-\lambda)^2 Var_+(h)/n_+` over the squared
    denominator.
    """
    ratio = fit_plateau(reference)(normal_scores(reference))
    samples = [_shares(reference.positive_counts), _shares(reference.counts), _shares(tails.counts)]
    at = min(max(test_prior, 0.02), 0.98)
    growth, gap, h = 1.0, 0.0, ratio
    for _ in range(_ROUNDS):
        prior = min(max(1 - (1 - at) / max(growth, 1e-3), 0.02), 0.98)
        eta = np.clip(prior * ratio, 0.01, 0.99)
        positive, negative = eta / prior, (1 - eta) / (1 - prior)
        h = (positive - negative) / (at * positive + (1 - at) * negative)
        labelled, before, now = (float(share @ h) for share in samples)
        gap = before - labelled
        if abs(gap) < 1e-9:
            return None
        growth = max((now - labelled) / gap, 1e-3)
    labelled, before, now = (float(share @ (h - share @ h) ** 2) for share in samples)
    variance = now / tails.n + growth**2 * before / reference.n
    variance += (1 - growth) ** 2 * labelled / reference.n_positive
    return Growth(growth, math.sqrt(variance) / abs(gap))


def settled_growth(growth: Growth, unmoved: tuple[float, ...]) -> float:
    """The growth, shrunk towards the closest value without a change, if it is close to one.

    Parameters
    ----------
    growth : Growth
        Growth from counts.
    unmoved : tuple of float
        Possible values of the growth if the rows come from the training population.

    Notes
    -----
    The posterior mean of the growth given its estimate, if the population has changed with probability
    1/2, and then by any amount up to about 1. It is used for values only, never for limits.
    """
    if growth.spread <= 0:
        return growth.value
    known = np.array(unmoved)
    density = np.exp(-0.5 * ((growth.value - known) / growth.spread) ** 2)
    density /= growth.spread * math.sqrt(2 * math.pi) * len(known)
    return float((density @ known + growth.value) / (density.sum() + 1))


def carry_share(share: Figure, growth: Growth, tails: tuple[float, float]) -> Figure:
    """Share of positives after the share of negatives has grown by ``growth``.

    The errors of the two are combined on the scale of log(1 - share), separately for the lower and the
    upper limit. They are treated as independent. This is conservative if the share was measured on the
    rows from which the growth was counted, because both errors then have the same direction.
    """
    if growth == Growth(1.0):
        return share
    lower, upper = (-float(ndtri(tail)) * growth.spread / growth.value for tail in tails)
    negative = max(1 - share.value, 1e-9)
    up = math.hypot(math.log(max(1 - share.low, 1e-9) / negative), lower)
    down = math.hypot(math.log(negative / max(1 - share.high, 1e-9)), upper)
    ends = (growth.value * negative * math.exp(step) for step in (0.0, up, -down))
    value, low, high = (min(max(1 - end, 0.0), 1.0) for end in ends)
    if share.high >= 1:
        high = 1.0
    variance = growth.value**2 * share.variance + (negative * growth.spread) ** 2
    return Figure(value, low, high, variance)


def carried_prior(
    tails: ScoreTails, reference: ScoreTails, prior: Figure, *, prior_level: float, level: float
) -> Figure:
    """Prior of the rows in ``tails`` from an audited prior of those in ``reference``.

    Parameters
    ----------
    tails, reference : ScoreTails
        Counts of the new rows and of the unlabeled training rows over the same positives.
    prior : Figure
        Prior of the unlabeled training rows, with limits at ``prior_level``.
    level : float
        Confidence level of the result. The limits of ``prior`` are moved to it in
        proportion to the normal quantiles, on the scale of log(1 - prior).
    """
    growth = Growth(1.0)
    for _ in range(2):  # the prior of the new rows only determines which mean is matched
        guess = min(max(1 - growth.value * (1 - prior.value), 0.0), 1.0)
        found = negative_growth(tails, reference, guess)
        growth = Growth(1.0) if found is None else found
    scale = float(ndtri((1 - level) / 2) / ndtri((1 - prior_level) / 2))
    return carry_share(_at_level(prior, scale), growth, both_tails(level))


def _at_level(share: Figure, scale: float) -> Figure:
    """The share with the distances of its limits multiplied by ``scale``."""
    negative = max(1 - share.value, 1e-9)
    ends = (negative * (max(1 - end, 1e-9) / negative) ** scale for end in (share.low, share.high))
    low, high = (min(max(1 - end, 0.0), 1.0) for end in ends)
    return Figure(share.value, low, high if share.high < 1 else 1.0, share.variance * scale**2)


def combine_figures(figures: list[Figure]) -> Figure:
    """The mean of independent estimates of the same quantity, weighted by their inverse variances.

    Lower and upper limits are combined separately (MOVER).
    """
    if len(figures) == 1:
        return figures[0]
    weight = np.array([1 / max(figure.variance, 1e-12) for figure in figures])
    weight /= weight.sum()
    value, low, high = (
        np.array([getattr(figure, name) for figure in figures]) for name in ("value", "low", "high")
    )
    mean = float(weight @ value)
    down, up = (float(np.sqrt(((weight * side) ** 2).sum())) for side in (value - low, high - value))
    variance = float(weight**2 @ np.array([figure.variance for figure in figures]))
    return Figure(mean, max(mean - down, 0.0), min(mean + up, 1.0), variance)


def _shares(counts: IntArray | FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)
