r"""Test whether the labelled positives are a random sample of all positives.

Positives among audited rows, weighted by the design, represent all positives of their population. If the
labelled positives are a random sample, both have the same distribution of scores, and the mean rank of
audited positives among the labelled ones is 1/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.core.tails import ScoreTails

__all__ = ["FairnessTest", "fairness_test", "positive_ranks"]

FEWEST = 5  # with fewer audited positives nothing is tested
_DRAWS = 4000  # number of simulated samples that the statistic is compared with
_OVERDISPERSION = 1.6  # of ranks among cross-fitted scores, because fold models differ


@dataclass(frozen=True, slots=True)
class FairnessTest:
    """Test that labelled and audited positives have the same distribution of scores.

    Attributes
    ----------
    rank : float
        Mean rank of the audited positives among the labelled ones, weighted by the
        design, from 0 (all below) to 1 (all above); about 1/2 if the labelled positives are a random sample.
    p_value : float
        Probability of a rank at least as far from 1/2 under a random sample; 1 if nothing can be tested.
    n_positive : int
        Number of audited positives.
    """

    rank: float
    p_value: float
    n_positive: int

    @property
    def labelled_score_higher(self) -> bool:
        """Whether the labelled positives have higher scores than the audited ones."""
        return self.rank < 0.5


def positive_ranks(tails: ScoreTails, scores: FloatArray) -> FloatArray:
    """Share of the labelled positives below each row, ties counted half, averaged over its fold scores."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum()
    first = np.searchsorted(tails.levels, scores, side="left")
    last = np.searchsorted(tails.levels, scores, side="right")
    return np.asarray(((below[first] + below[last]) / 2).reshape(len(scores), -1).mean(axis=1))


def fairness_test(
    ranks: FloatArray,
    positive: BoolArray,
    stratum: IntArray,
    weight: FloatArray,
    posterior: FloatArray,
    n_positive: float,
) -> FairnessTest:
    r"""Test that audited positives rank among labelled positives as those do among themselves.

    Parameters
    ----------
    ranks : ndarray of shape (n,)
        Rank of each audited row among the labelled positives, in [0, 1].
    positive : ndarray of shape (n,)
        The answers.
    stratum : ndarray of shape (n,)
        Stratum of each audited row.
    weight : ndarray of shape (n,)
        Weight of each audited row in estimates: one over its probability of being chosen.
    posterior : ndarray of shape (n,)
        Probability of the positive class from the classifier, for each audited row.
    n_positive : float
        Effective number of labelled positives.

    Notes
    -----
    The statistic is the weighted mean rank of the audited positives. A single positive
    with a large weight makes its distribution skewed, so it is compared with simulated samples: rows
    are drawn again within their strata, with labels drawn from ``posterior``, which is multiplied by
    a factor that gives the observed share of positives. Their mean is moved to 1/2, so that a
    posterior with a wrong shape reduces the precision only. The noise of the labelled sample is
    added.
    """
    found = int(positive.sum())
    if found < FEWEST or found == len(positive):
        return FairnessTest(0.5, 1.0, found)
    mass = weight[positive]
    rank = float(mass @ ranks[positive] / mass.sum())
    drawn = _draws(ranks, _scaled(posterior, weight, float(mass.sum())), stratum, weight)
    noise = math.sqrt(_OVERDISPERSION / (12 * n_positive))
    drawn += 0.5 - drawn.mean() + np.random.RandomState(1).normal(0, noise, len(drawn))
    tails = float((drawn <= rank).mean()), float((drawn >= rank).mean())
    return FairnessTest(rank, min(1.0, 2 * max(min(tails), 0.5 / _DRAWS)), found)


def _scaled(posterior: FloatArray, weight: FloatArray, total: float) -> FloatArray:
    """The posterior times one factor, at most 1, such that the weighted sum is the observed one.

    A prior that is wrong by a factor makes every posterior wrong by that factor.
    """
    chance = np.clip(posterior, 1e-4, 1.0)
    low, high = 0.0, 1 / float(chance.min())
    for _ in range(50):
        factor = (low + high) / 2
        low, high = (factor, high) if weight @ np.minimum(factor * chance, 1) < total else (low, factor)
    return np.asarray(np.minimum(high * chance, 1.0))


def _draws(ranks: FloatArray, chance: FloatArray, stratum: IntArray, weight: FloatArray) -> FloatArray:
    """Mean ranks of the positives in samples simulated under the hypothesis."""
    rng = np.random.RandomState(0)
    total, weighted = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for h in np.unique(stratum):
        own = np.flatnonzero(stratum == h)
        rows = rng.choice(own, size=(_DRAWS, len(own)))
        mass = weight[rows] * (rng.random_sample(rows.shape) < chance[rows])
        total += mass.sum(axis=1)
        weighted += (mass * ranks[rows]).sum(axis=1)
    return np.asarray((weighted / np.maximum(total, 1e-300))[total > 0])
