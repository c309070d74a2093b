"""Counts in folds: the threshold of each fold is made by the other folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drpu._typing import FloatArray, IntArray
from drpu.core.calibration import calibrate
from drpu.core.tails import ScoreTails

__all__ = ["FoldedCounts", "Judged", "fold_counts"]

_FOLDS = 5
_SEED = 0  # a fixed seed of the folds, so that figures are reproducible


@dataclass(frozen=True, slots=True)
class Judged:
    """Shares flagged out of fold and in fold, and the first flagged cell of each fold."""

    recall: tuple[float, float]
    unlabeled: tuple[float, float]
    cells: list[int]


@dataclass(frozen=True, slots=True)
class FoldedCounts:
    """Counts in folds, and the ratios calibrated on the other folds.

    Attributes
    ----------
    positive, unlabeled : ndarray of shape (folds, cells)
        Rows of each fold, by cell.
    ratios : ndarray of shape (folds, levels)
        Ratio at each level by the calibration on all folds but one; each line ascends.
    """

    positive: IntArray
    unlabeled: IntArray
    ratios: FloatArray

    def judged(self, ratio: float) -> Judged:
        """Rates of the threshold ``ratio`` on the part of the counts that was not used to make it."""
        positive, unlabeled = self.positive.sum(axis=0), self.unlabeled.sum(axis=0)
        outside, inside, cells = np.zeros(2), np.zeros(2), []
        for p, u, ratios in zip(self.positive, self.unlabeled, self.ratios, strict=True):
            cell = int(np.searchsorted(ratios, ratio, side="right")) + 1
            outside += p[cell:].sum(), u[cell:].sum()
            inside += _above(positive - p, cell), _above(unlabeled - u, cell)
            cells.append(cell)
        outside /= positive.sum(), unlabeled.sum()
        inside /= len(cells)
        recall, flagged = zip(outside.tolist(), inside.tolist(), strict=True)
        return Judged(recall, flagged, cells)


def fold_counts(tails: ScoreTails, prior: float, labelled_share: float) -> FoldedCounts:
    """Divide the counts at random into folds of equal size, and calibrate on all but each of them."""
    rng = np.random.default_rng(_SEED)
    positive, unlabeled = _whole(tails.positive_counts, tails.n_positive), _whole(tails.counts, tails.n)
    folds = int(min(_FOLDS, positive.sum(), unlabeled.sum()))
    dealt = list(zip(_parts(positive, folds, rng), _parts(unlabeled, folds, rng), strict=True))
    ratios = [
        calibrate(_counted(tails, positive - p, unlabeled - u), prior, labelled_share=labelled_share)(
            tails.levels
        )
        for p, u in dealt
    ]
    return FoldedCounts(
        np.array([p for p, _ in dealt]),
        np.array([u for _, u in dealt]),
        np.maximum.accumulate(np.array(ratios), axis=1),
    )


def _above(counts: IntArray, cell: int) -> float:
    """Share of the counts in ``cell`` or above it."""
    return float(counts[cell:].sum() / counts.sum())


def _whole(counts: IntArray | FloatArray, n: float) -> IntArray:
    """Counts as integers whose sum is the rounded effective size."""
    if counts.dtype == np.int64:
        return np.asarray(counts, dtype=np.int64)
    share = counts / counts.sum() * max(2, round(n))
    whole = np.floor(share).astype(np.int64)
    missing = max(2, round(n)) - int(whole.sum())
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
