r"""Columns that changed more than a change of the prior explains.

For each column a few ranges of values are fixed in training, with the shares :math:`b` of the positives
and :math:`a` of the unlabeled rows in them. If only the prior has changed, the shares of new
rows are :math:`(1-\lambda) b + \lambda a` with :math:`\lambda = (1-\pi')/(1-\pi)`, the same for
every column. A column whose shares do not fit the common :math:`\lambda` has changed in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import chdtrc

from drpu._codec import Array, kept
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import DataError
from drpu.periods.mixture_test import MixtureFit
from drpu.priors.estimate import PriorEstimate

RANGES = 12  # ranges of values per column, besides one for missing values
RANGE_SHARES = tuple(k / (RANGES // 2) for k in range(1, RANGES // 2))  # shares of the quantiles
MOST_ROWS = 200_000  # of larger samples every k-th row is used
MOST_COLUMNS = 500  # rows with more columns, such as counts of words, are not profiled
_FEWEST = 8  # minimum number of rows of a range in the unlabeled and in the new sample
MOST_VOTE = 25.0  # the chi-square of one column against a lambda is capped at this value
PRIOR_VOTE = 30.0  # the same for a lambda outside the limits of the priors
TOLERANCE = 8.0  # a lambda is possible if its sum of votes exceeds the smallest sum by at most this
OTHER_SHIFT = 0.001  # below this p-value more than the prior is assumed to have changed
LEAST_MISFIT = 0.01  # smallest share of changed rows: with many rows every difference is significant
RARE = 1  # cell of the rare levels of a category
_MOST_GROWTH = 40.0  # largest lambda that is tried
# A limit between ranges is the mean of so many neighbouring values, so that no row decides it. The mean of an
# odd number of evenly spaced values would be one of them.
NEIGHBOURS = 6


@kept("cells")
@dataclass(frozen=True)
class Cells:
    """The division of the values of a column.

    ``codes``: For a category, the cell of each code instead: 0 for missing values, 1 for rare levels, and
    more for the others. Which levels are rare depends on the training rows, so new rows have more of them
    than training had, and that cell is not tested.
    """

    edges: Annotated[FloatArray, Array("e")]  # between ranges of numbers; one more cell is for missing values
    codes: Annotated[IntArray, Array("k", dtype="int", low=0, high=1000)] | None = None

    def __post_init__(self) -> None:
        if (np.diff(self.edges) <= 0).any():
            raise DataError("the limits between the ranges of a column must ascend.")

    @property
    def n(self) -> int:
        """Number of cells."""
        return len(self.edges) + 2 if self.codes is None else max(int(self.codes.max()), RARE) + 1

    def count(self, values: FloatArray) -> IntArray:
        """Counts of values in the cells."""
        if self.codes is not None:
            codes = np.where(np.isnan(values), 0, values).astype(np.int64)
            known = (codes >= 0) & (codes < len(self.codes))
            found = np.where(known, self.codes[np.where(known, codes, 0)], RARE)
            return np.bincount(found, minlength=self.n).astype(np.int64)
        # a comparison with each of the few limits is several times faster than a search for each value
        below = [np.count_nonzero(values < edge) for edge in self.edges]
        present = len(values) - np.count_nonzero(np.isnan(values))
        return np.diff([0, *below, present, len(values)]).astype(np.int64)

    @property
    def tested(self) -> IntArray:
        """The cells that are compared."""
        return np.delete(np.arange(self.n), [] if self.codes is None else [RARE])


@kept("column-profile")
@dataclass(frozen=True)
class ColumnProfile:
    """Counts of positive and unlabeled training rows in the ranges of one column."""

    name: str  # name of the column, or its position
    cells: Cells  # each limit is the mean of six values, so that it is not the value of a row
    positive: Annotated[FloatArray, Array("c", low=0)]
    unlabeled: Annotated[FloatArray, Array("c", low=0)]

    def __post_init__(self) -> None:
        if len(self.positive) != self.cells.n or not (self.positive.any() and self.unlabeled.any()):
            raise DataError(f"the profile of column {self.name!r:.100} must have counts in its ranges.")


@dataclass(frozen=True, slots=True)
class ColumnShift:
    """Test of one column.

    ``p_value``: Probability of a difference at least as large if only the prior had changed, times the
    number of columns (Bonferroni), at most 1.
    ``misfit``: Share of the new rows that would have to change for the column to fit, minus the share
    expected from noise alone; in [0, 1].
    """

    name: str
    p_value: float
    misfit: float


def profile_columns(
    positive: Any, unlabeled: Any, names: Sequence[str], cells: Sequence[Cells | None] = ()
) -> tuple[ColumnProfile, ...]:
    """Profiles of the columns of two dense samples; none if there are more than 500 columns."""
    if len(names) > MOST_COLUMNS:
        return ()
    P, U = _thinned(positive), _thinned(unlabeled)
    profiles = []
    for k, name in enumerate(names):
        p, u = (np.asarray(rows[:, k], dtype=np.float64) for rows in (P, U))
        own = cells[k] if cells else None
        if own is None:
            own = Cells(range_limits([_quantiles(p), _quantiles(u)]))
        counts = (own.count(sample).astype(np.float64) for sample in (p, u))
        profiles.append(ColumnProfile(str(name), own, *counts))
    return tuple(profiles)


def column_quantiles(rows: Any) -> FloatArray:
    """Quantiles of each column at :data:`RANGE_SHARES`; NaN if there are fewer than six values.

    The shape is (d, 2 * shares): quantiles of all values, then quantiles of the values that are not repeated
    among the first ones. Without the latter, an amount that is usually 0 would have a single range. Each
    quantile is the mean of the six values around it.
    """
    columns = (np.asarray(rows[:, k], dtype=np.float64) for k in range(rows.shape[1]))
    return np.array([_quantiles(values) for values in columns]).reshape(rows.shape[1], -1)


def count_columns(cells: Sequence[Cells], rows: Any) -> IntArray:
    """Counts of dense rows in the cells of each column, all columns in one array."""
    if rows.shape[1] != len(cells):
        raise DataError(f"rows must have the {len(cells)} columns of the profiles, got {rows.shape[1]}.")
    counts = [own.count(np.ascontiguousarray(rows[:, k], dtype=np.float64)) for k, own in enumerate(cells)]
    return np.concatenate(counts) if counts else np.empty(0, dtype=np.int64)


def column_shifts(
    profiles: Sequence[ColumnProfile], counts: IntArray, train_prior: PriorEstimate, test_prior: PriorEstimate
) -> list[ColumnShift]:
    r"""Tests of all columns of new rows, the largest misfit first.

    All columns must share one :math:`\lambda`. It is estimated by minimising a sum over the columns of their
    chi-square as a function of :math:`\lambda`, with a penalty for values outside the limits of the two
    priors. Each term is capped, so that a column that changed, or a badly estimated prior, has limited
    influence. Every column is then tested at the best of the values whose sum is close to the minimum.
    """
    ends = np.cumsum([profile.cells.n for profile in profiles])
    if counts.shape != (ends[-1],):
        raise DataError(f"counts must have the {ends[-1]} ranges of the profiles, got {counts.shape}.")
    new = np.split(np.asarray(counts, dtype=np.float64), ends[:-1])
    fits = [_fit(profile, cells) for profile, cells in zip(profiles, new, strict=True)]
    growth = _common_growth([fit for fit in fits if fit is not None], train_prior, test_prior)
    found = []
    for profile, fit in zip(profiles, fits, strict=True):
        p_value, misfit = (1.0, 0.0) if fit is None else _test(fit, growth)
        found.append(ColumnShift(profile.name, min(1.0, p_value * len(profiles)), misfit))
    return sorted(found, key=lambda shift: -shift.misfit)


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
    found: dict[str, ColumnShift] = {}
    for shift in column_shifts(profiles, counts, train_prior, test_prior):
        if shift.p_value < OTHER_SHIFT and shift.misfit > LEAST_MISFIT:
            found.setdefault(shift.name, shift)  # a category has several indicators
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _ColumnFit:
    """The mixtures of one column over the tested cells, with the training shares of rows in them.

    Among the rows in these cells, a mixture with weight lambda has another weight if the shares differ.
    """

    mixture: MixtureFit
    unlabeled: float
    positive: float

    def weight(self, growth: FloatArray) -> FloatArray:
        """The weight of the unlabeled rows among the tested cells."""
        kept = self.unlabeled * growth
        return np.clip(kept / np.maximum((1 - growth) * self.positive + kept, 1e-6), 0.0, _MOST_GROWTH)

    def statistic(self, growth: FloatArray) -> FloatArray:
        """Chi-square of the column for each lambda."""
        return self.mixture.statistic(self.weight(growth))


def _fit(profile: ColumnProfile, new: FloatArray) -> _ColumnFit | None:
    """The mixtures of one column, if it has enough ranges to be tested."""
    whole = (new, profile.unlabeled, profile.positive)
    samples = [cells[profile.cells.tested] for cells in whole]
    start = _pooled_cells(samples[1], samples[0])
    if len(start) < 2 or not samples[2].any():
        return None
    shares = [np.add.reduceat(cells, start) / cells.sum() for cells in samples]
    n_new, n, n_positive = (float(cells.sum()) for cells in samples)
    kept = [float(part.sum() / cells.sum()) for part, cells in zip(samples, whole, strict=True)]
    mixture = MixtureFit(shares[0], shares[1], shares[2], n_new, n, n_positive)
    return _ColumnFit(mixture, kept[1], kept[2])


def _common_growth(fits: Sequence[_ColumnFit], train: PriorEstimate, test: PriorEstimate) -> FloatArray:
    """Values of lambda that agree with most columns and with the priors."""
    low = (1 - test.high) / max(1 - train.low, 1e-12)
    high = (1 - test.low) / max(1 - train.high, 1e-12)
    ends = np.clip([low, high], 0.0, _MOST_GROWTH)
    grid = np.unique(np.concatenate((np.linspace(0, 2, 41), np.geomspace(2.2, _MOST_GROWTH, 12), ends)))
    against = np.where((grid >= ends[0]) & (grid <= ends[1]), 0.0, PRIOR_VOTE)
    for fit in fits:
        statistic = fit.statistic(grid)
        against = against + np.minimum(statistic - statistic.min(), MOST_VOTE)
    left = grid[against <= against.min() + TOLERANCE]
    return np.unique(np.concatenate((left, np.linspace(left[0], left[-1], 9))))


def _test(column: _ColumnFit, growth: FloatArray) -> tuple[float, float]:
    fit, statistic = column.mixture, column.statistic(growth)
    best = column.weight(growth[[int(np.argmin(statistic))]])
    noise = np.sqrt(2 / np.pi) * np.sqrt(np.diagonal(fit.covariance(best)[0])).sum()
    misfit = (float(np.abs(fit.residual(best)).sum()) - float(noise)) / 2
    p_value = float(chdtrc(len(fit.new) - 1, float(statistic.min())))
    return p_value, min(1.0, max(0.0, misfit))


def _pooled_cells(unlabeled: FloatArray, new: FloatArray) -> IntArray:
    """First cell of each range with enough rows of both samples; small cells are merged with a neighbour."""
    start, mass = [0], np.zeros(2)
    for k, pair in enumerate(zip(unlabeled, new, strict=True)):
        if (mass >= _FEWEST).all():
            start.append(k)
            mass = np.zeros(2)
        mass = mass + pair
    if len(start) > 1 and (mass < _FEWEST).any() and mass.max() < 4 * _FEWEST:
        start.pop()
    return np.array(start)


def range_limits(quantiles: Sequence[FloatArray]) -> FloatArray:
    """Limits between the ranges of a column."""
    edges: FloatArray = np.concatenate(list(quantiles))
    return np.unique(edges[np.isfinite(edges)])


def _quantiles(values: FloatArray) -> FloatArray:
    """Quantiles of the values, and of the values that are not repeated among them."""
    there = values[~np.isnan(values)]
    first = _smooth_quantiles(there, RANGE_SHARES)
    repeated = first[1:][first[1:] == first[:-1]]
    others = there[~np.isin(there, repeated)] if len(repeated) else there[:0]
    return np.concatenate([first, _smooth_quantiles(others, RANGE_SHARES)])


def smooth_medians(rows: Any) -> FloatArray:
    """Means of the six middle values of the columns, so that no row decides; 0 if there are fewer values."""
    middle = [_smooth_quantiles(column[~np.isnan(column)], (0.5,))[0] for column in rows.T]
    return np.nan_to_num(np.array(middle, dtype=np.float64))


def _smooth_quantiles(values: FloatArray, at: Sequence[float]) -> FloatArray:
    """Means of the six values around each quantile; NaN if there are fewer values."""
    n, shares = len(values), np.array(at)
    if n < NEIGHBOURS:
        return np.full(len(shares), np.nan)
    start = np.ceil(shares * (n - 1)).astype(np.int64) - NEIGHBOURS // 2
    around = np.clip(start, 0, n - NEIGHBOURS)[:, None] + np.arange(NEIGHBOURS)
    return mean_of_neighbours(np.partition(values, np.unique(around))[around])


def mean_of_neighbours(near: FloatArray) -> FloatArray:
    """Means of rows of ascending values; equal values are a frequent value, which is kept exactly."""
    return np.where(near[:, 0] == near[:, -1], near[:, 0], (near / near.shape[1]).sum(axis=1))


def _thinned(rows: Any) -> Any:
    step = -(-rows.shape[0] // MOST_ROWS)
    return rows[::step] if step > 1 else rows
