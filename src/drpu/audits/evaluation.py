"""Accuracy, precision, recall and cost from true labels of audited rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from drpu._results import TableColumns, TableResult, figure_columns
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
        n_rows = float(self.rows.sum())
        return stratified_share(self.weight, hits, self.sizes, tails=tails, rows=n_rows)

    def correlation(self, first: BoolArray, second: BoolArray) -> float:
        """Correlation of the shares of two outcomes that exclude each other; never positive."""
        sizes = np.maximum(self.sizes, 1)
        strata = len(self.rows)
        p = (np.bincount(self.stratum[first], minlength=strata) + 0.5) / (sizes + 1)
        q = (np.bincount(self.stratum[second], minlength=strata) + 0.5) / (sizes + 1)
        noise = self.weight**2 / sizes
        covariance = -float(noise @ (p * q))
        variances = float(noise @ (p * (1 - p))) * float(noise @ (q * (1 - q)))
        return max(-1.0, covariance / math.sqrt(variances))


FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(TableResult):
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

    def to_columns(self) -> TableColumns:
        """One row per figure, with limits."""
        figures = figure_columns(getattr(self, name) for name in FIGURES)
        return {"figure": list(FIGURES), **figures}

    def _title(self) -> str:
        return f"{self.n} rows with true labels, intervals at {self.level:.0%}"


def evaluate_answers(
    answers: Answers, flagged: BoolArray, *, cost: float, level: float
) -> Evaluation:
    """Performance of the predictions ``flagged`` on the answered rows, for their population.

    Shares of the population have the limits of
    :func:`drpu.audits.design.stratified_share`. Ratios and sums of two such shares combine
    the limits of both (MOVER), with the correlation that outcomes of the same row have.
    """
    positive = answers.positive
    tails = both_tails(level)
    true_positive = _Outcome.of(positive & flagged, answers, tails)
    false_positive = _Outcome.of(~positive & flagged, answers, tails)
    missed = _Outcome.of(positive & ~flagged, answers, tails)
    true_negative = _Outcome.of(~positive & ~flagged, answers, tails)
    return Evaluation(
        accuracy=answers.share(positive == flagged, tails),
        precision=_share_of_two(answers, true_positive, false_positive),
        recall=_share_of_two(answers, true_positive, missed),
        false_positive_rate=_share_of_two(answers, false_positive, true_negative),
        flagged=answers.share(flagged, tails),
        cost=_weighted_sum(missed.share, 1 - cost, false_positive.share, cost),
        prior=answers.share(positive, tails),
        n=len(positive),
        level=level,
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Answered rows with an outcome, and the share of the population that has it."""

    rows: BoolArray
    share: Figure

    @classmethod
    def of(cls, rows: BoolArray, answers: Answers, tails: tuple[float, float]) -> _Outcome:
        return cls(rows, answers.share(rows, tails))


def _share_of_two(answers: Answers, outcome: _Outcome, other: _Outcome) -> Figure:
    """Share of ``outcome`` among the rows with it or with ``other``."""
    if not (outcome.rows.any() or other.rows.any()):
        return Figure(math.nan, 0.0, 1.0)
    correlation = answers.correlation(outcome.rows, other.rows)
    return _part(outcome.share, other.share, correlation)


def _part(first: Figure, second: Figure, correlation: float) -> Figure:
    """Limits of first / (first + second): the r at which (1 - r) first - r second may be 0."""
    total = first.value + second.value
    if total == 0:
        return Figure(math.nan, 0.0, 1.0)
    value = first.value / total

    def joined(x: float, y: float) -> float:
        return math.sqrt(max(x * x + y * y - 2 * correlation * x * y, 0.0))

    def difference(r: float) -> float:
        return (1 - r) * first.value - r * second.value

    def most_difference(r: float) -> float:
        by_first = (1 - r) * (first.high - first.value)
        by_second = r * (second.value - second.low)
        return difference(r) + joined(by_first, by_second)

    def least_difference(r: float) -> float:
        by_first = (1 - r) * (first.value - first.low)
        by_second = r * (second.high - second.value)
        return difference(r) - joined(by_first, by_second)

    high = 1.0
    if most_difference(1.0) < 0:
        high = float(brentq(most_difference, value, 1.0))
    low = 0.0
    if least_difference(0.0) > 0:
        low = float(brentq(least_difference, 0.0, value))
    return _with_variance(value, min(low, value), max(high, value))


