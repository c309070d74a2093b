"""Rows that choose among fits and train none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drpu._typing import FloatArray, IntArray, Rows
from drpu.models._rows import n_rows, stack_rows, take_rows

__all__ = ["MIN_HELD", "SamplePair", "Split", "carve", "total_weight"]

MIN_HELD = 5  # rows of each kind below which a holdout risk is a coin toss


@dataclass(frozen=True, slots=True)
class SamplePair:
    """Positive and unlabeled rows with their weights."""

    positive: Rows
    unlabeled: Rows
    positive_weight: FloatArray | None = None
    unlabeled_weight: FloatArray | None = None

    def stacked(self) -> Rows:
        """Positive above unlabeled rows."""
        return stack_rows(self.positive, self.unlabeled)

    def flags(self) -> FloatArray:
        """1 for the positive and 0 for the unlabeled rows, in the order of ``stacked``."""
        return np.repeat([1.0, 0.0], [n_rows(self.positive), n_rows(self.unlabeled)])

    def weights(self) -> FloatArray | None:
        """Weights in the order of ``stacked``, or None where neither sample has any."""
        if self.positive_weight is None and self.unlabeled_weight is None:
            return None
        pairs = ((self.positive_weight, self.positive), (self.unlabeled_weight, self.unlabeled))
        return np.concatenate([np.ones(n_rows(rows)) if w is None else w for w, rows in pairs])

    def unit_weights(self) -> FloatArray | None:
        """Weights of mean 1, for trees: their least leaf counts rows, in whatever unit weights come."""
        weight = self.weights()
        return None if weight is None else np.asarray(weight / weight.mean())

    def log_odds(self) -> float:
        """Log of the positive over the unlabeled weight: what odds have to lose to be ratios."""
        odds = total_weight(self.positive_weight, self.positive)
        return float(np.log(odds / total_weight(self.unlabeled_weight, self.unlabeled)))


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to train on and, where there are enough of them, rows to choose by."""

    train: SamplePair
    held: SamplePair | None


def carve(
    sample: SamplePair, holdout: tuple[Rows, Rows] | None, share: float, rng: np.random.Generator
) -> Split:
    """The sample and the holdout rows given, or ``share`` of the sample as holdout rows.

    A share that leaves fewer than :data:`MIN_HELD` rows of either kind holds nothing
    out: the caller then has to do without a choice.
    """
    if holdout is not None:
        return Split(sample, SamplePair(*holdout))
    held_p, rest_p = _shuffled(n_rows(sample.positive), share, rng)
    held_u, rest_u = _shuffled(n_rows(sample.unlabeled), share, rng)
    if min(held_p.size, held_u.size) < MIN_HELD:
        return Split(sample, None)
    train, held = _pick(sample, rest_p, rest_u), _pick(sample, held_p, held_u)
    if min(_least_weight(train), _least_weight(held)) <= 0:
        return Split(sample, None)
    return Split(train, held)


def total_weight(weight: FloatArray | None, rows: Rows) -> float:
    """Number of rows, or the sum of their weights."""
    return float(n_rows(rows)) if weight is None else float(weight.sum())


def _shuffled(n: int, share: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    order = rng.permutation(n)
    kept = round(share * n)
    return np.sort(order[:kept]), np.sort(order[kept:])


def _pick(sample: SamplePair, positive: IntArray, unlabeled: IntArray) -> SamplePair:
    w_p, w_u = sample.positive_weight, sample.unlabeled_weight
    return SamplePair(
        take_rows(sample.positive, positive),
        take_rows(sample.unlabeled, unlabeled),
        None if w_p is None else w_p[positive],
        None if w_u is None else w_u[unlabeled],
    )


def _least_weight(sample: SamplePair) -> float:
    return min(
        total_weight(sample.positive_weight, sample.positive),
        total_weight(sample.unlabeled_weight, sample.unlabeled),
    )
