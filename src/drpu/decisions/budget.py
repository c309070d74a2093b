r"""A budget of rows to check: its expected results, its threshold, and the point at it.

If the share :math:`f` of the rows with the highest scores is checked, a share :math:`b` of the
held-out positives has scores as high. With the prior :math:`\pi'` of the rows, recall is
:math:`b`, precision :math:`\pi' b / f` and lift :math:`b / f`.
"""

# ruff: noqa: D102  (the docstrings of overridden methods are those of OperatingPoint)

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated, Any

import numpy as np

from drpu._arrays import FloatArray, IntArray
from drpu._checks import check_fraction, check_integer, check_real
from drpu._codec import Kept, NotKept, Number, kept
from drpu._results import TableColumns, TableResult, figure_columns
from drpu.decisions.performance import Decision, Performance
from drpu.decisions.point import CostPoint, OperatingPoint, decision_at
from drpu.exceptions import ParameterError
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure, exact_limits, exact_limits_of
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, level_log_ratios
from drpu.state.reference import LogOddsMap, Reference
from drpu.state.rows import Batch

Unbounded = Annotated[float, Number(-math.inf, math.inf)]
Gap = tuple[float, float]


# -- expected results --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Budget(TableResult):
    """Expected results of checking the best-scored rows.

    Attributes
    ----------
    n : int or None
        Number of rows that can be checked; None if only a share was given.
    share : float
        The same as a share of all rows.
    threshold : float
        Ratio above which rows are checked.
    precision, recall, lift : Figure
        Share of those rows that are positive, share of the positives that are among them, and the
        number of positives relative to that among as many random rows.
    rows : ndarray of int or None
        Positions of those rows, the best first; None if no rows were given. They are exactly
        ``n`` rows: of rows with equal probabilities those with higher scores come first, and of
        rows with equal scores those that come first in the table.
    flagged : int or None
        Number of rows that ``predict`` flags; None if no rows were given. It treats each row alone,
        so it flags all rows with the score of the last one, also if they are more than ``n``.
    tied : int or None
        Number of rows with the score of the last one, 1 if it is the only one.
    """

    n: int | None
    share: float
    threshold: float
    precision: Figure
    recall: Figure
    lift: Figure
    rows: IntArray | None = None
    flagged: int | None = None
    tied: int | None = None

    def to_columns(self) -> TableColumns:
        """One row for each of precision, recall and lift, with limits."""
        figures = figure_columns([self.precision, self.recall, self.lift])
        return {"figure": ["precision", "recall", "lift"], **figures}

    def _shown_columns(self) -> TableColumns:
        columns = self.to_columns()
        for row, expected_share in enumerate([self.precision, self.recall]):  # lift is no share
            if expected_share.is_wide:
                columns["value"][row] = None
        return columns

    def _title(self) -> str:
        title = f"{self._depth()}, those with ratios above {self.threshold:.3g}"
        return f"{title}; {self.tie_text()}" if self.tie_text() else title

    def _depth(self) -> str:
        share = f"{self.share:.2%}"
        if self.n is None:
            return f"{share} of the rows"
        return f"{self.n:,} rows ({share})"

    def tie_text(self) -> str:
        """How many rows share the last score, if predict flags more rows than can be checked."""
        if self.n is None or self.flagged is None or self.flagged == self.n:
            return ""
        return f"{self.tied:,} rows share the last score, so predict flags {self.flagged:,} rows"

    def __str__(self) -> str:
        parts = [
            f"precision {self.precision.as_expected()}",
            f"recall {self.recall.as_expected()}",
            f"lift {self.lift.value:.1f}",
        ]
        if self.tie_text():
            parts.append(self.tie_text())
        return f"{self._depth()}: {', '.join(parts)}"


def budget_outlook(
    recall: Figure,
    prior: PriorEstimate,
    share: float,
    threshold: float,
    *,
    n: int | None = None,
) -> Budget:
    """The budget at a depth of the ranking, ``share``.

    Recall cannot exceed its value at a precision of 1. The limits of precision are computed at the
    corners of the limits of recall and of the interval of the prior.
    """
    value = _possible_recall(recall.value, prior.value, share)
    low = _possible_recall(recall.low, prior.high, share)
    high = _possible_recall(recall.high, prior.low, share)
    precision = Figure(
        value=min(1.0, prior.value * value / share),
        low=min(1.0, prior.low * low / share),
        high=min(1.0, prior.high * high / share),
    )
    most_lift = 1 / max(share, prior.low, 1e-12)
    return Budget(
        n=n,
        share=share,
        threshold=threshold,
        precision=precision,
        recall=Figure(value, low, high),
        lift=Figure(value / share, low / share, min(high / share, most_lift)),
    )