def _weighted_sum(first: Figure, a: float, second: Figure, b: float) -> Figure:
    """Limits of ``a first + b second``.

    Outcomes exclude each other, so independence is conservative.
    """
    value = a * first.value + b * second.value
    below = math.hypot(a * (first.value - first.low), b * (second.value - second.low))
    above = math.hypot(a * (first.high - first.value), b * (second.high - second.value))
    return _with_variance(value, max(value - below, 0.0), min(value + above, max(a, b)))


def _with_variance(value: float, low: float, high: float) -> Figure:
    return Figure(value, low, high, ((high - low) / 4) ** 2)


_FEWEST_AUDITED = 5  # with fewer audited positives nothing is tested
_DRAWS = 4000  # number of simulated samples that the statistic is compared with
_OVERDISPERSION = 1.6  # of ranks among cross-fitted scores, because fold models differ


@dataclass(frozen=True, slots=True)
class FairnessTest:
    """Test that labelled and audited positives have the same distribution of scores.

    Attributes
    ----------
    rank : float
        Mean rank of the audited positives among the labelled ones, weighted by the
        design, from 0 (all below) to 1 (all above); about 1/2 if the labelled positives are a
        random sample.
    p_value : float
        Probability of a rank at least as far from 1/2 under a random sample; 1 if nothing can be
        tested.
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
    """Share of the labelled positives below each row, ties counted half; a mean over its scores."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum()
    first = np.searchsorted(tails.levels, scores, side="left")
    last = np.searchsorted(tails.levels, scores, side="right")
    ranks = (below[first] + below[last]) / 2
    return np.asarray(ranks.reshape(len(scores), -1).mean(axis=1))


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
    with a large weight makes its distribution skewed, so it is compared with simulated samples:
    rows are drawn again within their strata, with labels drawn from ``posterior``, which is
    multiplied by a factor that gives the observed share of positives. Their mean is moved to 1/2,
    so that a posterior with a wrong shape reduces the precision only. The noise of the labelled
    sample is added.
    """
    audited = int(positive.sum())
    if audited < _FEWEST_AUDITED or audited == len(positive):
        return FairnessTest(0.5, 1.0, audited)
    mass = weight[positive]
    rank = float(mass @ ranks[positive] / mass.sum())
    chance = _scaled(posterior, weight, float(mass.sum()))
    simulated = _simulated_ranks(ranks, chance, stratum, weight)
    noise = math.sqrt(_OVERDISPERSION / (12 * n_positive))
    noise_of_labelled = np.random.RandomState(1).normal(0, noise, len(simulated))
    simulated += 0.5 - simulated.mean() + noise_of_labelled
    smaller_tail = min(float((simulated <= rank).mean()), float((simulated >= rank).mean()))
    p_value = min(1.0, 2 * max(smaller_tail, 0.5 / _DRAWS))
    return FairnessTest(rank, p_value, audited)


def _scaled(posterior: FloatArray, weight: FloatArray, total: float) -> FloatArray:
    """The posterior times one factor, at most 1, such that the weighted sum is the observed one.

    A prior that is wrong by a factor makes every posterior wrong by that factor.
    """
    chance = np.clip(posterior, 1e-4, 1.0)
    low = 0.0
    high = 1 / float(chance.min())
    for _ in range(50):
        factor = (low + high) / 2
        if weight @ np.minimum(factor * chance, 1) < total:
            low = factor
        else:
            high = factor
    return np.asarray(np.minimum(high * chance, 1.0))


def _simulated_ranks(
    ranks: FloatArray, chance: FloatArray, stratum: IntArray, weight: FloatArray
) -> FloatArray:
    """Mean ranks of the positives in samples simulated under the hypothesis."""
    rng = np.random.RandomState(0)
    total = np.zeros(_DRAWS)
    weighted = np.zeros(_DRAWS)
    for h in np.unique(stratum):
        rows_of_stratum = np.flatnonzero(stratum == h)
        rows = rng.choice(rows_of_stratum, size=(_DRAWS, len(rows_of_stratum)))
        mass = weight[rows] * (rng.random_sample(rows.shape) < chance[rows])
        total += mass.sum(axis=1)
        weighted += (mass * ranks[rows]).sum(axis=1)
    means = weighted / np.maximum(total, 1e-300)
    return np.asarray(means[total > 0])
