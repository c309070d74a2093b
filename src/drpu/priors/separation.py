r"""Evidence of training counts on the purity of the best-scored rows.

The ratio of tails estimates the prior plus the share of negatives among the best-scored rows, and the data
do not separate the two. How many negatives there may be depends on how well the score separates the
classes. Youden's index against the negatives measures this, but it needs the prior: with a prior that is
too high, the remaining negatives seem well separated. The index is therefore computed at the *lowest*
prior that the counts allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from drpu._typing import FloatArray
from drpu.exceptions import DataError
from drpu.priors.calibration import normal_scores
from drpu.priors.tails import ScoreTails, remembered

DESIGN = 0.95  # level at which purity is assessed, for limits of any level
ENOUGH = 0.55  # smallest Youden index with which a prior counts as identified by the score alone
_LOWERED = (0.1, 0.5)  # indices between which the lower limit grows from 0 to its full size
_MOSTLY_POSITIVE = (0.7, 0.9)  # the weight of the plateau's limit decreases to 0 between these priors ...
_SEPARATES = (0.05, 0.15)  # ... unless the score separates nothing

_BINS = 60  # number of ranges of scores for the likelihood
_LOG_ODDS = np.linspace(-7.0, 7.0, 29)  # priors that are tried, from 0.001 to 0.999
_STEPS = 20  # largest number of steps; ten are common
_ENOUGH = 1e-2  # change of the log-likelihood at which the steps end


@dataclass(frozen=True, slots=True)
class Evidence:
    """A lower bound of the separation of the classes by the score, and the likelihood of the plateau.

    ``separation``: Youden's index of the score, positives against negatives, at the lower end of the
    plateau's 95 % interval, minus its noise: the smallest index that the counts allow, in [-1, 1].
    """

    separation: float
    profile: PlateauProfile  # likelihood of each prior under the plateau

    def impurity(self, low: float, middle: float) -> float:
        r"""Density of negatives over that of positives that the best-scored rows may have, in [0, 1).

        ``low`` and ``middle`` are the lower limit and a rough value of the training prior when the
        best-scored rows are taken as positive. The result depends on the classes and not on their shares,
        so the value of a training sample is valid for every later sample.

        The plateau's lower limit does not assume that the best-scored rows are positive, and shrinks to 0
        if the score does not separate the classes. Its difference from ``low`` is attributed to negatives:
        with :math:`\ell_0` the smaller one, :math:`(\ell - \ell_0) / (1 - \ell_0)`. If most rows are
        positive, there are too few negatives to show the shape of the plateau, and ``low`` is kept.
        """
        low = min(low, 1 - 1e-6)  # with a limit of 1 there would be no negatives
        allowed = min(low, self.profile.low(DESIGN)) * slide(self.separation, *_LOWERED)
        keep = slide(middle, *_MOSTLY_POSITIVE) * slide(self.separation, *_SEPARATES)
        allowed = keep * low + (1 - keep) * allowed
        return (low - allowed) / (1 - allowed) if low > allowed else 0.0


def evidence_of(tails: ScoreTails) -> Evidence:
    """Evidence of the training counts ``tails``."""
    if not tails.counts.any():
        raise DataError("the tails are empty: update them with unlabeled scores first.")
    profile = plateau_profile(tails)
    return Evidence(youden_index(tails, profile.low(DESIGN)), profile)


def youden_index(tails: ScoreTails, prior: float) -> float:
    """Youden's index of the score, positives against negatives, minus its noise."""
    gap = float((tails.positive_survival - tails.survival).max())
    return min(1.0, max(-1.0, gap / max(1 - prior, 0.02) - 1 / math.sqrt(tails.n_positive)))


def slide(value: float, start: float, end: float) -> float:
    """0 up to ``start``, 1 from ``end`` on, and linear in between."""
    return min(1.0, max(0.0, (value - start) / (end - start)))


@dataclass(frozen=True, slots=True)
class PlateauProfile:
    """Largest log-likelihood at each prior, minus the largest of all."""

    log_odds: FloatArray  # log-odds of the priors, ascending
    height: FloatArray  # log-likelihood at each, at most 0

    def low(self, level: float) -> float:
        """Lower end of the likelihood-ratio interval; 0 if no smaller prior is rejected."""
        drop = -(float(ndtri((1 - level) / 2)) ** 2) / 2
        best = int(np.argmax(self.height))
        below = np.flatnonzero(self.height[: best + 1] < drop)
        if len(below) == 0:
            return 0.0
        k = int(below[-1])
        reach = (drop - self.height[k]) / (self.height[k + 1] - self.height[k])
        return float(expit(self.log_odds[k] + reach * (self.log_odds[k + 1] - self.log_odds[k])))


