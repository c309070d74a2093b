"""Ranges of the values of a column, and counts of rows in them.

The ranges of a column are fixed in training. The counts of positive and of unlabeled training rows
in them are the profile of the column, which the counts of new rows are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from drpu._codec import Array, kept
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import DataError

RANGES = 12  # ranges of values per column, besides one for missing values
RANGE_SHARES = tuple(k / (RANGES // 2) for k in range(1, RANGES // 2))  # shares of the quantiles
MOST_PROFILED_ROWS = 200_000  # of larger samples every k-th row is used
MOST_PROFILED_COLUMNS = 500  # rows with more columns, such as counts of words, are not profiled
RARE = 1  # cell of the rare levels of a category
# A limit between ranges is the mean of so many neighbouring values, so that no row decides it. The
# mean of an odd number of evenly spaced values would be one of them.
NEIGHBOURS = 6


@kept("cells")
@dataclass(frozen=True)
class Cells:
    """The division of the values of a column.

    ``edges``: Limits between ranges of numbers; one more cell is for missing values.
    ``codes``: For a category, the cell of each code instead: 0 for missing values, 1 for rare
    levels, and more for the others. Which levels are rare depends on the training rows, so new
    rows have more of them than training had, and that cell is not tested.
    """

    edges: Annotated[FloatArray, Array("e")]
    codes: Annotated[IntArray, Array("k", dtype="int", low=0, high=1000)] | None = None

    def __post_init__(self) -> None:
        if (np.diff(self.edges) <= 0).any():
            raise DataError("the limits between the ranges of a column must ascend.")

    @property
    def n(self) -> int:
        """Number of cells."""
        if self.codes is None:
            return len(self.edges) + 2
        return max(int(self.codes.max()), RARE) + 1

    @property
    def tested(self) -> IntArray:
        """The cells that are compared."""
        cells = np.arange(self.n)
        if self.codes is None:
            return cells
        return np.delete(cells, RARE)

    def count(self, values: FloatArray) -> IntArray:
        """Counts of values in the cells."""
        if self.codes is not None:
            return np.bincount(self._cells_of(values, self.codes), minlength=self.n)
        # a comparison with each of the few limits is several times faster than a search for each
        # value
        below = [np.count_nonzero(values < edge) for edge in self.edges]
        present = len(values) - np.count_nonzero(np.isnan(values))
        return np.diff([0, *below, present, len(values)]).astype(np.int64)

    def _cells_of(self, values: FloatArray, cell_of_code: IntArray) -> IntArray:
        """The cell of each code of a category; codes that training did not have are rare."""
        codes = np.where(np.isnan(values), 0, values).astype(np.int64)
        known = (codes >= 0) & (codes < len(cell_of_code))
        cells = np.full(len(codes), RARE)
        cells[known] = cell_of_code[codes[known]]
        return cells


@kept("column-profile")
@dataclass(frozen=True)
class ColumnProfile:
    """Counts of positive and unlabeled training rows in the ranges of one column."""

    name: str  # name of the column, or its position
    cells: Cells  # each limit is the mean of six values, so that it is not the value of a row
    positive: Annotated[FloatArray, Array("c", low=0)]
    unlabeled: Annotated[FloatArray, Array("c", low=0)]

    def __post_init__(self) -> None:
        counted = self.positive.any() and self.unlabeled.any()
        if len(self.positive) != self.cells.n or not counted:
            raise DataError(
                f"the profile of column {self.name!r:.100} must have counts in its ranges."
            )


def profile_columns(
    positive: Any, unlabeled: Any, names: Sequence[str], cells: Sequence[Cells | None] = ()
) -> tuple[ColumnProfile, ...]:
    """Profiles of the columns of two dense samples; none if there are more than 500 columns."""
    if len(names) > MOST_PROFILED_COLUMNS:
        return ()
    positive = _thinned(positive)
    unlabeled = _thinned(unlabeled)
    profiles = []
    for k, name in enumerate(names):
        positive_values = np.asarray(positive[:, k], dtype=np.float64)
        unlabeled_values = np.asarray(unlabeled[:, k], dtype=np.float64)
        column_cells = cells[k] if cells else None
        if column_cells is None:
            quantiles = [_quantiles(positive_values), _quantiles(unlabeled_values)]
            column_cells = Cells(range_limits(quantiles))
        profile = ColumnProfile(
            name=str(name),
            cells=column_cells,
            positive=column_cells.count(positive_values).astype(np.float64),
            unlabeled=column_cells.count(unlabeled_values).astype(np.float64),
        )
        profiles.append(profile)
    return tuple(profiles)


def count_columns(cells: Sequence[Cells], rows: Any) -> IntArray:
    """Counts of dense rows in the cells of each column, all columns in one array."""
    if rows.shape[1] != len(cells):
        raise DataError(
            f"rows must have the {len(cells)} columns of the profiles, got {rows.shape[1]}."
        )
    counts = [np.empty(0, dtype=np.int64)]
    for k, column_cells in enumerate(cells):
        values = np.ascontiguousarray(rows[:, k], dtype=np.float64)
        counts.append(column_cells.count(values))
    return np.concatenate(counts)


def column_quantiles(rows: Any) -> FloatArray:
    """Quantiles of each column at :data:`RANGE_SHARES`; NaN if there are fewer than six values.

    The shape is (d, 2 * shares): quantiles of all values, then quantiles of the values that are not
    repeated among the first ones. Without the latter, an amount that is usually 0 would have a
    single range. Each quantile is the mean of the six values around it.
    """
    n_columns = rows.shape[1]
    quantiles = np.empty((n_columns, 2 * len(RANGE_SHARES)))
    for k in range(n_columns):
        quantiles[k] = _quantiles(np.asarray(rows[:, k], dtype=np.float64))
    return quantiles


def range_limits(quantiles: Sequence[FloatArray]) -> FloatArray:
    """Limits between the ranges of a column."""
    edges: FloatArray = np.concatenate(list(quantiles))
    return np.unique(edges[np.isfinite(edges)])


def smooth_medians(rows: Any) -> FloatArray:
    """Means of the six middle values of columns, so that no row decides; 0 if there are fewer."""
    medians = np.empty(rows.shape[1])
    for k, column in enumerate(rows.T):
        present = column[~np.isnan(column)]
        medians[k] = _smooth_quantiles(present, shares=(0.5,))[0]
    return np.nan_to_num(medians)


def mean_of_neighbours(neighbours: FloatArray) -> FloatArray:
    """Means of rows of ascending values; equal ones are a frequent value, kept exactly."""
    first = neighbours[:, 0]
    last = neighbours[:, -1]
    means = (neighbours / neighbours.shape[1]).sum(axis=1)
    return np.where(first == last, first, means)


def _quantiles(values: FloatArray) -> FloatArray:
    """Quantiles of the values, and of the values that are not repeated among them."""
    present = values[~np.isnan(values)]
    quantiles = _smooth_quantiles(present, RANGE_SHARES)
    repeated = quantiles[1:][quantiles[1:] == quantiles[:-1]]
    quantiles_of_others = np.full(len(RANGE_SHARES), np.nan)
    if len(repeated) > 0:
        others = present[~np.isin(present, repeated)]
        quantiles_of_others = _smooth_quantiles(others, RANGE_SHARES)
    return np.concatenate([quantiles, quantiles_of_others])


def _smooth_quantiles(values: FloatArray, shares: Sequence[float]) -> FloatArray:
    """Means of the six values around each quantile; NaN if there are fewer values."""
    n = len(values)
    if n < NEIGHBOURS:
        return np.full(len(shares), np.nan)
    middle = np.ceil(np.array(shares) * (n - 1)).astype(np.int64)
    first = np.clip(middle - NEIGHBOURS // 2, 0, n - NEIGHBOURS)
    ranks = first[:, None] + np.arange(NEIGHBOURS)
    sorted_at_ranks = np.partition(values, np.unique(ranks))
    return mean_of_neighbours(sorted_at_ranks[ranks])


def _thinned(rows: Any) -> Any:
    """Every k-th row, so that at most :data:`MOST_PROFILED_ROWS` remain."""
    step = -(-rows.shape[0] // MOST_PROFILED_ROWS)
    return rows[:: max(step, 1)]