def _possible_recall(recall: float, prior: float, share: float) -> float:
    """Recall such that the positives among the checked rows are not more than these rows."""
    if prior == 0:
        return recall
    return min(recall, share / prior)


def counted_recall(recall: float, n_positive: float, level: float) -> Figure:
    """A recall with the exact limits of a share counted in ``n_positive`` trials."""
    low, high = exact_limits(recall, n_positive, (1 - level) / 2)
    return Figure(recall, low, high)


@dataclass(frozen=True, slots=True)
class Gain:
    """Share of the positives found by the share of rows checked, from none to all."""

    share: FloatArray  # share of the rows that is checked, ascending
    recall: FloatArray  # share of the positives among them, with limits point by point
    low: FloatArray
    high: FloatArray
    prior: float  # prior of the rows: a perfect ranking finds all positives at this share
    mapped: bool = False  # whether it follows the map of answers

    def outlook(
        self,
        share: float,
        n_positive: float,
        prior: PriorEstimate,
        threshold: float,
        *,
        n: int | None = None,
    ) -> Budget:
        """The budget if a share of the rows is checked.

        Limits of recall are those of the map, or of a share counted in ``n_positive`` trials.
        """
        recall = float(np.interp(share, self.share, self.recall))
        if self.mapped:
            low = float(np.interp(share, self.share, self.low))
            high = float(np.interp(share, self.share, self.high))
            figure = Figure(recall, low, high)
        else:
            figure = counted_recall(recall, n_positive, prior.level)
        return budget_outlook(figure, prior, share, threshold, n=n)

    @property
    def lift(self) -> FloatArray:
        """Positives found, divided by the positives expected among as many random rows."""
        at_no_row = np.ones_like(self.recall)
        return np.divide(self.recall, self.share, out=at_no_row, where=self.share > 0)


def negative_survival(reference: ScoreTails, train_prior: float) -> FloatArray:
    """Share of the negatives at each level or above it, from unlabeled rows of this prior."""
    a = reference.survival
    if train_prior == 1:
        return a
    b = reference.positive_survival
    return np.clip((a - train_prior * b) / (1 - train_prior), 0, 1)


def gain_curve(
    reference: ScoreTails,
    train_prior: float,
    prior: PriorEstimate,
    *,
    new: ScoreTails | None = None,
    curves: Sequence[tuple[FloatArray, FloatArray]] = (),
) -> Gain:
    """Gain at every threshold that makes a difference, from no row to all.

    ``curves`` are those of the map of answers: shares of positives and negatives above cells.
    """
    if curves:
        positive, negative = curves[0]
        recall = positive[::-1]
        wrong = negative[::-1]
        recalls = np.array([positive[::-1] for positive, _ in curves])
        low = recalls.min(axis=0)
        high = recalls.max(axis=0)
    else:
        recall = _none_to_all(reference.positive_survival)
        wrong = _none_to_all(negative_survival(reference, train_prior))
        low, high = exact_limits_of(recall, reference.n_positive, (1 - prior.level) / 2)
    if new is None:
        share = prior.value * recall + (1 - prior.value) * wrong
    else:
        share = _none_to_all(new.survival)
    share = np.maximum.accumulate(share)
    return Gain(share, recall, low, high, prior.value, mapped=len(curves) > 0)


def _none_to_all(survival: FloatArray) -> FloatArray:
    """Shares at and above the levels, ascending, from 0 to 1."""
    return np.concatenate(([1.0], survival, [0.0]))[::-1]


# -- thresholds --------------------------------------------------------------------------------


@kept("budget")
@dataclass(frozen=True)
class BudgetThreshold(Kept):
    """The threshold that corresponds to a budget.

    ``score``: Held-out positive score at the same depth of the counts. It is a separate value
    because a row is labelled by the mean of the fold models, whereas the counts are of the scores
    of single models.
    ``gap``, ``score_gap``: The values below and above the two thresholds, between which they may
    be moved; None if not known.
    """

    log_ratio: Unbounded  # log of the ratio above which rows are checked
    score: Unbounded
    outlook: Annotated[Budget | None, NotKept] = None  # expected figures; None after loading
    gap: Annotated[Gap | None, NotKept] = None
    score_gap: Annotated[Gap | None, NotKept] = None

    def for_file(self) -> BudgetThreshold:
        """The threshold with few digits.

        The exact values are those of single rows, or lie in the middle between two. The rows that
        the budget was made for keep their labels, and the counts stay as they are; only other rows
        that lie within the rounding, at most 0.00005, may change sides.
        """
        log_ratio = self.log_ratio
        if self.gap is not None:
            log_ratio = _shortest(*self.gap)
        score = self.score
        if self.score_gap is not None:
            score = _shortest(*self.score_gap)
        return BudgetThreshold(log_ratio, score)


