r"""Expected performance of a decision from counts, with limits of each figure.

With the share :math:`b` of the positives and :math:`a` of the unlabeled rows above a threshold, the rate of
false positives is :math:`(a - \pi b)/(1 - \pi)`. If few negatives are flagged, this is a small difference of
two noisy shares, and a smooth curve must support it. The plateau alone would be the best case: it assumes
that rows are ranked by their true ratio. A fitted ratio, however, ends at :math:`1/\pi`. Above some score all
true ratios are almost equal, their order is decided by the error of the fit, and negatives are spread evenly
among the best-scored rows. The plateau is therefore combined with an error of the scores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtri

from drpu._typing import FloatArray, IntArray
from drpu.periods.mixture_test import Performance, performance_at
from drpu.priors.calibration import calibrate
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import exact_limits
from drpu.priors.plateau import fit_plateau, noisy_curve, score_error
from drpu.priors.tails import ScoreTails

_FOLDS = 5
_SEED = 0  # a fixed seed of the folds, so that figures are reproducible
_MOST_DIVIDED = 500_000_000  # rows that NumPy divides at random; more rows keep their shares


@dataclass(frozen=True, slots=True)
class FoldRates:
    """Shares flagged out of fold and in fold, and the first flagged cell of each fold."""

    recall: tuple[float, float]
    unlabeled: tuple[float, float]
    cells: list[int]


@dataclass(frozen=True)
class FoldedCounts:
    """Counts in folds, and the ratios calibrated on the other folds."""

    positive: IntArray  # rows of each fold, by cell
    unlabeled: IntArray
    ratios: FloatArray  # ratio at each level by the calibration on all folds but one; each line ascends

    @cached_property
    def _above(self) -> tuple[IntArray, FloatArray]:
        """In a cell or above it: rows of each fold, and the share of the rows of all other folds.

        Both have the shape (2, folds, cells + 1): positive and unlabeled rows.
        """
        counts = np.stack([self.positive, self.unlabeled])
        above = np.pad(counts[..., ::-1].cumsum(axis=2)[..., ::-1], ((0, 0), (0, 0), (0, 1)))
        others = above.sum(axis=1, keepdims=True) - above
        return above, others / others[..., :1]

    def rates(self, ratio: float) -> FoldRates:
        """Rates of the threshold ``ratio`` on the part of the counts that was not used to make it."""
        cells = [int(np.searchsorted(ratios, ratio, side="right")) + 1 for ratios in self.ratios]
        above, shares = self._above
        outside = above[:, range(len(cells)), cells].sum(axis=1) / above[..., 0].sum(axis=1)
        inside = shares[:, range(len(cells)), cells].sum(axis=1) / len(cells)
        recall, flagged = zip(outside.tolist(), inside.tolist(), strict=True)
        return FoldRates(recall, flagged, cells)


def fold_counts(
    tails: ScoreTails, prior: float, labelled_share: float, offsets: Sequence[float] = (0.0,)
) -> FoldedCounts:
    """Divide the counts at random into folds of equal size, and calibrate on all but each of them.

    The ratio at a level is the mean over ``offsets`` that are added to it, as for labels.
    """
    rng = np.random.default_rng(_SEED)
    positive, unlabeled = _whole(tails.positive_counts, tails.n_positive), _whole(tails.counts, tails.n)
    folds = int(min(_FOLDS, positive.sum(), unlabeled.sum()))
    dealt = list(zip(_parts(positive, folds, rng), _parts(unlabeled, folds, rng), strict=True))
    at = tails.levels + np.array(offsets)[:, None]
    ratios = [
        calibrate(_counted(tails, positive - p, unlabeled - u), prior, labelled_share=labelled_share)
        .ratios(at.ravel())
        .reshape(at.shape)
        .mean(axis=0)
        for p, u in dealt
    ]
    return FoldedCounts(
        np.array([p for p, _ in dealt]),
        np.array([u for _, u in dealt]),
        np.maximum.accumulate(np.array(ratios), axis=1),
    )


def _whole(counts: IntArray | FloatArray, n: float) -> IntArray:
    """Counts as integers whose sum is the rounded effective size."""
    if counts.dtype == np.int64 and counts.sum() <= _MOST_DIVIDED:
        return np.asarray(counts, dtype=np.int64)
    total = min(max(2, round(n)), _MOST_DIVIDED)
    share = counts / counts.sum() * total
    whole = np.floor(share).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - share)[:missing]] += 1
    return np.asarray(whole, dtype=np.int64)


def _parts(counts: IntArray, folds: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Counts of rows that are divided at random into folds of equal size."""
    left = counts
    for k in range(folds, 1, -1):
        part = rng.multivariate_hypergeometric(left, int(left.sum()) // k, method="marginals")
        left = left - part
        yield part
    yield left


def _counted(tails: ScoreTails, positive: IntArray, unlabeled: IntArray) -> ScoreTails:
    """Tails over the same cells with other counts; some cells may have no positives."""
    part = tails.empty(copies=1)
    part.positive_counts, part.n_positive = positive, float(positive.sum())
    return part.add_counts(unlabeled)


_DOUBT = 1.0  # standard deviation of the log of the rate that the curve predicts: a factor of 2.7
_WHOLE_DOUBT = (0.25, 225.0)  # its variance for a model of all rows: always, and over positives
_WHOLE_GAIN = 0.2  # part of the missed positives that a model of all rows finds; over sqrt(positives)
_STEPS = np.linspace(-4.0, 4.0, 161)  # standard deviations
# Fraction of the errors that an average of fold models, or a model of all rows, may remove: with many and
# with few errors.
_ALL_FOLDS_GAIN = (0.15, 0.5)
_FEW_ERRORS = 0.02  # rate of errors at which that fraction is halfway between the two
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Decision:
    """A threshold on scores, and its origin.

    ``ratio``: Ratio to which ``score`` corresponds by calibration on ``reference``; None if the score
    does not depend on those counts.
    ``models``: Number of fold models. The counts are those of single ones; with several, a label comes
    from their average or from a model of all rows, and may be better than the counts say.
    """

    reference: ScoreTails  # held-out positives, and the unlabeled training rows counted over them
    score: float  # rows with at least this score are flagged
    ratio: float | None = None
    labelled_fraction: float = 0.0  # fraction of the training population that is labelled
    models: int = 1
    rows: float | None = None  # size of the batch to classify, whose noise is included; None for a population
    offsets: tuple[float, ...] = (0.0,)  # added to scores before calibration; a ratio is the mean over them
    whole: bool = False  # whether labels come from one model of all rows

    @property
    def doubt(self) -> float:
        """Standard deviation of the log of the rate that the curve predicts."""
        always, over_positives = _WHOLE_DOUBT
        whole = math.sqrt(always + over_positives / self.reference.n_positive)
        return min(whole, _DOUBT) if self.whole else _DOUBT

    @property
    def gain(self) -> float:
        """Expected share of the positives missed by a fold model that the model for labels finds."""
        return _WHOLE_GAIN / math.sqrt(self.reference.n_positive) if self.whole else 0.0


@dataclass(frozen=True, slots=True)
class PreparedCounts:
    """Counts with the curves that the rates of any threshold need, computed once for all thresholds."""

    reference: ScoreTails
    prior: float  # prior of the unlabeled training rows
    curve: tuple[FloatArray, FloatArray]  # recalls of a smooth curve, and its false-positive rates over them
    folds: FoldedCounts | None = None  # for thresholds that come from calibration on the counts

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        prior: float,
        labelled_fraction: float | None = None,
        offsets: Sequence[float] = (0.0,),
    ) -> Self:
        """Prepared ``reference``; with a labelled fraction also for calibrated thresholds."""
        folded = labelled_fraction is not None and min(reference.n_positive, reference.n) >= 2
        folds = fold_counts(reference, prior, labelled_fraction or 0.0, offsets) if folded else None
        known = min(max(prior, 1e-3), 1 - 1e-3)
        recall, wrong = noisy_curve(fit_plateau(reference, known), known, score_error(reference))
        curve = recall, np.minimum(wrong / np.maximum(recall, 1e-300), 1.0)
        return cls(reference, prior, curve, folds)

    def wrong_at(self, recall: float) -> float:
        """False-positive rate of the curve at a recall; proportional to it where the curve starts."""
        return max(float(np.interp(recall, *self.curve)) * recall, 1e-9)