@remembered
def plateau_profile(tails: ScoreTails) -> PlateauProfile:
    """Profile likelihood of the prior, the plateau's intercept and slope fitted at each prior.

    All priors are fitted at once by Fisher scoring, each with its own damping.
    """
    positive, unlabeled, z = _pooled(tails)
    labelled = tails.n_positive / (tails.n_positive + tails.n)
    height = labelled / (labelled + (1 - labelled) * expit(_LOG_ODDS))
    problem = _Problem(positive, unlabeled, z, height[:, None])

    theta = np.tile([[-0.5], [0.5]], len(_LOG_ODDS))  # intercept and log slope
    value, damping = problem.value(theta), np.full(len(_LOG_ODDS), 1e-3)
    for _ in range(_STEPS):
        tried = np.clip(theta + problem.step(theta, damping), [[-25.0], [-3.0]], [[25.0], [3.0]])
        reached = problem.value(tried)
        better = reached >= value
        gain = float(np.where(better, reached - value, np.inf).max())
        theta, value = np.where(better, tried, theta), np.where(better, reached, value)
        damping = np.where(better, damping * 0.3, np.minimum(damping * 8, 1e6))
        if gain < _ENOUGH:
            break
    return PlateauProfile(_LOG_ODDS, value - value.max())


@dataclass(frozen=True, slots=True)
class _Problem:
    """Log-likelihood of the classification of positive against unlabeled rows, for a column of heights."""

    positive: FloatArray
    unlabeled: FloatArray
    z: FloatArray
    height: FloatArray

    def value(self, theta: FloatArray) -> FloatArray:
        share = self._share(self._climb(theta))
        return np.asarray(np.log(share) @ self.positive + np.log1p(-share) @ self.unlabeled)

    def step(self, theta: FloatArray, damping: FloatArray) -> FloatArray:
        """Damped scoring step of intercept and log slope, at each height."""
        climb = self._climb(theta)
        share = self._share(climb)
        bend = self.height * climb * (1 - climb)
        pull = (self.positive - (self.positive + self.unlabeled) * share) / (share * (1 - share)) * bend
        weight = (self.positive + self.unlabeled) * bend**2 / (share * (1 - share))
        by_slope = np.exp(theta[1])[:, None] * self.z

        g, h = pull.sum(axis=1), (pull * by_slope).sum(axis=1)
        gg = (weight.sum(axis=1) + 1e-9) * (1 + damping)
        hh = ((weight * by_slope**2).sum(axis=1) + 1e-9) * (1 + damping)
        gh = (weight * by_slope).sum(axis=1)
        steps = np.array([hh * g - gh * h, gg * h - gh * g]) / (gg * hh - gh**2)
        return np.asarray(np.clip(steps, [[-3.0], [-1.0]], [[3.0], [1.0]]))

    def _climb(self, theta: FloatArray) -> FloatArray:
        return np.asarray(expit(theta[0][:, None] + np.exp(theta[1])[:, None] * self.z))

    def _share(self, climb: FloatArray) -> FloatArray:
        return np.asarray(np.clip(self.height * climb, 1e-12, 1 - 1e-12))


def _pooled(tails: ScoreTails) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Effective positives and unlabeled rows in a limited number of ranges, and their normal scores."""
    positive = tails.positive_counts / tails.positive_counts.sum()
    unlabeled = tails.counts / tails.counts.sum()
    z = normal_scores(tails)
    if len(z) > _BINS:
        mass = (positive + unlabeled) / 2 + 1e-12
        at = np.minimum(((np.cumsum(mass) - mass / 2) * _BINS).astype(np.int64), _BINS - 1)
        _, at = np.unique(at, return_inverse=True)
        z = np.bincount(at, mass * z) / np.bincount(at, mass)
        positive, unlabeled = np.bincount(at, positive), np.bincount(at, unlabeled)
    return positive * tails.n_positive, unlabeled * tails.n, z