def _shortest(low: float, high: float) -> float:
    """The middle between two numbers with the fewest digits, at least four, between them."""
    middle = low + (high - low) / 2
    for digits in range(4, 17):
        rounded = round(middle, digits)
        if low < rounded < high:
            return rounded
    return middle


@kept("at-budget")
@dataclass(frozen=True)
class AtBudget(OperatingPoint):
    """Any other point, whose threshold is replaced by that of a budget."""

    point: CostPoint
    budget: BudgetThreshold

    @property
    def prior(self) -> PriorEstimate:  # type: ignore[override]
        return self.point.prior

    @property
    def cost(self) -> float:  # type: ignore[override]
        return self.point.cost

    @property
    def train_prior(self) -> float:  # type: ignore[override]
        return self.point.train_prior

    @property
    def map(self) -> LogOddsMap | None:  # type: ignore[override]
        return self.point.map

    @property
    def threshold(self) -> float:
        return float(np.exp(self.budget.log_ratio))

    @property
    def log_threshold(self) -> float:
        return self.budget.log_ratio

    @property
    def uses_prior(self) -> bool:
        return False

    @property
    def label_noise(self) -> float | None:
        return self.point.label_noise

    def probability(self, ratio: FloatArray) -> FloatArray:
        return self.point.probability(ratio)

    def decision(self, fitted: FittedRatio, rows: float | None) -> Decision:
        return decision_at(fitted, self.budget.score, None, rows)

    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Performance:
        return self.point.expected_of(decision, fitted, reference)

    def at_cost(self, cost: float) -> CostPoint:
        return self.point.at_cost(cost)

    def at_limits(self, reference: Reference) -> tuple[OperatingPoint, OperatingPoint]:
        return self, self

    def for_page(self, reference: Reference) -> dict[str, Any]:
        return self.point.for_page(reference)


def budget_depth(budget: float, most: int | None = None) -> dict[str, Any]:
    """Keywords of ``at_budget``: the share if it is a float up to 1, otherwise ``most`` rows."""
    if isinstance(budget, float) and budget <= 1:
        return {"share": budget}
    rows = check_integer("budget", budget, low=1)
    return {"rows": rows if most is None else min(rows, most)}


def check_budget(rows: Any, of: Any, share: Any) -> None:
    """Raise unless the arguments of ``at_budget`` fit together."""
    if (rows is None) == (share is None):
        raise ParameterError(
            "give rows (a number of rows, with of=X) or share (of all rows), and not both: "
            f"got rows={rows!r} and share={share!r}."
        )
    if of is None and rows is not None:
        raise ParameterError(
            "rows needs of: the rows to choose from, their counts, or their number."
        )
    if isinstance(of, (bool, str, bytes)) or (np.isscalar(of) and not isinstance(of, Integral)):
        raise ParameterError(f"of must be rows, their counts or their number, got {of!r:.80}.")


@dataclass(frozen=True, slots=True)
class _Depth:
    """How many rows are checked; their number is None if only a share was given."""

    rows: int | None
    share: float

    @classmethod
    def of(cls, rows: Any, share: Any, total: Any) -> _Depth:
        """The depth of a budget among ``total`` rows, if their number is known."""
        if share is None:
            return cls._of_rows(rows, total)
        depth = check_real("share", share, low=0.0, high=1.0)
        if depth == 0:
            raise ParameterError("share must be above 0, got 0: no row would be checked.")
        if total is None:
            return cls(None, depth)
        return cls(max(1, int(depth * check_integer("of", total, low=1))), depth)

    @classmethod
    def _of_rows(cls, rows: Any, total: Any) -> _Depth:
        wanted = check_integer("rows", rows, low=1)
        n = check_integer("of", total, low=1)
        if wanted > n:
            rule = f"must not exceed the number of all rows, got {wanted} of {n}."
            raise ParameterError(f"rows {rule}", command=f"--budget {rule}")
        return cls(wanted, wanted / n)