def expect(
    decision: Decision,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
    *,
    cost: float = 0.5,
    rates: DecisionRates | None = None,
) -> tuple[Performance, Performance, Performance]:
    """Expected performance at the test prior, with a lower and an upper limit of each figure.

    Limits are at 95 %. Deviations from five sources are combined as the root of the sum of squares: both
    priors within their limits, the counts, the score itself (a jackknife over folds), the use of all
    folds for a label, which improves performance, and the batch.
    """
    if rates is None:
        rates = decision_rates(decision, train_prior.value)
    value = rates.at(test_prior.value)
    corners = [
        rates.at(pi_test, train)
        for train in (train_prior.low, train_prior.high)
        for pi_test in (test_prior.low, test_prior.high)
    ]
    figures = _figures([value, *corners, *rates.moved(test_prior.value)], cost)
    middle, by_prior, by_noise = figures[0], figures[1:5], figures[5:]
    spread = rates.spread(test_prior.value, cost)
    if decision.rows is not None:
        spread = spread + _batch_noise(value, cost, decision.rows) * ndtri((1 - _LEVEL) / 2) ** 2

    shifts = np.where(np.isnan(by_prior), 0.0, by_prior - middle)  # no row may be flagged at a prior of 0
    low, high = shifts.min(axis=0).clip(max=0) ** 2, shifts.max(axis=0).clip(min=0) ** 2
    for change in by_noise - middle:
        low, high = low + change.clip(max=0) ** 2, high + change.clip(min=0) ** 2
    return _ranged(middle, low + spread, high + spread, decision.score)


