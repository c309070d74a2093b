"""Accuracy, precision, recall and cost from true labels of audited rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.core.audit_limits import Figure, both_tails, stratified_share
from drpu.core.diagnostics import Performance

__all__ = ["Answers", "Evaluation", "evaluate_answers", "more_precise"]


@dataclass(frozen=True, slots=True)
class Answers:
    """True labels of rows that were drawn at random within strata.

    Attributes
    ----------
    positive : ndarray of shape (n,)
        The true labels.
    stratum : ndarray of shape (n,)
        Stratum of each row.
    rows : ndarray of shape (H,)
        Number of rows in each stratum of the sample that was audited.
    """

    positive: BoolArray
    stratum: IntArray
    rows: FloatArray | IntArray

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
        names = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost", "prior")
        lines = [f"{name.replace('_', ' '):20s} {getattr(self, name)}" for name in names]
        return "\n".join([f"{self.n} rows with true labels, intervals at {self.level:.0%}", *lines])


def evaluate_answers(answers: Answers, flagged: BoolArray, *, cost: float, level: float) -> Evaluation:
    """Performance of the predictions ``flagged`` on the answered rows, for their population.

    Parameters
    ----------
    answers : Answers
        True labels and the design they were collected with.
    flagged : ndarray of shape (n,)
        Whether each answered row is classified as positive.
    cost : float
        False-positive cost in (0, 1).
    level : float
        Confidence level of each interval.

    Notes
    -----
    Shares of the population have the limits of
    :func:`drpu.core.audit_limits.stratified_share`. Ratios and sums of two such shares combine
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


def more_precise(
    expected: Performance, low: Performance, high: Performance, measured: Evaluation | None
) -> tuple[Performance, Performance, Performance]:
    """Expected performance and its range, with measured figures if their limits are narrower."""
    if measured is None:
        return expected, low, high
    names = ("accuracy", "precision", "recall", "false_positive_rate", "cost")
    better = {
        name: figure
        for name, figure in ((name, getattr(measured, name)) for name in names)
        if figure.high - figure.low < getattr(high, name) - getattr(low, name)
    }
    return (
        replace(expected, **{name: figure.value for name, figure in better.items()}),
        replace(low, **{name: figure.low for name, figure in better.items()}),
        replace(high, **{name: figure.high for name, figure in better.items()}),
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