def budget_threshold(
    fitted: FittedRatio,
    reference: Reference,
    point: OperatingPoint,
    of: Batch | ScoreTails | int | None,
    *,
    rows: Any = None,
    share: Any = None,
) -> BudgetThreshold:
    """The threshold of a budget and the expected results; arguments as in ``at_budget``."""
    if isinstance(of, Batch):
        gain = point.gain(fitted, reference, of.counts)
        depth = _Depth.of(rows, share, len(of))
        chosen = _chosen_rows(fitted, of, depth)
        return _threshold(fitted, gain, point.prior, depth, chosen)
    if isinstance(of, ScoreTails):
        gain = point.gain(fitted, reference, of)
        return _threshold(fitted, gain, point.prior, _Depth.of(rows, share, int(of.n)))
    gain = point.gain(fitted, reference)
    return _threshold(fitted, gain, point.prior, _Depth.of(rows, share, of))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The rows of a budget, and the rows that a threshold can flag."""

    rows: IntArray  # exactly as many as can be checked, the best first
    flagged: int  # as many, or more if the last of them has the same score as rows after it
    tied: int  # rows with the score of the last one
    gap: Gap  # log-ratios of the first row that is not flagged and of the last that is

    @property
    def threshold(self) -> float:
        """The log-ratio above which rows are flagged, in the middle of the gap."""
        below, last = self.gap
        middle = last - (last - below) / 2
        return middle if middle < last else below


def _chosen_rows(fitted: FittedRatio, batch: Batch, depth: _Depth) -> _Chosen:
    """The rows of the budget; the threshold lies below all rows with the score of the last one."""
    assert depth.rows is not None  # the number of all rows is known
    log_ratio = fitted.log_ratio_of(batch.scores)
    order = fitted.best_first(batch.scores)
    last = float(log_ratio[order[depth.rows - 1]])
    flagged = int((log_ratio >= last).sum())
    following = last - 1.0
    if flagged < len(order):
        following = float(log_ratio[order[flagged]])
    tied = int((log_ratio == last).sum())
    return _Chosen(order[: depth.rows], flagged, tied, (following, last))


def _threshold(
    fitted: FittedRatio,
    gain: Gain,
    prior: PriorEstimate,
    depth: _Depth,
    chosen: _Chosen | None = None,
) -> BudgetThreshold:
    """The threshold below the chosen rows or, without rows, at a level of the counts."""
    level = _first_level(gain, depth.share)
    levels = fitted.tails.levels
    if chosen is not None:
        gap: Gap | None = chosen.gap
        log_ratio = chosen.threshold
    else:
        log_ratios = level_log_ratios(fitted)
        gap = _around(log_ratios, level)
        # above the highest level there are more rows than can be checked: the rows on it are
        # flagged, too, because all of them may have the same score
        log_ratio = float(np.nextafter(log_ratios[-1], -np.inf))
        if gap is not None:
            log_ratio = (gap[0] + gap[1]) / 2
    outlook = gain.outlook(
        depth.share, fitted.tails.n_positive, prior, float(np.exp(log_ratio)), n=depth.rows
    )
    if chosen is not None:
        outlook = replace(outlook, rows=chosen.rows, flagged=chosen.flagged, tied=chosen.tied)
    score = float(levels[min(level, len(levels) - 1)])
    return BudgetThreshold(log_ratio, score, outlook, gap, _around(levels, level))


def _first_level(gain: Gain, depth: float) -> int:
    """The first level above which at most this share of the rows lies; one more than the last."""
    within = np.flatnonzero(gain.share[1:-1][::-1] <= depth)
    return int(within[0]) if within.size else len(gain.share) - 2


def _around(values: FloatArray, level: int) -> tuple[float, float] | None:
    """Values of the level below ``level`` and of this level; None above the highest level."""
    if level == len(values):  # more rows than the budget lie above the highest level
        return None
    below = float(values[level - 1]) if level > 0 else float(values[0]) - 1.0
    return below, float(values[level])


def share_for_recall(gain: Gain, recall: float) -> float:
    """Share of the rows to check so that the expected recall is ``recall``."""
    wanted = check_fraction("recall", recall)
    return float(np.interp(wanted, gain.recall, gain.share))


def share_for_precision(gain: Gain, precision: float) -> float:
    """Largest share of the rows to check with an expected precision of at least ``precision``."""
    wanted = check_fraction("precision", precision)
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.where(gain.share > 0, gain.prior * gain.recall / gain.share, 0.0)
    deep = np.flatnonzero(reached >= wanted)
    if not deep.size:
        raise ParameterError(
            f"precision must be at most {float(reached.max()):.3f} here, got {precision!r}: no "
            "threshold is expected to reach more at this prior."
        )
    return float(gain.share[deep[-1]])