LABEL_NOISE = 0.01  # difference of the shares flagged by the models that count and by that of the labels


def expect_mapped(
    decision: Decision,
    curves: Sequence[tuple[FloatArray, FloatArray]],
    prior: PriorEstimate,
    *,
    cost: float = 0.5,
) -> tuple[Performance, Performance, Performance]:
    """Expected performance after answers; ``curves`` are shares above cells, at a prior and its limits."""
    below = np.isneginf(decision.score)  # all rows are flagged, also those below every level
    cell = 0 if below else int(np.searchsorted(decision.reference.levels, decision.score)) + 1
    ends = itertools.cycle((prior.value, prior.low, prior.high))
    points = [
        _Point(end, min(float(positive[cell]), 1.0), min(float(negative[cell]), 1.0))
        for end, (positive, negative) in zip(ends, curves, strict=False)
    ]
    figures = _figures(points, cost)
    spread = np.array([LABEL_NOISE**2 if name == "flagged" else 0.0 for name in _NAMES])
    if decision.rows is not None:
        spread += _batch_noise(points[0], cost, decision.rows)
    spread *= ndtri((1 - _LEVEL) / 2) ** 2
    shifts = np.where(np.isnan(figures), 0.0, figures - figures[0])
    low, high = shifts.min(axis=0) ** 2 + spread, shifts.max(axis=0) ** 2 + spread
    return _ranged(figures[0], low, high, decision.score)


def _ranged(
    middle: FloatArray, below: FloatArray, above: FloatArray, score: float
) -> tuple[Performance, Performance, Performance]:
    """Figures with their limits, from the squared distances of these."""
    low, high = np.clip(middle - np.sqrt(below), 0, 1), np.clip(middle + np.sqrt(above), 0, 1)
    return _performance(middle, score), _performance(low, score), _performance(high, score)


# -- recall and false-positive rate --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    """A prior with the two rates of a decision."""

    prior: float
    recall: float
    wrong: float


