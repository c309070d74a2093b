r"""Columns that changed more than a change of the prior explains.

For each column a few ranges of values are fixed in training, with the shares :math:`b` of the
positives and :math:`a` of the unlabeled rows in them. If only the prior has changed, the shares of
new rows are :math:`(1-\lambda) b + \lambda a` with :math:`\lambda = (1-\pi')/(1-\pi)`, the same
for every column. A column whose shares do not fit the common :math:`\lambda` has changed in
another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from drpu._typing import FloatArray, IntArray
from drpu.exceptions import DataError
from drpu.periods.mixture_test import MixtureFit
from drpu.priors.estimate import PriorEstimate
from drpu.tables.cells import ColumnProfile

OTHER_SHIFT = 0.001  # below this p-value more than the prior is assumed to have changed
_FEWEST = 8  # minimum number of rows of a range in the unlabeled and in the new sample
_MOST_VOTE = 25.0  # the chi-square of one column against a lambda is capped at this value
_PRIOR_VOTE = 30.0  # the same for a lambda outside the limits of the priors
_TOLERANCE = 8.0  # a lambda is possible if its votes exceed the smallest sum by at most this
_LEAST_MISFIT = 0.01  # share of changed rows: with many rows every difference is significant
_MOST_GROWTH = 40.0  # largest lambda that is tried


@dataclass(frozen=True, slots=True)
class ColumnShift:
    """Test of one column.

    ``p_value``: Probability of a difference at least as large if only the prior had changed, times
    the number of columns (Bonferroni), at most 1.
    ``misfit``: Share of the new rows that would have to change for the column to fit, minus the
    share expected from noise alone; in [0, 1].
    """

    name: str
    p_value: float
    misfit: float


def column_shifts(
    profiles: Sequence[ColumnProfile],
    counts: IntArray,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
) -> list[ColumnShift]:
    r"""Tests of all columns of new rows, the largest misfit first.

    All columns must share one :math:`\lambda`. It is estimated by minimising a sum over the
    columns of their chi-square as a function of :math:`\lambda`, with a penalty for values outside
    the limits of the two priors. Each term is capped, so that a column that changed, or a badly
    estimated prior, has limited influence. Every column is then tested at the best of the values
    whose sum is close to the minimum.
    """
    ends = np.cumsum([profile.cells.n for profile in profiles])
    if counts.shape != (ends[-1],):
        raise DataError(
            f"counts must have the {ends[-1]} ranges of the profiles, got {counts.shape}."
        )
    counts_by_column = np.split(np.asarray(counts, dtype=np.float64), ends[:-1])
    fits: list[_ColumnFit | None] = []
    for profile, new_counts in zip(profiles, counts_by_column, strict=True):
        fits.append(_column_fit(profile, new_counts))
    growth = _common_growth([fit for fit in fits if fit is not None], train_prior, test_prior)

    shifts = []
    for profile, fit in zip(profiles, fits, strict=True):
        if fit is None:
            shifts.append(ColumnShift(profile.name, p_value=1.0, misfit=0.0))
        else:
            p_value = min(1.0, fit.p_value(growth) * len(profiles))
            shifts.append(ColumnShift(profile.name, p_value, fit.misfit(growth)))
    shifts.sort(key=lambda shift: -shift.misfit)
    return shifts


def moved_columns(
    profiles: Sequence[ColumnProfile],
    counts: IntArray | None,
    train_prior: PriorEstimate,
    test_prior: PriorEstimate,
) -> tuple[ColumnShift, ...]:
    """Columns that changed more than a new prior explains, the largest change first.

    Empty if the columns of the new rows were not counted, for example because rows have weights.
    """
    if counts is None or len(counts) != sum(profile.cells.n for profile in profiles):
        return ()
    moved: dict[str, ColumnShift] = {}
    for shift in column_shifts(profiles, counts, train_prior, test_prior):
        if shift.p_value < OTHER_SHIFT and shift.misfit > _LEAST_MISFIT:
            moved.setdefault(shift.name, shift)  # a category has several indicators
    return tuple(moved.values())


@dataclass(frozen=True, slots=True)
class _ColumnFit:
    """The mixtures of one column over the tested cells, with the training shares of rows in them.

    Among the rows in these cells, a mixture with weight lambda has another weight if the shares
    differ.
    """

    mixture: MixtureFit
    tested_unlabeled: float  # share of the unlabeled training rows in the tested cells
    tested_positive: float

    def weight(self, growth: FloatArray) -> FloatArray:
        """The weight of the unlabeled rows among the tested cells."""
        unlabeled = growth * self.tested_unlabeled
        positive = (1 - growth) * self.tested_positive
        return np.clip(unlabeled / np.maximum(positive + unlabeled, 1e-6), 0.0, _MOST_GROWTH)

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square of the column for each lambda."""
        return self.mixture.statistic(self.weight(growth))

    def p_value(self, growth: FloatArray) -> float:
        """Probability of a chi-square above the smallest over the possible values of lambda."""
        degrees_of_freedom = len(self.mixture.new) - 1
        return float(chdtrc(degrees_of_freedom, float(self.statistic(growth).min())))

    def misfit(self, growth: FloatArray) -> float:
        """Share of the rows that would have to change at the best lambda, less the noise."""
        best = int(np.argmin(self.statistic(growth)))
        return self.mixture.misfit(float(self.weight(growth[[best]])[0]))


