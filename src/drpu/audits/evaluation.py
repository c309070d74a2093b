"""Accuracy, precision, recall and cost from true labels of audited rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.audits.design import both_tails, stratified_share
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails


@dataclass(frozen=True, slots=True)
class Answers:
    """True labels of rows that were drawn at random within strata."""

    positive: BoolArray  # the true labels
    stratum: IntArray  # stratum of each row
    rows: FloatArray | IntArray  # number of rows in each stratum of the sample that was audited

    @classmethod
    def random(cls, positive: BoolArray) -> Answers:
        """The answers of a simple random sample, which is one stratum."""
        return cls(positive, np.zeros(len(positive), dtype=np.int64), np.array([len(positive)]))

    @property
    def weight(self) -> FloatArray:
        """Share of each stratum."""
        return np.asarray(self.rows / self.rows.sum())

    @property
    def sizes(self) -> IntArray:
        """Number of answers in each stratum."""
        return np.bincount(self.stratum, minlength=len(self.rows)).astype(np.int64)

    def share(self, outcome: BoolArray, tails: tuple[float, float]) -> Figure:
        """Share of the population with ``outcome``, which is known for each answered row."""
        hits = np.bincount(self.stratum[outcome], minlength=len(self.rows))
        return stratified_share(self.weight, hits, self.sizes, tails=tails, rows=float(self.rows.sum()))

    def correlation(self, one: BoolArray, other: BoolArray) -> float:
        """Correlation of the shares of two outcomes that exclude each other; it is never positive."""
        sizes, weight = np.maximum(self.sizes, 1), self.weight
        hits = (np.bincount(self.stratum[outcome], minlength=len(weight)) for outcome in (one, other))
        p, q = ((x + 0.5) / (sizes + 1) for x in hits)
        part = weight**2 / sizes
        together = -float(part @ (p * q))
        return max(-1.0, together / math.sqrt(float(part @ (p * (1 - p))) * float(part @ (q * (1 - q)))))


FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Performance measured on rows with true labels, with limits for their population.

    Attributes
    ----------
    accuracy, precision, recall, false_positive_rate : Figure
        Each with confidence limits; NaN with limits 0 and 1 if the answers contain no information
        about it.
    flagged : Figure
        Share of the rows that are classified as positive.
    cost : Figure
        ``(1 - c) * share of missed positives + c * share of false alarms`` with ``c`` the
        false-positive cost; half the error rate when it is 1/2.
    prior : Figure
        Share of positives.
    n : int
        Number of rows with a true label.
    level : float
        Confidence level of each interval.
    """

    accuracy: Figure
    precision: Figure
    recall: Figure
    false_positive_rate: Figure
    flagged: Figure
    cost: Figure
    prior: Figure
    n: int
    level: float

    def __str__(self) -> str:
        lines = [f"{name.replace('_', ' '):20s} {getattr(self, name)}" for name in FIGURES]
        return "\n".join([f"{self.n} rows with true labels, intervals at {self.level:.0%}", *lines])


def evaluate_answers(answers: Answers, flagged: BoolArray, *, cost: float, level: float) -> Evaluation:
    """Performance of the predictions ``flagged`` on the answered rows, for their population.

    Shares of the population have the limits of
    :func:`drpu.audits.design.stratified_share`. Ratios and sums of two such shares combine
    the limits of both (MOVER), with the correlation that outcomes of the same row have.
    """
    positive, tails = answers.positive, both_tails(level)
    hit, alarm = positive & flagged, ~positive & flagged
    missed, quiet = positive & ~flagged, ~positive & ~flagged
    shares = {id(x): answers.share(x, tails) for x in (hit, alarm, missed, quiet)}

    def part(one: BoolArray, other: BoolArray) -> Figure:
        if not (one.any() or other.any()):
            return Figure(math.nan, 0.0, 1.0)
        return _part(shares[id(one)], shares[id(other)], answers.correlation(one, other))

    return Evaluation(
        accuracy=answers.share(hit | quiet, tails),
        precision=part(hit, alarm),
        recall=part(hit, missed),
        false_positive_rate=part(alarm, quiet),
        flagged=answers.share(flagged, tails),
        cost=_sum(shares[id(missed)], 1 - cost, shares[id(alarm)], cost),
        prior=answers.share(positive, tails),
        n=len(positive),
        level=level,
    )


def _part(one: Figure, other: Figure, correlation: float) -> Figure:
    """Limits of ``one / (one + other)``: the values r at which (1 - r) one - r other may be 0."""
    value = one.value / (one.value + other.value) if one.value + other.value > 0 else math.nan

    def joined(x: float, y: float) -> float:
        return math.sqrt(max(x * x + y * y - 2 * correlation * x * y, 0.0))

    def above(r: float) -> float:
        up = joined((1 - r) * (one.high - one.value), r * (other.value - other.low))
        return (1 - r) * one.value - r * other.value + up

    def below(r: float) -> float:
        down = joined((1 - r) * (one.value - one.low), r * (other.high - other.value))
        return (1 - r) * one.value - r * other.value - down

    if math.isnan(value):
        return Figure(value, 0.0, 1.0)
    high = 1.0 if above(1.0) >= 0 else float(brentq(above, value, 1.0))
    low = 0.0 if below(0.0) <= 0 else float(brentq(below, 0.0, value))
    return _with_variance(value, min(low, value), max(high, value))


def _sum(one: Figure, a: float, other: Figure, b: float) -> Figure:
    """Limits of ``a one + b other``; outcomes exclude each other, so independence is conservative."""
    value = a * one.value + b * other.value
    down = math.hypot(a * (one.value - one.low), b * (other.value - other.low))
    up = math.hypot(a * (one.high - one.value), b * (other.high - other.value))
    return _with_variance(value, max(value - down, 0.0), min(value + up, max(a, b)))


def _with_variance(value: float, low: float, high: float) -> Figure:
    return Figure(value, low, high, ((high - low) / 4) ** 2)


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