@dataclass(frozen=True, slots=True)
class DecisionRates:
    """Rates of a decision, their limits, and rates of the decisions made by parts of the counts."""

    train_prior: float
    recall: float
    recall_limits: tuple[float, float]
    unlabeled: float  # share of the unlabeled rows that is flagged
    wrong: float
    wrong_limits: tuple[float, float]
    wrong_slope: float  # change of the false-positive rate with recall; its noise has the opposite sign
    parts: list[tuple[float, float]]
    models: int

    def at(self, prior: float, train_prior: float | None = None) -> _Point:
        """The rates at another training prior."""
        wrong = self.wrong
        if train_prior is not None:
            wrong += self._raw(train_prior) - self._raw(self.train_prior)
        return _Point(prior, self.recall, min(1.0, max(0.0, wrong)))

    def _raw(self, pi: float) -> float:
        return (self.unlabeled - pi * self.recall) / (1 - pi) if pi < 1 else self.unlabeled

    def moved(self, prior: float) -> Iterator[_Point]:
        """The rates at the ends of their limits, one at a time."""
        for recall in self.recall_limits:
            wrong = self.wrong + self.wrong_slope * (recall - self.recall)
            yield _Point(prior, recall, min(1.0, max(0.0, wrong)))
        for wrong in self.wrong_limits:
            yield _Point(prior, self.recall, wrong)
        if self.models > 1:
            missed = 1 - self.recall
            yield _Point(prior, self.recall + _gain(missed) * missed, self.wrong * (1 - _gain(self.wrong)))

    def spread(self, prior: float, cost: float) -> FloatArray:
        """Squared deviation of the figures because of the score, by a jackknife over the folds."""
        if len(self.parts) < 2:
            return np.zeros(len(_NAMES))
        figures = _figures([_Point(prior, *part) for part in self.parts], cost)
        return np.asarray((len(figures) - 1) * figures.var(axis=0) * ndtri((1 - _LEVEL) / 2) ** 2)


def _gain(errors: float) -> float:
    """Fraction of the errors that the use of all folds for a label may remove."""
    many, few = _ALL_FOLDS_GAIN
    return many + (few - many) / (1 + errors / _FEW_ERRORS)


def decision_rates(decision: Decision, prior: float, prepared: PreparedCounts | None = None) -> DecisionRates:
    """Rates of a decision at the training prior ``prior``; ``prepared`` saves time for many thresholds."""
    tails, n_positive, n = decision.reference, decision.reference.n_positive, decision.reference.n
    nothing = decision.score > tails.levels[-1]
    if nothing or np.isneginf(decision.score):  # no row is flagged, or all are: the counts are not used
        rate = float(not nothing)
        return DecisionRates(prior, rate, (rate, rate), rate, rate, (rate, rate), 0.0, [], 1)
    if prepared is None:
        labelled = None if decision.ratio is None else decision.labelled_fraction
        prepared = PreparedCounts.of(tails, prior, labelled, decision.offsets)
    level = int(np.searchsorted(tails.levels, decision.score))
    cells = [level + 1]
    recall, unlabeled = _above(tails.positive_counts, level + 1), _above(tails.counts, level + 1)
    if decision.ratio is not None and prepared.folds is not None:
        folds = prepared.folds.rates(decision.ratio)
        # Out-of-fold rates, plus the change of the in-fold rates for the score of all counts.
        recall = min(1.0, max(0.0, folds.recall[0] + recall - folds.recall[1]))
        unlabeled = min(1.0, max(0.0, folds.unlabeled[0] + unlabeled - folds.unlabeled[1]))
        cells = folds.cells

    recall = max(recall, 0.5 / n_positive)  # no counted positive does not prove that there are none
    odds = prior / (1 - prior) if prior < 1 else 0.0
    raw = unlabeled * (1 + odds) - recall * odds
    of_recall = odds**2 * _noise(recall, n_positive)
    noise = _noise(unlabeled, n) * (1 + odds) ** 2 + of_recall
    curve = prepared.wrong_at(recall), decision.doubt
    wrong, (low, high), slope = _likely_rate(raw, noise, of_recall, curve)
    more = 1 + decision.gain * (1 / recall - 1)  # a model of all rows flags more rows of both classes
    recall, unlabeled, wrong, low, high = (min(x * more, 1.0) for x in (recall, unlabeled, wrong, low, high))
    tail = (1 - _LEVEL) / 2
    parts = [_above(tails.positive_counts, cell) for cell in cells]
    return DecisionRates(
        prior,
        recall,
        exact_limits(recall, n_positive, tail),
        unlabeled,
        wrong,
        (low, high),
        -slope * odds,
        [(part, prepared.wrong_at(part)) for part in parts],
        decision.models,
    )