def _column_fit(profile: ColumnProfile, new_counts: FloatArray) -> _ColumnFit | None:
    """The mixtures of one column, if it has enough ranges to be tested."""
    tested = profile.cells.tested
    new = new_counts[tested]
    unlabeled = profile.unlabeled[tested]
    positive = profile.positive[tested]
    start = _pooled_cells(unlabeled, new)
    if len(start) < 2 or not positive.any():
        return None
    mixture = MixtureFit(
        new=np.add.reduceat(new, start) / new.sum(),
        unlabeled=np.add.reduceat(unlabeled, start) / unlabeled.sum(),
        positive=np.add.reduceat(positive, start) / positive.sum(),
        n_new=float(new.sum()),
        n_unlabeled=float(unlabeled.sum()),
        n_positive=float(positive.sum()),
    )
    return _ColumnFit(
        mixture,
        tested_unlabeled=float(unlabeled.sum() / profile.unlabeled.sum()),
        tested_positive=float(positive.sum() / profile.positive.sum()),
    )


def _common_growth(
    fits: Sequence[_ColumnFit], train_prior: PriorEstimate, test_prior: PriorEstimate
) -> FloatArray:
    """Values of lambda that agree with most columns and with the priors."""
    low = (1 - test_prior.high) / max(1 - train_prior.low, 1e-12)
    high = (1 - test_prior.low) / max(1 - train_prior.high, 1e-12)
    low, high = np.clip([low, high], 0.0, _MOST_GROWTH)
    grid = np.unique(
        np.concatenate((np.linspace(0, 2, 41), np.geomspace(2.2, _MOST_GROWTH, 12), [low, high]))
    )
    votes_against = np.where((grid >= low) & (grid <= high), 0.0, _PRIOR_VOTE)
    for fit in fits:
        statistic = fit.statistic(grid)
        votes_against = votes_against + np.minimum(statistic - statistic.min(), _MOST_VOTE)
    possible = grid[votes_against <= votes_against.min() + _TOLERANCE]
    between = np.linspace(possible[0], possible[-1], 9)
    return np.unique(np.concatenate((possible, between)))


def _pooled_cells(unlabeled: FloatArray, new: FloatArray) -> IntArray:
    """First cell of each range with enough rows of both samples.

    Small cells are merged with a neighbour.
    """
    start = [0]
    rows = np.zeros(2)
    for k, cell_rows in enumerate(zip(unlabeled, new, strict=True)):
        if (rows >= _FEWEST).all():
            start.append(k)
            rows = np.zeros(2)
        rows = rows + cell_rows
    last_is_small = (rows < _FEWEST).any() and rows.max() < 4 * _FEWEST
    if len(start) > 1 and last_is_small:
        start.pop()
    return np.array(start)
