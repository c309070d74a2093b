r"""Expected performance of a decision from counts, with limits of each figure.

With the share :math:`b` of the positives and :math:`a` of the unlabeled rows above a threshold,
the rate of false positives is :math:`(a - \pi b)/(1 - \pi)`. If few negatives are flagged, this is
a small difference of two noisy shares, and the smooth curve of the plateau supports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtri

from drpu._arrays import FloatArray, IntArray
from drpu._results import TableColumns, TableResult, figure_columns
from drpu.priors.calibration import calibrate
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limits, without_wide_values
from drpu.priors.plateau import smooth_curve
from drpu.priors.tails import ScoreTails, remembered

# Chosen by ``python -m benchmarks.rare`` and ``python -m benchmarks.tables``.
_DOUBT = 1.0  # standard deviation of the log of the rate that the curve predicts: a factor of 2.7
_WHOLE_DOUBT = (0.25, 225.0)  # its variance for a model of all rows: always, and over positives
_WHOLE_GAIN = 0.2  # part of the missed positives that such a model finds; over sqrt(positives)
# Fraction of the errors that an average of fold models, or a model of all rows, may remove: with
# many and with few errors.
_ALL_FOLDS_GAIN = (0.15, 0.5)
_FEW_ERRORS = 0.02  # rate of errors at which that fraction is halfway between the two
LABEL_NOISE = (
    0.01  # difference of the shares flagged by the counted models and by that of the labels
)

_LEVEL = 0.95
_TAIL = (1 - _LEVEL) / 2
_DEVIATIONS2 = ndtri(_TAIL) ** 2  # squared number of standard deviations of a limit
_STEPS = np.linspace(-4.0, 4.0, 161)  # standard deviations
_FOLDS = 5
_SEED = 0  # a fixed seed of the folds, so that figures are reproducible
_MOST_DIVIDED = 500_000_000  # rows that NumPy divides at random; more rows keep their shares


@dataclass(frozen=True, slots=True, repr=False)
class Performance(TableResult):
    """Expected performance of a decision; each figure has limits at 95 %.

    Attributes
    ----------
    threshold : float
        Rows with at least this score are flagged.
    accuracy, precision, recall, false_positive_rate : Figure
        As usual, each with ``value``, ``low`` and ``high``; precision is NaN if nothing is flagged:
        it cannot be computed.
    flagged : Figure
        Fraction of the rows that are flagged.
    cost : Figure
        ``(1 - c) * prior * (1 - recall) + c * (1 - prior) * false_positive_rate``
        with ``c`` the false-positive cost; half the error rate if it is 1/2.
    """

    threshold: float
    accuracy: Figure
    precision: Figure
    recall: Figure
    false_positive_rate: Figure
    flagged: Figure
    cost: Figure

    def to_columns(self) -> TableColumns:
        """One row per figure, with limits."""
        figures = [getattr(self, name) for name in _NAMES]
        return {"figure": list(_NAMES), **figure_columns(figures)}

    def _shown_columns(self) -> TableColumns:
        return without_wide_values(self.to_columns())

    def _title(self) -> str:
        return f"expected figures, intervals at {_LEVEL:.0%}"


_NAMES = tuple(field.name for field in fields(Performance) if field.name != "threshold")


@dataclass(frozen=True, slots=True)
class Decision:
    """A threshold on scores, and its origin.

    ``reference``: Held-out positives, and the unlabeled training rows counted over them.
    ``score``: Rows with at least this score are flagged.
    ``ratio``: Ratio to which ``score`` corresponds by calibration on ``reference``; None if the
    score does not depend on those counts.
    ``labelled_fraction``: Fraction of the training population that is labelled.
    ``models``: Number of fold models. The counts are those of single ones; with several, a label
    comes from their average or from a model of all rows, and may be better than the counts say.
    ``rows``: Size of the batch to classify, whose noise is included; None for a population.
    ``offsets``: Added to scores before calibration; a ratio is the mean over them.
    ``whole``: Whether labels come from one model of all rows.
    """

    reference: ScoreTails
    score: float
    ratio: float | None = None
    labelled_fraction: float = 0.0
    models: int = 1
    rows: float | None = None
    offsets: tuple[float, ...] = (0.0,)
    whole: bool = False

    @property
    def doubt(self) -> float:
        """Standard deviation of the log of the rate that the curve predicts."""
        if not self.whole:
            return _DOUBT
        always, over_positives = _WHOLE_DOUBT
        return min(math.sqrt(always + over_positives / self.reference.n_positive), _DOUBT)

    @property
    def gain(self) -> float:
        """Expected share of the positives missed by a fold model that labels then find."""
        if not self.whole:
            return 0.0
        return _WHOLE_GAIN / math.sqrt(self.reference.n_positive)


def expect(
    decision: Decision,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
    *,
    cost: float = 0.5,
    rates: DecisionRates | None = None,
) -> Performance:
    """Expected performance at the test prior.

    Precision is not linear in the priors and in the rate of false positives, nor is this rate in
    the training prior. Figures are therefore means of their values at the possible training priors,
    and in the lower and in the upper half of what the rate may be at each.

    Limits are at 95 %. Deviations from five sources are combined as the root of the sum of squares:
    both priors within their limits, the counts, the score itself (a jackknife over folds), the use
    of all folds for a label, which improves performance, and the batch.
    """
    if rates is None:
        rates = decision_rates(decision, train_prior)
    central = _Point(test_prior.value, rates.recall, rates.wrong)
    corners = []
    for wrong in rates.wrong_at_priors:
        for pi_test in (test_prior.low, test_prior.high):
            corners.append(_Point(pi_test, rates.recall, wrong))
    middle = _figures(_possible_points(rates, train_prior, test_prior), cost).mean(axis=0)
    (at_central_priors,) = _figures([central], cost)
    by_prior = _figures(corners, cost) - at_central_priors
    by_noise = _figures(list(rates.moved(test_prior.value)), cost) - at_central_priors
    spread = rates.spread(test_prior.value, cost)
    if decision.rows is not None:
        spread = spread + _batch_noise(central, cost, decision.rows) * _DEVIATIONS2

    by_prior = np.where(np.isnan(by_prior), 0.0, by_prior)  # no row may be flagged at a prior of 0
    below = by_prior.min(axis=0).clip(max=0) ** 2
    above = by_prior.max(axis=0).clip(min=0) ** 2
    for change in by_noise:
        below = below + change.clip(max=0) ** 2
        above = above + change.clip(min=0) ** 2
    return _ranged(middle, below + spread, above + spread, decision.score)


def _possible_points(
    rates: DecisionRates, train_prior: PriorEstimate, test_prior: PriorEstimate
) -> list[_Point]:
    """Rates at each possible training prior; the share of negatives has grown by one factor.

    The test prior stays within its limits. If it is known, it is the same for all of them.
    """
    growth = (1 - test_prior.value) / max(1 - train_prior.value, 1e-12)
    possible = train_prior.possible_values
    points = []
    for value, halves in zip(possible, rates.wrong_halves, strict=True):
        prior = test_prior.value
        if len(possible) > 1:
            prior = min(max(1 - growth * (1 - value), test_prior.low), test_prior.high)
        points += [_Point(prior, rates.recall, wrong) for wrong in halves]
    return points


def expect_mapped(
    decision: Decision,
    curves: Sequence[tuple[FloatArray, FloatArray]],
    prior: PriorEstimate,
    *,
    cost: float = 0.5,
) -> Performance:
    """Expected performance after answers.

    ``curves`` are shares of positives and negatives above cells, at a prior and its limits in turn.
    """
    cell = 0  # all rows are flagged, also those below every level
    if not np.isneginf(decision.score):
        cell = int(np.searchsorted(decision.reference.levels, decision.score)) + 1
    ends = (prior.value, prior.low, prior.high)
    points = []
    for k, (positive, negative) in enumerate(curves):
        recall = min(float(positive[cell]), 1.0)
        wrong = min(float(negative[cell]), 1.0)
        points.append(_Point(ends[k % len(ends)], recall, wrong))
    figures = _figures(points, cost)
    middle = figures[0]

    spread = np.where(np.array(_NAMES) == "flagged", LABEL_NOISE**2, 0.0)
    if decision.rows is not None:
        spread += _batch_noise(points[0], cost, decision.rows)
    spread *= _DEVIATIONS2
    by_prior = np.where(np.isnan(figures), 0.0, figures - middle)
    below = by_prior.min(axis=0) ** 2
    above = by_prior.max(axis=0) ** 2
    return _ranged(middle, below + spread, above + spread, decision.score)


def _ranged(middle: FloatArray, below: FloatArray, above: FloatArray, score: float) -> Performance:
    """Figures with their limits, from the squared distances of these."""
    low = np.clip(middle - np.sqrt(below), 0, 1)
    high = np.clip(middle + np.sqrt(above), 0, 1)
    figures = {}
    for k, name in enumerate(_NAMES):
        figures[name] = Figure(float(middle[k]), float(low[k]), float(high[k]))
    return Performance(threshold=score, **figures)


# -- recall and false-positive rate ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    """A prior with the two rates of a decision."""

    prior: float
    recall: float
    wrong: float


@dataclass(frozen=True, slots=True)
class DecisionRates:
    """Rates of a decision, their limits, and rates of the decisions made by parts of the counts.

    ``wrong_at_priors``: The false-positive rate at the limits of the training prior.
    ``wrong_halves``: Means of the lower and of the upper half of what the false-positive rate may
    be, at each possible training prior.
    ``wrong_slope``: Change of the false-positive rate with recall; its noise has the opposite sign.
    """

    recall: float
    recall_limits: tuple[float, float]
    wrong: float
    wrong_limits: tuple[float, float]
    wrong_at_priors: tuple[float, float]
    wrong_halves: tuple[tuple[float, float], ...]
    wrong_slope: float = 0.0
    parts: tuple[tuple[float, float], ...] = ()
    models: int = 1

    @classmethod
    def certain(cls, rate: float, n_possible: int) -> Self:
        """All rates are 0 or all are 1, whatever the counts and the training prior are."""
        both = (rate, rate)
        return cls(rate, both, rate, both, both, (both,) * n_possible)

    def moved(self, prior: float) -> Iterator[_Point]:
        """The rates at the ends of their limits, one at a time."""
        for recall in self.recall_limits:
            wrong = self.wrong + self.wrong_slope * (recall - self.recall)
            yield _Point(prior, recall, min(1.0, max(0.0, wrong)))
        for wrong in self.wrong_limits:
            yield _Point(prior, self.recall, wrong)
        if self.models > 1:
            missed = 1 - self.recall
            recall = self.recall + _gain(missed) * missed
            yield _Point(prior, recall, self.wrong * (1 - _gain(self.wrong)))

    def spread(self, prior: float, cost: float) -> FloatArray:
        """Squared deviation of the figures because of the score, by a jackknife over the folds."""
        if len(self.parts) < 2:
            return np.zeros(len(_NAMES))
        points = [_Point(prior, recall, wrong) for recall, wrong in self.parts]
        figures = _figures(points, cost)
        return np.asarray((len(figures) - 1) * figures.var(axis=0) * _DEVIATIONS2)


def _gain(errors: float) -> float:
    """Fraction of the errors that the use of all folds for a label may remove."""
    many, few = _ALL_FOLDS_GAIN
    return many + (few - many) / (1 + errors / _FEW_ERRORS)


@dataclass(frozen=True, slots=True)
class PreparedCounts:
    """Counts with what the rates of any threshold need, computed once for all.

    ``folds``: For thresholds that come from calibration on the counts.
    """

    reference: ScoreTails
    prior: float  # prior of the unlabeled training rows
    folds: FoldedCounts | None = None

    @classmethod
    def of(
        cls,
        reference: ScoreTails,
        prior: float,
        labelled_fraction: float | None = None,
        offsets: Sequence[float] = (0.0,),
    ) -> Self:
        """Prepared ``reference``; with a labelled fraction also for calibrated thresholds."""
        folds = None
        if labelled_fraction is not None and min(reference.n_positive, reference.n) >= 2:
            folds = fold_counts(reference, prior, labelled_fraction, offsets)
        return cls(reference, prior, folds)

    def wrong_at(self, recall: float, prior: float) -> float:
        """False-positive rate of a smooth curve; proportional to it where the curve starts."""
        recalls, wrong_over_recall = smooth_curve(self.reference, prior)
        return max(float(np.interp(recall, recalls, wrong_over_recall)) * recall, 1e-9)

    def rates_at(self, cells: Sequence[int]) -> tuple[tuple[float, float], ...]:
        """Recall and false-positive rate of the curve from each of these cells on."""
        rates = []
        for cell in cells:
            recall = _share_above(self.reference.positive_counts, cell)
            rates.append((recall, self.wrong_at(recall, self.prior)))
        return tuple(rates)


def decision_rates(
    decision: Decision, prior: PriorEstimate, prepared: PreparedCounts | None = None
) -> DecisionRates:
    """Rates of a decision if the training prior is ``prior``.

    ``prepared`` saves time for many thresholds.
    """
    tails = decision.reference
    n_possible = len(prior.possible_values)
    if decision.score > tails.levels[-1]:  # no row is flagged: the counts are not used
        return DecisionRates.certain(0.0, n_possible)
    if np.isneginf(decision.score):
        return DecisionRates.certain(1.0, n_possible)
    if prepared is None:
        labelled = None if decision.ratio is None else decision.labelled_fraction
        prepared = PreparedCounts.of(tails, prior.value, labelled, decision.offsets)

    counted = _counted_rates(decision, prepared)
    # none counted does not prove that none are
    recall = max(counted.recall, 0.5 / tails.n_positive)
    # a model of all rows flags more rows of both classes
    more = 1 + decision.gain * (1 / recall - 1)
    wrong_at = {}
    for value in {prior.value, prior.low, prior.high, *prior.possible_values}:
        likely = _wrong_rate(decision, prepared, recall, counted.unlabeled, value)
        wrong_at[value] = likely.times(more)
    wrong = wrong_at[prior.value]
    halves = [(wrong_at[k].lower_half, wrong_at[k].upper_half) for k in prior.possible_values]
    recall = min(recall * more, 1.0)

    return DecisionRates(
        recall=recall,
        recall_limits=exact_limits(recall, tails.n_positive, _TAIL),
        wrong=wrong.value,
        wrong_limits=(wrong.low, wrong.high),
        wrong_at_priors=(wrong_at[prior.low].value, wrong_at[prior.high].value),
        wrong_halves=tuple(halves),
        wrong_slope=-wrong.slope * _odds(prior.value),
        parts=prepared.rates_at(counted.cells),
        models=decision.models,
    )


def _odds(prior: float) -> float:
    return prior / (1 - prior) if prior < 1 else 0.0


def _wrong_rate(
    decision: Decision, prepared: PreparedCounts, recall: float, unlabeled: float, prior: float
) -> _LikelyRate:
    """False-positive rate at a training prior, from the share of unlabeled rows that is flagged."""
    tails = decision.reference
    odds = _odds(prior)
    noise_of_recall = odds**2 * _noise(recall, tails.n_positive)
    return _likely_rate(
        raw=unlabeled * (1 + odds) - recall * odds,
        noise=_noise(unlabeled, tails.n) * (1 + odds) ** 2 + noise_of_recall,
        noise_of_recall=noise_of_recall,
        expected=prepared.wrong_at(recall, prior),
        doubt=decision.doubt,
    )


@dataclass(frozen=True, slots=True)
class CountedRates:
    """Shares of positives and unlabeled rows that are flagged, and the first flagged cells."""

    recall: float
    unlabeled: float
    cells: list[int]  # of the decision made by each part of the counts


def _counted_rates(decision: Decision, prepared: PreparedCounts) -> CountedRates:
    """Shares of the counted rows above the score of a decision."""
    tails = decision.reference
    cell = int(np.searchsorted(tails.levels, decision.score)) + 1
    recall = _share_above(tails.positive_counts, cell)
    unlabeled = _share_above(tails.counts, cell)
    counted = CountedRates(recall, unlabeled, [cell])
    if decision.ratio is None or prepared.folds is None:
        return counted
    return prepared.folds.corrected(decision.ratio, counted)


@dataclass(frozen=True, slots=True)
class _LikelyRate:
    """A false-positive rate with its limits, and its slope in the rate by the counts.

    ``lower_half``, ``upper_half``: Means over the lower and the upper half of its distribution.
    """

    value: float
    low: float
    high: float
    lower_half: float
    upper_half: float
    slope: float

    def times(self, factor: float) -> _LikelyRate:
        """The rate of a decision that flags more rows by this factor."""
        return replace(
            self,
            value=min(self.value * factor, 1.0),
            low=min(self.low * factor, 1.0),
            high=min(self.high * factor, 1.0),
            lower_half=min(self.lower_half * factor, 1.0),
            upper_half=min(self.upper_half * factor, 1.0),
        )


def _likely_rate(
    raw: float, noise: float, noise_of_recall: float, expected: float, doubt: float
) -> _LikelyRate:
    """False-positive rate by the counts and the curve together.

    The rate by the counts, ``raw``, is normal with the variance ``noise``, of which
    ``noise_of_recall`` comes from the positives. Beforehand the log of the rate is normal around
    that of the curve,
    ``expected``, with the standard deviation ``doubt``. On that scale no count can move the rate
    to 0, which would make the precision 1.
    """
    spread = math.sqrt(noise)
    centre = math.log(expected)
    grid = np.concatenate((np.exp(centre + doubt * _STEPS), raw + spread * _STEPS))
    grid = np.unique(grid[(grid > 0) & (grid < 1)])
    by_curve = ((np.log(grid) - centre) / doubt) ** 2
    by_counts = ((grid - raw) / spread) ** 2
    log_density = -(by_curve + by_counts) / 2 - np.log(grid)
    weight = np.exp(log_density - log_density.max()) * np.gradient(grid)
    weight /= weight.sum()

    mean = float(weight @ grid)
    variance = float(weight @ (grid - mean) ** 2)
    slope = min(variance / noise, 1.0)
    variance_of_recall = slope**2 * noise_of_recall
    without_recall = math.sqrt(max(1 - variance_of_recall / max(variance, 1e-300), 0.0))
    up_to = np.cumsum(weight)
    ends = np.interp([_TAIL, 1 - _TAIL], up_to - weight / 2, grid)
    in_lower_half = weight - (up_to - 0.5).clip(0, weight)
    lower_half = float(in_lower_half @ grid) * 2
    low, high = (mean + without_recall * (ends - mean)).tolist()
    return _LikelyRate(
        value=mean,
        low=min(low, mean),
        high=max(high, mean),
        lower_half=lower_half,
        upper_half=2 * mean - lower_half,
        slope=slope,
    )


def _share_above(counts: IntArray | FloatArray, cell: int) -> float:
    """Share of the counts in ``cell`` or above it."""
    return float(counts[cell:].sum() / counts.sum())


def _noise(share: float, n: float) -> float:
    """Variance of a share of n rows; not 0 if the share is 0 or 1."""
    cautious = (share * n + 0.5) / (n + 1)
    return cautious * (1 - cautious) / n


# -- counts in folds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldedCounts:
    """Counts in folds, and the ratios calibrated on the other folds.

    ``ratios``: Ratio at each level by the calibration on all folds but one; each line ascends.
    """

    positive: IntArray  # rows of each fold, by cell
    unlabeled: IntArray
    ratios: FloatArray

    @cached_property
    def _above(self) -> tuple[IntArray, FloatArray]:
        """In a cell or above it: rows of each fold, and the share of the rows of all other folds.

        Both have the shape (2, folds, cells + 1): positive and unlabeled rows.
        """
        counts = np.stack([self.positive, self.unlabeled])
        above = np.pad(counts[..., ::-1].cumsum(axis=2)[..., ::-1], ((0, 0), (0, 0), (0, 1)))
        above_in_others = above.sum(axis=1, keepdims=True) - above
        return above, above_in_others / above_in_others[..., :1]

    def corrected(self, ratio: float, counted: CountedRates) -> CountedRates:
        """Rates of the threshold ``ratio`` on the counts that were not used to make it.

        These are the out-of-fold rates, plus what ``counted``, the rates of the threshold that all
        counts make, differ from the in-fold rates.
        """
        cells = []
        for ratios in self.ratios:
            cells.append(int(np.searchsorted(ratios, ratio, side="right")) + 1)
        folds = range(len(cells))
        above, share_in_others = self._above
        out_of_fold = above[:, folds, cells].sum(axis=1) / above[..., 0].sum(axis=1)
        in_fold = share_in_others[:, folds, cells].sum(axis=1) / len(cells)
        of_all_counts = np.array([counted.recall, counted.unlabeled])
        recall, unlabeled = out_of_fold + of_all_counts - in_fold
        return CountedRates(
            recall=float(min(1.0, max(0.0, recall))),
            unlabeled=float(min(1.0, max(0.0, unlabeled))),
            cells=cells,
        )


def fold_counts(
    tails: ScoreTails, prior: float, labelled_share: float, offsets: Sequence[float] = (0.0,)
) -> FoldedCounts:
    """Divide the counts at random into folds of equal size, and calibrate on all but each of them.

    The ratio at a level is the mean over ``offsets`` that are added to it, as for labels.
    """
    divided = _divided(tails)
    moved_levels = tails.levels + np.array(offsets)[:, None]
    ratios = []
    for others in divided.others:
        calibration = calibrate(others, prior, labelled_share=labelled_share)
        moved_ratios = calibration.ratios(moved_levels.ravel()).reshape(moved_levels.shape)
        ratios.append(moved_ratios.mean(axis=0))
    ascending = np.maximum.accumulate(np.array(ratios), axis=1)
    return FoldedCounts(divided.positive, divided.unlabeled, ascending)


@dataclass(frozen=True, slots=True)
class _Divided:
    """Counts in folds, and tails with the counts of all folds but each of them."""

    positive: IntArray
    unlabeled: IntArray
    others: tuple[ScoreTails, ...]


@remembered
def _divided(tails: ScoreTails) -> _Divided:
    """The counts of ``tails``, divided at random into folds of equal size."""
    rng = np.random.default_rng(_SEED)
    positive = _whole_counts(tails.positive_counts, tails.n_positive)
    unlabeled = _whole_counts(tails.counts, tails.n)
    folds = int(min(_FOLDS, positive.sum(), unlabeled.sum()))
    positive_folds: list[IntArray] = []
    unlabeled_folds: list[IntArray] = []
    others = []
    for folds_left in range(folds, 0, -1):
        positive_fold = _drawn_fold(positive - sum(positive_folds), folds_left, rng)
        unlabeled_fold = _drawn_fold(unlabeled - sum(unlabeled_folds), folds_left, rng)
        positive_folds.append(positive_fold)
        unlabeled_folds.append(unlabeled_fold)
        part = tails.with_positives(positive - positive_fold)
        others.append(part.add_counts(unlabeled - unlabeled_fold))
    return _Divided(np.array(positive_folds), np.array(unlabeled_folds), tuple(others))


def _drawn_fold(counts: IntArray, folds_left: int, rng: np.random.Generator) -> IntArray:
    """Counts of rows drawn at random, as many as each of the folds that are left must have."""
    if folds_left == 1:
        return counts
    size = int(counts.sum()) // folds_left
    return rng.multivariate_hypergeometric(counts, size, method="marginals")


def _whole_counts(counts: IntArray | FloatArray, n: float) -> IntArray:
    """Counts as integers whose sum is the rounded effective size."""
    if counts.dtype == np.int64 and counts.sum() <= _MOST_DIVIDED:
        return np.asarray(counts, dtype=np.int64)
    total = min(max(2, round(n)), _MOST_DIVIDED)
    exact = counts / counts.sum() * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact)[:missing]] += 1
    return np.asarray(whole, dtype=np.int64)


# -- figures -----------------------------------------------------------------------------------


def _figures(points: Sequence[_Point], cost: float) -> FloatArray:
    """The figures of each point, one line for each."""
    prior = np.array([point.prior for point in points])
    recall = np.array([point.recall for point in points])
    wrong = np.array([point.wrong for point in points])
    true_positives = prior * recall
    false_positives = (1 - prior) * wrong
    flagged = true_positives + false_positives
    any_flagged = flagged > 0
    figures = {
        "accuracy": true_positives + (1 - prior) * (1 - wrong),
        "precision": np.where(
            any_flagged, true_positives / np.where(any_flagged, flagged, 1), np.nan
        ),
        "recall": recall,
        "false_positive_rate": wrong,
        "flagged": flagged,
        "cost": (1 - cost) * prior * (1 - recall) + cost * false_positives,
    }
    return np.stack([figures[name] for name in _NAMES], axis=1)


def _batch_noise(point: _Point, cost: float, rows: float) -> FloatArray:
    """Variances of the figures of a batch, in the order of the figures."""
    prior = point.prior
    recall = point.recall
    wrong = point.wrong
    flagged = prior * recall + (1 - prior) * wrong
    missed = prior * (1 - recall)
    false_positives = (1 - prior) * wrong
    accuracy = 1 - missed - false_positives
    precision = prior * recall / flagged if flagged > 0 else 1.0
    loss = (1 - cost) * missed + cost * false_positives
    variances = {
        "accuracy": accuracy * (1 - accuracy),
        "precision": precision * (1 - precision) / max(flagged, 1 / rows),
        "recall": recall * (1 - recall) / max(prior, 1 / rows),
        "false_positive_rate": wrong * (1 - wrong) / max(1 - prior, 1 / rows),
        "flagged": flagged * (1 - flagged),
        "cost": (1 - cost) ** 2 * missed + cost**2 * false_positives - loss**2,
    }
    return np.array([max(variances[name], 0.0) / rows for name in _NAMES])