def _likely_rate(
    raw: float, noise: float, of_recall: float, curve: tuple[float, float]
) -> tuple[float, tuple[float, float], float]:
    """False-positive rate by the counts and the curve together, its limits, and its slope in ``raw``.

    The rate by the counts, ``raw``, is normal with the variance ``noise``, of which ``of_recall`` comes from
    the positives. Beforehand the log of the rate is normal around that of the ``curve``, a rate with the
    standard deviation of its log. On that scale no count can move the rate to 0, which would make the
    precision 1.
    """
    spread = math.sqrt(noise)
    centre, doubt = math.log(curve[0]), curve[1]
    grid = np.concatenate((np.exp(centre + doubt * _STEPS), raw + spread * _STEPS))
    grid = np.unique(grid[(grid > 0) & (grid < 1)])
    log = -(((np.log(grid) - centre) / doubt) ** 2 + ((grid - raw) / spread) ** 2) / 2 - np.log(grid)
    weight = np.exp(log - log.max()) * np.gradient(grid)
    weight /= weight.sum()
    mean = float(weight @ grid)
    variance = float(weight @ (grid - mean) ** 2)
    slope = min(variance / noise, 1.0)
    own = math.sqrt(max(1 - slope**2 * of_recall / max(variance, 1e-300), 0.0))  # without that of recall
    tail = (1 - _LEVEL) / 2
    ends = np.interp([tail, 1 - tail], np.cumsum(weight) - weight / 2, grid)
    low, high = (mean + own * (ends - mean)).tolist()
    return mean, (min(low, mean), max(high, mean)), slope


def _above(counts: IntArray | FloatArray, cell: int) -> float:
    """Share of the counts in ``cell`` or above it."""
    return float(counts[cell:].sum() / counts.sum())


def _noise(share: float, n: float) -> float:
    cautious = (share * n + 0.5) / (n + 1)
    return cautious * (1 - cautious) / n


# -- figures ---------------------------------------------------------------------------------------

_NAMES = tuple(field.name for field in fields(Performance) if field.name != "threshold")


def _figures(points: Sequence[_Point], cost: float) -> FloatArray:
    """The figures of each point, one line for each."""
    prior, recall, wrong = np.array([[p.prior, p.recall, p.wrong] for p in points]).T
    found = performance_at(np.zeros(len(points)), recall, wrong, prior, cost)
    return np.stack([getattr(found, name) for name in _NAMES], axis=1)


def _batch_noise(point: _Point, cost: float, rows: float) -> FloatArray:
    """Variances of the figures of a batch, in the order of the figures."""
    q, recall, wrong = point.prior, point.recall, point.wrong
    flagged = q * recall + (1 - q) * wrong
    missed, false = q * (1 - recall), (1 - q) * wrong
    accuracy, precision = 1 - missed - false, q * recall / flagged if flagged > 0 else 1.0
    loss = (1 - cost) * missed + cost * false
    variances = {
        "accuracy": accuracy * (1 - accuracy),
        "precision": precision * (1 - precision) / max(flagged, 1 / rows),
        "recall": recall * (1 - recall) / max(q, 1 / rows),
        "false_positive_rate": wrong * (1 - wrong) / max(1 - q, 1 / rows),
        "flagged": flagged * (1 - flagged),
        "cost": (1 - cost) ** 2 * missed + cost**2 * false - loss**2,
    }
    return np.array([max(variances[name], 0.0) / rows for name in _NAMES])


def _performance(figures: FloatArray, score: float) -> Performance:
    return Performance(threshold=score, **dict(zip(_NAMES, figures.tolist(), strict=True)))
